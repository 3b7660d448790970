"""Model -> text, JSON, Markdown and HTML. Pure; what must not be seen is taken out here.

redact.py      secrets, in options, offsets, URLs and free text
words.py       amounts and times as people write them
verdict.py     evidence -> one sentence
failing.py     a start that is predicted to fail -> one sentence
document.py    evidence -> JSON, as `inspect.schema.json` describes it
text.py        evidence -> lines with styles
wrap.py        lines -> lines no wider than a terminal
markdown.py    evidence -> a page for an incident ticket
html.py        evidence -> one file with charts
charts.py      numbers -> SVG
style.py       the style sheet of that file
rows.py        what text, Markdown and HTML show alike
batches.py     one batch, or the range between two
table.py       rows of anything, aligned
listing.py     the checkpoints below a folder
"""

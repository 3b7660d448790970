"""Model -> text, JSON, Markdown and HTML. Pure; secrets are taken out here.

document.py       evidence -> JSON, as `inspect.schema.json` describes it
markdown.py       evidence -> a page for an incident ticket
html/             evidence -> one self-contained file
terminal/         evidence -> styled lines, wrapped to the terminal
diagnosis.py      a diagnosis -> text and JSON
check.py          checks -> text and JSON
batches.py        one batch, or the range between two -> text and JSON
listing.py        checkpoints below a folder -> text, JSON and Markdown
explanation.py    explanations -> text, and the reference page
verdict.py        evidence -> one sentence
start_failure.py  a restart that will fail -> one sentence
error_line.py     the text of an error -> the line that says what went wrong
rows.py           rows and phrases that text, Markdown and HTML share
words.py          amounts, times and batch ids, formatted for people
redact.py         take secrets out of options, offsets, URLs and free text
secrets/          how secrets are recognised
"""

"""Evidence -> one HTML file that needs nothing else.

page.py    evidence -> the page of one checkpoint
shell.py   the document around a page, its sections and lists
charts.py  numbers -> SVG
style.py   the style sheet, light and dark
"""

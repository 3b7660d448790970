"""Evidence -> styled lines for a terminal.

lines.py    styles, parts and lines: what every report for people is made of
text.py     evidence -> lines
table.py    rows -> aligned lines
wrap.py     lines -> lines no wider than the terminal
columns.py  how many columns a text takes
"""

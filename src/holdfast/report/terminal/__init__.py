"""Evidence -> styled lines for a terminal.

text.py     evidence -> lines
table.py    rows -> aligned lines
wrap.py     lines -> lines no wider than the terminal
columns.py  how many columns a text takes
"""

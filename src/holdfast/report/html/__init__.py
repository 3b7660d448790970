"""Evidence -> one HTML file that needs nothing else.

page.py    the page
charts.py  numbers -> SVG
style.py   the style sheet, light and dark
"""

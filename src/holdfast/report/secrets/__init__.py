"""Text -> the same text without secrets, one file per way to recognise a secret.

names.py   names of options that contain a secret
shapes.py  secrets with a shape of their own: keys, tokens, signatures
urls.py    users and passwords in URLs
values.py  values after a secret name
"""

"""Stage 1: bytes -> model. Total: any bytes give a value or `Unreadable`, never an exception."""

"""Sources: their folders, logs and positions.

offset_lines.py  which source, and which folder, a line of the offset log belongs to
positions.py     the position of each source, its first offset, what a batch read
file_logs.py     the logs of file sources, as far as a start reads them
taken_files.py   which files a file source read between two log offsets
kinesis.py       where a Kinesis batch ended
"""

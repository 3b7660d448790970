"""The offsets and logs of sources, and what the sources still have.

file_logs.py        do the logs of file sources contain what the offsets name?
files.py            do the files of the next batch still exist?
landing.py          are there landing files that a file source will not read?
foreign_offsets.py  does each offset line belong to the source whose folder lies beside it?
bare_numbers.py     can a source that counts in bare numbers deliver the same rows again?
delta_tables.py     does a Delta table still have the versions to read?
topics.py           does Kafka still have the offsets to read?
went_back.py        did a partition go back between two committed batches?
"""

"""Stage 3: one question a file; `asked` answers it from what was seen. Rules know no other rule.

identity.py        does the checkpoint know which query it belongs to?
damage.py          which files cannot be read, and does a start read them?
disagreement.py    do the two logs agree on what is done?
edited.py          does the offset log say what the runs have seen?
continuity.py      are entries missing inside a log?
pending.py         is a batch planned and not committed?
commits.py         is the whole commit log missing?
batch_progress.py   how far did a pending batch come, by the state that it left?
asynchronous.py    was asynchronous progress tracking turned off half way?
continuous.py      was it written in continuous mode?
checksums.py       are there hidden checksums of files that are gone?
sinks.py           do the sinks hold what the checkpoint counts as done?
source_logs.py     do the logs of file sources hold what the offsets name?
source_numbers.py  can a source that counts in bare numbers give again what it gave?
source_files.py    are the files of the batch still there?
landing.py         are there landing files that a file source will not read?
source_tables.py   does a Delta table still have the versions to read?
source_topics.py   does Kafka still have the offsets to read?
went_back.py       did a partition go back between two committed batches?
state.py           can the state be put together, and is it where its metadata says?
misplaced_state.py was state deleted without a trace, or put where Spark does not look?
hazards.py         does a known bug of this Spark threaten the state?
rewritten.py       was state written after its batch was committed?
settings.py        do the settings asked for have an effect?
drivers.py         is somebody running this query?
storage.py         does the storage last?
copies.py          is this checkpoint a copy of another, or inside another?
growth.py          does something grow without bound?
earlier.py         is this a Spark that the prediction is held against?
"""

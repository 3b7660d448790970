"""Bytes -> model, one file per on-disk format. Any bytes give a value or `Unreadable`.

log.py                what Spark's logs share: a version line, then JSON
metadata.py           `metadata`
offset_log.py         `offsets/N`
commit_log.py         `commits/N`
source_offset.py      the JSON of a source's offset, and the range between two offsets
source_shapes.py      the known shapes of source offsets
source_start.py       `sources/<i>/0` of Kafka and rate sources
file_source_log.py    `sources/<i>/K` of file sources
file_sink_log.py      `<output>/_spark_metadata/N`
operator_metadata.py  `state/<op>/_metadata/…`
state_schema.py       state schema files
rocksdb_zip.py        RocksDB snapshots
checksum.py           checksums, Spark's and Hadoop's
names.py              the path of a file -> the kind of file
plan.py               a logical plan -> its sources, watermarks and operators
plan_terms.py         expressions of a plan -> comparable texts
plan_tree.py          Spark's JSON of a plan -> a tree
fingerprint.py        a fingerprint in a run record, both ways
progress.py           the progress of a batch, as Spark reports it
event_log.py          a Spark event log
run_record.py         a segment of the run records
lease.py              a lease, both ways
"""

"""Storage of checkpoints and records: one port that reads and writes, and one that only reads.

store.py      the port that reads and writes: four verbs
reader.py     the port that only reads: three verbs
open.py       choose the implementation for a path or URL
local.py      read a folder of this machine
remote.py     read a folder of an object store or of HDFS
objects.py    local disk, S3, Google, Azure and memory, through obstore
hdfs.py       HDFS, through hdfs-native
exclusive.py  create a file that must not exist yet: leases and Delta commits depend on it
refusals.py   an error of an object store -> one sentence, and a hint
urls.py       the same place, spelled for each engine
mounts.py     which file system a path is on
"""

from holdfast.storage.open import open_reader as open_reader
from holdfast.storage.open import open_store as open_store
from holdfast.storage.reader import Children as Children
from holdfast.storage.reader import File as File
from holdfast.storage.reader import Piece as Piece
from holdfast.storage.reader import Portion as Portion
from holdfast.storage.reader import Reader as Reader
from holdfast.storage.reader import Refused as Refused
from holdfast.storage.reader import Subfolder as Subfolder
from holdfast.storage.store import Folder as Folder
from holdfast.storage.store import Missing as Missing
from holdfast.storage.store import Store as Store

"""Where checkpoints and records lie: a small port to use storage, and one that can only read.

store.py      the port to use storage: four verbs, of which only `create` is conditional
reader.py     the port to look at storage: three verbs, none of which can change anything
open.py       which implementation serves a path or URL
local.py      read a folder of this machine
remote.py     read a folder of an object store or of HDFS
objects.py    local disk, S3, Google, Azure and memory, through obstore
hdfs.py       HDFS, through hdfs-native
exclusive.py  create a name that must not exist: leases and Delta commits depend on it
refusals.py   what an object store answers when it fails -> one sentence
urls.py       one place, spelled as each engine wants it
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

"""Where checkpoints and records lie: one small port, and its implementations."""

from holdfast.storage.hdfs import HdfsStorage as HdfsStorage
from holdfast.storage.objects import ObjectStorage as ObjectStorage
from holdfast.storage.open import Folder as Folder
from holdfast.storage.open import open_store as open_store
from holdfast.storage.store import Missing as Missing
from holdfast.storage.store import Store as Store

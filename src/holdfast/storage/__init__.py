"""Where checkpoints and records lie: a small port to use storage, and one only to look at it."""

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

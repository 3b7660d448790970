"""Where checkpoints and records lie: one small port, and its implementation on object stores."""

from holdfast.storage.objects import ObjectStorage as ObjectStorage
from holdfast.storage.objects import open_store as open_store
from holdfast.storage.store import Missing as Missing
from holdfast.storage.store import Store as Store

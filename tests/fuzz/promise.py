"""What every decoder promises, for any bytes."""

from tests.formats import FORMATS
from tests.property.test_decoders import texts


def check(name: str, data: bytes) -> None:
    """Decode: a value that can be written again, and no exception."""
    found = FORMATS[name].decode(data)
    if name not in {"names", "lease"}:
        for text in texts(found):
            text.encode("utf-8")

"""Numbers -> PostgreSQL's binary `numeric`, exactly.

    int16 count of digits   int16 weight of the first   uint16 sign   int16 scale
    int16 digits of base 10000, the decimal point between two of them

All of a column get the same count of digits: the server drops leading and trailing zeros. 128 bits
are divided in limbs of 32, because numpy has no wider whole number than 64.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_INT64_DIGITS = 20
Limbs = list[npt.NDArray[np.uint64]]
_LOW = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)


def is_decimal(values: pa.Array) -> bool:
    """Whether these are decimals, and not whole numbers."""
    return bool(pa.types.is_decimal128(values.type))


def encode(values: "pa.Array | npt.NDArray[np.int64]") -> npt.NDArray[np.void]:
    """Decimals or whole numbers, all with the same count of digits."""
    if isinstance(values, np.ndarray):
        precision, scale = _INT64_DIGITS, 0
        limbs, negative = _split_ints(values)
    else:
        precision, scale = values.type.precision, values.type.scale
        limbs, negative = _split_decimals(values)
    whole, fraction = -(-(precision - scale) // 4), -(-scale // 4)
    if scale % 4:
        _multiply(limbs, 10 ** (4 - scale % 4))
    count = whole + fraction
    digits = np.empty((len(values), count), ">i2")
    for place in reversed(range(count)):
        digits[:, place] = _divide(limbs, 10_000)
    head = [("count", ">i2"), ("weight", ">i2"), ("sign", ">u2"), ("scale", ">i2")]
    made = np.empty(len(values), np.dtype([*head, ("digits", ">i2", (count,))]))
    made["count"], made["weight"], made["scale"] = count, whole - 1, scale
    made["sign"] = np.where(negative, 0x4000, 0)
    made["digits"] = digits
    return made


def _split_decimals(values: pa.Array) -> tuple[Limbs, npt.NDArray[np.bool_]]:
    """Decimals without their sign, in limbs of 32 bits, the lowest first, with one to spare."""
    stored = np.frombuffer(values.buffers()[1], np.uint32).reshape(-1, 4)
    words = stored[values.offset : values.offset + len(values)]
    negative = words[:, 3] >> 31 == 1
    carry = negative.astype(np.uint64)
    limbs: Limbs = []
    for place in range(4):
        word = np.where(negative, ~words[:, place], words[:, place]).astype(np.uint64) + carry
        limbs.append(word & _LOW)
        carry = word >> _HALF
    return [*limbs, np.zeros(len(values), np.uint64)], negative


def _split_ints(values: npt.NDArray[np.int64]) -> tuple[Limbs, npt.NDArray[np.bool_]]:
    negative = values < 0
    sizes = np.where(negative, ~values, values).astype(np.uint64) + negative.astype(np.uint64)
    return [sizes & _LOW, sizes >> _HALF], negative


def _multiply(limbs: Limbs, factor: int) -> None:
    carry = np.zeros(len(limbs[0]), np.uint64)
    for place, limb in enumerate(limbs):
        product = limb * np.uint64(factor) + carry
        limbs[place] = product & _LOW
        carry = product >> _HALF


def _divide(limbs: Limbs, divisor: int) -> npt.NDArray[np.uint64]:
    """Divide in place; returns the remainders."""
    rest = np.zeros(len(limbs[0]), np.uint64)
    for place in reversed(range(len(limbs))):
        limbs[place], rest = np.divmod((rest << _HALF) | limbs[place], np.uint64(divisor))
    return rest

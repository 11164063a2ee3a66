"""Sets of positions, such as those of offers in an offer set, as the bits of one number."""

from collections.abc import Iterator, Sequence


def as_bits(positions: Sequence[int]) -> int:
    """Return a number with a bit for each of these positions, which are ascending.

    >>> bin(as_bits([0, 3]))
    '0b1001'
    """
    if not positions:
        return 0
    marks = bytearray(positions[-1] // 8 + 1)
    for position in positions:
        marks[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(marks, "little")


def bit_positions(bits: int) -> list[int]:
    """Return the positions of the set bits, ascending.

    >>> bit_positions(0b10110)
    [1, 2, 4]
    """
    text = bin(bits)[:1:-1]
    found, start = [], text.find("1")
    while start >= 0:
        found.append(start)
        start = text.find("1", start + 1)
    return found


def bit_positions_descending(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits, descending. Offers are sorted by name, so this order is not related to
    size.

    >>> list(bit_positions_descending(0b10110))
    [4, 2, 1]
    """
    while bits:
        position = bits.bit_length() - 1
        yield position
        bits ^= 1 << position

"""Text in aligned columns, as kubectl prints it; the same in a terminal and in a pipe.

>>> print(format_columns(["POOL", ">PODS"], [["default", "3"], ["gpu", "12"]]))
POOL     PODS
default     3
gpu        12
"""

from collections.abc import Sequence
from typing import Final

GAP: Final = "  "


def format_columns(headings: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Return one line for each row. A heading that begins with ``>`` aligns its column to the right."""
    shown = [[one.removeprefix(">") for one in headings], *([_printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[position]) for row in shown) for position in range(len(headings))]
    lines = []
    for row in shown:
        cells = [
            cell.rjust(width) if heading.startswith(">") else cell.ljust(width)
            for cell, width, heading in zip(row, widths, headings, strict=True)
        ]
        lines.append((indent + GAP.join(cells)).rstrip())
    return "\n".join(lines)


def _printable(cell: str) -> str:
    """Replace control characters: names in manifests are untrusted and could move the cursor."""
    return "".join(one if one.isprintable() else "?" for one in cell)


def name_pool(key: str) -> str:
    """Return the name of a pool by its key. A claim of a user, which is launched for itself, keeps its kind.

    >>> name_pool("NodePool/default"), name_pool("NodeClaim/mine")
    ('default', 'NodeClaim/mine')
    """
    kind, _, name = key.partition("/")
    return name if kind in ("NodePool", "Provisioner") else key


def shorten_names(keys: Sequence[str], *, most: int = 6) -> str:
    """List names, with consecutive numbers as a range.

    >>> shorten_names(["shop/web-0", "shop/web-1", "shop/web-2", "shop/db-0", "shop/web-7"])
    'shop/db-0, shop/web-0…2, shop/web-7'
    """
    runs: list[tuple[str, int, int]] = []
    others: list[str] = []
    numbered = sorted((prefix, int(number)) for prefix, number in map(_split_number, keys) if number)
    for prefix, number in numbered:
        if runs and runs[-1][0] == prefix and runs[-1][2] in (number, number - 1):
            runs[-1] = (prefix, runs[-1][1], number)
        else:
            runs.append((prefix, number, number))
    others = [key for key in keys if not _split_number(key)[1]]
    listed = sorted([*others, *(f"{p}{a}" if a == b else f"{p}{a}…{b}" for p, a, b in runs)])
    return ", ".join(listed) if len(listed) <= most else f"{', '.join(listed[:most])} and {len(listed) - most} more"


def _split_number(key: str) -> tuple[str, str]:
    """Split ``web-12`` into ``web-`` and ``12``; the number is empty if there is none, or with leading zeros
    (``web-007``).
    """
    prefix, dash, number = key.rpartition("-")
    counted = dash and number.isascii() and number.isdecimal() and len(number) < 10 and str(int(number)) == number
    return (f"{prefix}-", number) if counted else (key, "")


def format_dollars(amount: float) -> str:
    """Format an amount in US$ with four decimals.

    >>> format_dollars(0.096), format_dollars(1234.5), format_dollars(0.0)
    ('$0.0960', '$1,234.5000', '$0.0000')
    """
    return f"${amount:,.4f}"


def format_percent(share: float) -> str:
    """Format a share (1.0 is all) as a percentage.

    >>> format_percent(0.0312), format_percent(0.0)
    ('3.1 %', '0.0 %')
    """
    return f"{share * 100:.1f} %"

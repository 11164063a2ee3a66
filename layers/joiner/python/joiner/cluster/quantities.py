"""Kubernetes quantities (``100m``, ``1.5Gi``, ``2e3``): read exactly, and written in the usual form.

Source: Kubernetes API reference, "Quantity". Amounts are rounded as in Kubernetes: away from zero, to a whole unit.
Limits are rounded down: whole amounts are within 1.5 if they are within 1.

>>> parse_amount("1500m"), parse_amount("1.5Gi"), parse_amount("2e3"), parse_amount("1k")
(2, 1610612736, 2000, 1000)
>>> parse_amount("1500m", scale=1000), parse_amount("100u", scale=1000)
(1500, 1)
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from joiner.cluster.invalid_field import InvalidField

PATTERN: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d{1,3}))?"
)
SUFFIXES: Final[Mapping[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
LARGEST: Final = 2**63 - 1  # the largest amount in Kubernetes
MAX_DIGITS: Final = 1000  # of a quantity; Python refuses to convert much longer numbers


def parse_amount(quantity: str | int | float, *, scale: int = 1, down: bool = False) -> int:
    """Return the amount in units of ``1 / scale``, rounded away from zero, or ``down``. InvalidField if it is not a
    quantity.

    Numbers are also accepted, because YAML allows them (``cpu: 2``).

    >>> parse_amount("1500m", down=True), parse_amount("-1500m", down=True)
    (1, -2)
    """
    amount = None if isinstance(quantity, bool) else _parse_text(str(quantity), scale, down)
    if amount is None:
        raise InvalidField("", quantity, "write a Kubernetes quantity such as 500m, 2 or 4Gi")
    return amount


@lru_cache(maxsize=4096)  # the settings of one class are parsed again for each instance type
def _parse_text(text: str, scale: int, down: bool) -> int | None:
    found = PATTERN.fullmatch(text)
    if found is None:
        return None
    factor = (
        Fraction(10) ** int(found["exponent"])
        if found["exponent"]
        else SUFFIXES.get(found["suffix"] or "", Fraction(1))
    )
    if len(found["number"]) > MAX_DIGITS:
        return None
    exact = Fraction(found["number"]) * factor * scale
    if down and exact >= 0:
        return min(exact.numerator // exact.denominator, LARGEST)
    whole = -(-abs(exact).numerator // exact.denominator)
    return min(whole, LARGEST) if exact >= 0 else -min(whole, LARGEST)


def format_bytes(amount: int) -> str:
    """Return bytes with the largest binary suffix that is exact.

    >>> format_bytes(3 * 2**30), format_bytes(1536 * 2**20), format_bytes(1000)
    ('3Gi', '1536Mi', '1000')
    """
    for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
        if amount and amount % SUFFIXES[suffix].numerator == 0:
            return f"{amount // SUFFIXES[suffix].numerator}{suffix}"
    return str(amount)


def format_cpu(millicores: int) -> str:
    """Return millicores as cores, if they are whole, or else as millicores.

    >>> format_cpu(2000), format_cpu(1930)
    ('2', '1930m')
    """
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"


def format_amount(name: str, value: int) -> str:
    """Return a quantity of a resource in its usual form; ``value`` in millicores, bytes or pieces.

    >>> format_amount("cpu", 117030), format_amount("memory", 1536 * 2**20), format_amount("nvidia.com/gpu", 2)
    ('117.03 cpu', '1.5 GiB memory', '2 nvidia.com/gpu')
    >>> format_amount("pods", 1), format_amount("pods", 2)
    ('1 pod', '2 pods')
    """
    if name == "cpu":
        return f"{f'{value / 1000:.3f}'.rstrip('0').rstrip('.')} cpu"
    if _in_bytes(name):
        gib = f"{value / 2**30:.1f}".removesuffix(".0")
        return f"{gib} GiB {name}" if value >= 2**29 else f"{value / 2**20:.0f} MiB {name}"
    return f"{value} {'pod' if name == 'pods' and value == 1 else name}"


def round_up_amount(name: str, value: int) -> int:
    """Return the least amount, not below ``value``, that `format_amount` shows in full. Of an amount that is missing,
    less is not enough.

    >>> format_amount("memory", 787480576), format_amount("memory", round_up_amount("memory", 787480576))
    ('0.7 GiB memory', '0.8 GiB memory')
    >>> round_up_amount("memory", 2**20 + 1) // 2**20, round_up_amount("cpu", 4110)
    (2, 4110)
    """
    if not _in_bytes(name):
        return value
    if value <= 2**29 - 2**20:
        return -(-value // 2**20) * 2**20
    tenths = max(-(-value * 10 // 2**30), 5)
    return tenths * 2**30 // 10


def format_shortage(name: str, value: int) -> str:
    """Return an amount that is missing in its usual form, rounded up.

    >>> format_shortage("memory", 1), format_shortage("memory", 2**30 + 1), format_shortage("cpu", 4110)
    ('1 MiB memory', '1.1 GiB memory', '4.11 cpu')
    """
    return format_amount(name, round_up_amount(name, value))


def _in_bytes(name: str) -> bool:
    return name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")

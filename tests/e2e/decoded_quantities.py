"""Quantities of the API server as numbers."""

from collections.abc import Mapping
from typing import Any


def millicores(quantity: str) -> int:
    """A CPU quantity in thousandths.

    >>> millicores("1930m"), millicores("2")
    (1930, 2000)
    """
    return int(quantity[:-1]) if quantity.endswith("m") else round(float(quantity) * 1000)


def mebibytes(quantity: str) -> float:
    """A quantity of memory.

    >>> mebibytes("2Gi"), mebibytes("512Mi"), mebibytes("1048576")
    (2048.0, 512.0, 1.0)
    """
    units = {
        "Ki": 1 / 1024,
        "Mi": 1.0,
        "Gi": 1024.0,
        "Ti": 1048576.0,
        "k": 1000 / 1048576,
        "M": 1e6 / 1048576,
        "G": 1e9 / 1048576,
    }
    unit = next((unit for unit in units if quantity.endswith(unit)), "")
    return float(quantity.removesuffix(unit)) * units[unit] if unit else float(quantity) / 1048576


def requested_millicores(pod: Mapping[str, Any]) -> int:
    """The CPU that the containers of a pod ask for."""
    return sum(
        millicores(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"]
    )

"""An offer: one instance type in one zone at its price, that can hold what a claim is for. The capacity type is the
launch's.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class LaunchOffering:
    """Ordered by price, then by name, so that every run asks in the same order."""

    price_per_hour: float
    instance_type: str
    zone: str

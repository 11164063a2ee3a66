"""An offering of a launch: one instance type in one zone at its price, large enough for a claim.

The capacity type is that of the launch.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class LaunchOffering:
    """An offering, ordered by price, then by name, so that every run uses the same order."""

    price_per_hour: float
    instance_type: str
    zone: str

"""What the settings of a cluster require of plans: ceilings, tolerances, and policies."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The maximum over all pools of the cluster: number of managed nodes, and their price in $/h. None means no
    ceiling."""

    nodes: int | None = None
    price_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class PlanTolerances:
    """By which shares a plan may cost more than the cheapest one that was found: for fewer and larger nodes and fewer
    instance types, and for nodes in more zones."""

    fewer_nodes: float = 0.005
    zones: float = 0.01


@dataclass(frozen=True, slots=True)
class PlanPolicies:
    """``preferences``: plans satisfy the preferences of pods where that costs nothing. ``best_effort``: minValues are
    kept as far as possible instead of strictly."""

    preferences: bool = True
    best_effort: bool = False


NO_CEILINGS: Final = Ceilings()
DEFAULT_TOLERANCES: Final = PlanTolerances()
DEFAULT_POLICIES: Final = PlanPolicies()

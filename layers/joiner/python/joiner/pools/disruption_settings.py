"""What the annotations of a pool set for the disruption of its nodes, beyond the fields that Karpenter defines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final

from joiner.pools.time_zones import DEFAULT_TIME_ZONE

HALF_HOUR: Final = 1800
REPAIR_TOLERANCES: Final[Mapping[str, int]] = {
    "Ready": HALF_HOUR,
    "AcceleratedHardwareReady": 600,
    "ContainerRuntimeReady": HALF_HOUR,
    "KernelReady": HALF_HOUR,
    "NetworkingReady": HALF_HOUR,
    "StorageReady": HALF_HOUR,
}
"""Condition of a node -> the seconds for which it may be bad. All but Ready are set by the EKS node monitoring agent.

Source: Karpenter, provider AWS, RepairPolicies.
"""


@dataclass(frozen=True, slots=True)
class DriftSettings:
    """How drifted nodes are replaced.

    With ``replace`` false, drift is only detected. ``canary`` is a number or a percentage of the pool's nodes: so many
    replacements must be initialized and Ready for ``canary_seconds`` before other drifted nodes are replaced.
    """

    replace: bool = True
    canary: str = "0"
    canary_seconds: int = 600


@dataclass(frozen=True, slots=True)
class ExpirationSettings:
    """How expired nodes end.

    With ``graceful`` they are replaced within the budgets. ``spread`` is the percentage of the maximum age over which
    the ends of nodes are distributed: each node is due at a fixed point of the last ``spread`` percent of its time.
    """

    graceful: bool = False
    spread: int = 10


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """When unhealthy nodes are replaced.

    ``tolerances`` gives the seconds for which a condition may be bad; None means that the condition is ignored.
    """

    enabled: bool = True
    tolerances: Mapping[str, int | None] = field(default_factory=lambda: dict(REPAIR_TOLERANCES))


@dataclass(frozen=True, slots=True)
class DisruptionSettings:
    """The settings of one pool.

    ``time_zone`` is that of the budgets' schedules; None if it is not known. ``rebalance`` is what becomes of nodes
    whose Spot Instance EC2 recommends to replace: ``ignore``, ``replace`` (replacement first) or ``drain`` (at once).
    """

    time_zone: tzinfo | None = DEFAULT_TIME_ZONE
    drift: DriftSettings = field(default_factory=DriftSettings)
    expiration: ExpirationSettings = field(default_factory=ExpirationSettings)
    repair: RepairSettings = field(default_factory=RepairSettings)
    rebalance: str = "ignore"


def count_share(share: str, nodes: int) -> int:
    """Return a number of nodes; a percentage is of `nodes` and rounded up.

    >>> count_share("10%", 11), count_share("3", 11)
    (2, 3)
    """
    return -(-nodes * int(share[:-1]) // 100) if share.endswith("%") else int(share)

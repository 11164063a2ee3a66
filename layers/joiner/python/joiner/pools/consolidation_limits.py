"""What limits the consolidation of a pool beyond Karpenter's fields. Users set it by annotations of the pool."""

from dataclasses import dataclass
from typing import Final

LONGEST_COOL_DOWN: Final = 24 * 3600
"""Seconds for which the ledger keeps what was moved."""
LEAST_AGE_OF_REPLACEMENTS: Final = 600
"""The default ``least_node_age`` of a node that a disruption launched."""


@dataclass(frozen=True, slots=True)
class ConsolidationLimits:
    """The limits of one pool; the defaults limit nothing that Karpenter does not limit.

    ``least_saving_per_hour`` ($/h) and ``least_saving_percent`` (of the price of the removed nodes) must be saved by
    each action. ``least_node_age`` (s) counts from the creation of the claim, for nodes that a disruption launched from
    their initialization; None for the default (``LEAST_AGE_OF_REPLACEMENTS`` for nodes that a disruption launched, else
    0). ``evictions_per_day`` limits the pods that consolidation moves in 24 hours.
    ``workload_cool_down`` (s) is the time in which a workload whose pod was moved is not moved again, at most
    ``LONGEST_COOL_DOWN``. ``spot_to_spot`` allows a spot node as the replacement of spot nodes;
    ``spot_to_spot_least_types`` is the number of cheaper types among which the fleet must be able to choose if one
    node is replaced. Empty nodes are removed without regard to the limits.

    ``unreadable`` is whether some annotation is not valid. Then only empty nodes are removed.
    """

    least_saving_per_hour: float = 0.0
    least_saving_percent: float = 0.0
    least_node_age: int | None = None
    evictions_per_day: int | None = None
    workload_cool_down: int = 0
    spot_to_spot: bool = False
    spot_to_spot_least_types: int = 15
    unreadable: bool = False

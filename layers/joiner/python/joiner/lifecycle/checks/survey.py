"""What a sweep saw of the cluster, and what a check is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from joiner.cluster import Node, Pod
from joiner.lifecycle.progress import Progress, progress
from joiner.lifecycle.watching import WATCHED_FOR
from joiner.pools import NodeClaim


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One look at the cluster and at the ledger, at `now`.

    `watches` gives, for each wave, when it was last seen to (epoch seconds) and its claims.
    """

    now: datetime
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    launching: frozenset[str] = frozenset()
    watches: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    assignments: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lease: int = 0

    @property
    def progress(self) -> Progress:
        """Where the claims stand."""
        living = (self.now - WATCHED_FOR).timestamp()
        watched = {claim for seen_at, claims in self.watches.values() if seen_at >= living for claim in claims}
        return progress(self.claims, launching=self.launching, watched=watched, lease=self.lease)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to look for: the sweep answers the number of cases under `name`."""

    name: str
    look: Callable[[ClusterSurvey], list[str]]

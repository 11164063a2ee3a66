"""The hold of a pool: no node of it is launched for pods of one class, because its last nodes never became ready for
them.

A hold is for one pod class and one pool. It ends at its time, when a node of that pool becomes ready for pods of the
class, and when the edition changes: pool, node class, a DaemonSet or a NodeOverlay was corrected. Other pods get nodes
of the pool, and the pods of the class get nodes of other pools.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from joiner.cluster import DaemonSet
from joiner.pools.node_overlays import Overlays
from joiner.pools.timestamps import format_timestamp

OF_REPLICAS: Final = ""
"""The pod class of nodes that are launched without pods: the replicas of a static pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHold:
    """The failures in a row of the nodes of one pool, and until when none is launched for the pod class.

    `pool` is the pool's key. `device` is the extended resource that the last node did not register: only pods that
    request it wait. It is empty if the node did not join, or was not ready for another reason. `edition` describes what
    the last node was made from (`describe_edition`). Times are in epoch seconds: `launched_at` and `failed_at` of the
    last node that counted, `until` of the end of the hold, at most `failed_at` if nothing is held. `claim` is the name
    of the node's claim, `cause` what it lacked and the remedy, as sentences.
    """

    pool: str
    class_key: str
    device: str
    edition: str
    launched_at: int
    failed_at: int
    failures: int
    until: int
    claim: str
    cause: str

    @property
    def id(self) -> str:
        """Return the id of its item. None of the parts has a space."""
        return f"{self.pool} {self.class_key} {self.device}"

    def holds(self, now: int) -> bool:
        """Return whether no node is launched at ``now`` (epoch s), if the edition is unchanged."""
        return now < self.until

    @property
    def reason(self) -> str:
        """Return why the pool is not used for the pods, until when, and what ends it earlier."""
        nodes = "its last node here" if self.failures == 1 else f"its last {self.failures} nodes here in a row"
        return (
            f"{nodes} never became ready for it, so none is launched until {describe_end(self.until)}. "
            f"NodeClaim {self.claim}: {self.cause}"
        )


def describe_end(until: int) -> str:
    """Return until when a hold lasts, and what ends it earlier.

    >>> describe_end(1795867200)
    '2026-11-28T12:00:00Z, or until the pool, its class, a DaemonSet or a NodeOverlay is changed'
    """
    at = format_timestamp(datetime.fromtimestamp(until, UTC))
    return f"{at}, or until the pool, its class, a DaemonSet or a NodeOverlay is changed"


def describe_edition(pool_uid: str, generations: str, daemon_sets: Iterable[DaemonSet], overlays: Overlays) -> str:
    """Return what a node of a pool is made from, as a text that changes when one of the parts is changed or replaced.

    ``generations`` are those of the pool and its class (``registration_health.format_generations``). Of overlays, only
    the capacity counts: it may be a device that no node registers.
    """
    parts = [f"daemon set {one.key}/{one.uid}/{one.generation}" for one in daemon_sets]
    parts += [f"overlay {one.requirements}/{sorted(one.capacity.items())}" for one in overlays.ordered if one.capacity]
    digest = hashlib.blake2b("\n".join(sorted(parts)).encode(), digest_size=8).hexdigest()
    return f"{pool_uid} {generations} {digest}"

"""When drift is detected and every node class is resolved: every five minutes, and when a pool or a class changes.

Images, security groups and subnets change without a sign in the cluster, as in Karpenter, which checks them every five
minutes.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from joiner.pools import NodeClaim, NodeClass, NodePool

DETECTED_EVERY: Final = 300
"""Seconds between two detections while pools and classes stay the same."""


@dataclass(frozen=True, slots=True)
class LastDetection:
    """A detection: the digest of pools and classes, and its time (epoch seconds)."""

    digest: str = ""
    at: int = 0


def digest_pools(pools: Iterable[NodePool], classes: Iterable[NodeClass]) -> str:
    """Return the digest of the versions of pools and classes."""
    versions = sorted(
        f"{key}/{uid}/{generation}"
        for key, uid, generation in (
            *((each.key, each.uid, each.generation) for each in pools),
            *((each.key, each.uid, each.generation) for each in classes),
        )
    )
    return hashlib.sha256("\n".join(versions).encode()).hexdigest()[:20]


def is_detection_due(
    claims: Iterable[NodeClaim], classes: Iterable[NodeClass], digest: str, last: LastDetection, now: int
) -> bool:
    """Return whether drift is to be detected; never without a launched claim or a class.

    >>> is_detection_due([], [], "a", LastDetection(), 1000), is_detection_due([], [NodeClass("default")], "a",
    ... LastDetection(), 1000)
    (False, True)
    """
    launched = any(claim.launched and not claim.deleting for claim in claims)
    if not launched and not any(one.kind != "Inline" for one in classes):
        return False
    return digest != last.digest or now - last.at >= DETECTED_EVERY

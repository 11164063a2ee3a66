"""The memory that nodes really have, by instance type and image.

EC2 describes the memory of an instance type, of which firmware, hypervisor and kernel keep a part that depends on type
and image. Until a node of both has joined, plans reckon with the share of the settings. Then they use the least memory
that any such node has reported, within the limits of ``InstanceType.with_memory``. Source: Karpenter, aws provider
``pkg/providers/instancetype`` (discovered capacity).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from joiner.cluster import Node
from joiner.cluster.resources import MEMORY
from joiner.pools import NodeClaim

KEPT: Final = timedelta(days=60)
"""How long an observation counts after the last node with no more memory was seen: nodes with more do not prolong it,
so that a wrong report ends, as in Karpenter."""
RENEWED: Final = timedelta(days=1)
"""The age after which the time of an observation is written again."""


@dataclass(frozen=True, slots=True)
class ObservedMemory:
    """The least memory in bytes that nodes of one type and image reported; ``at`` is when the last node with so little
    was seen (epoch seconds, exact to a day)."""

    size: int
    at: int


ObservedMemories = Mapping[str, Mapping[str, ObservedMemory]]
"""Observations by instance type and id of the image."""


def memory_of_nodes(nodes: Iterable[tuple[NodeClaim, Node]]) -> dict[str, dict[str, int]]:
    """Return the least memory in bytes of these nodes, by instance type and id of the image.

    Nodes that have not registered, or whose type or image is unknown, are left out.
    """
    found: dict[str, dict[str, int]] = {}
    for claim, node in nodes:
        size = node.capacity.get(MEMORY, 0)
        if size > 0 and claim.instance_type and claim.image_id:
            of_type = found.setdefault(claim.instance_type, {})
            of_type[claim.image_id] = min(of_type.get(claim.image_id, size), size)
    return found


def note_observed_memory(
    before: ObservedMemories, seen: Mapping[str, Mapping[str, int]], now: datetime
) -> ObservedMemories:
    """Return the observations after a sweep that saw these sizes in bytes: equal to ``before`` if nothing is to be
    written. Observations that are too old are left out.

    >>> noon = datetime.fromtimestamp(1_000_000)
    >>> note_observed_memory({}, {"m5.large": {"ami-1": 7}}, noon)
    {'m5.large': {'ami-1': ObservedMemory(size=7, at=1000000)}}
    >>> note_observed_memory({"m5.large": {"ami-1": ObservedMemory(5, 999_000)}}, {"m5.large": {"ami-1": 7}}, noon)
    {'m5.large': {'ami-1': ObservedMemory(size=5, at=999000)}}
    """
    at = int(now.timestamp())
    after = {name: dict(of_type) for name, of_type in before.items()}
    for name, sizes in seen.items():
        of_type = after.setdefault(name, {})
        for image, size in sizes.items():
            known = of_type.get(image)
            again = known is not None and size == known.size and at - known.at >= RENEWED.total_seconds()
            if known is None or size < known.size or again:
                of_type[image] = ObservedMemory(size, at)
    valid = {name: _not_expired(of_type, at) for name, of_type in after.items()}
    return {name: of_type for name, of_type in valid.items() if of_type}


def valid_memory(observed: ObservedMemories, now: datetime) -> dict[str, dict[str, int]]:
    """Return the sizes in bytes of the observations that still count, by instance type and id of the image."""
    at = int(now.timestamp())
    valid = {name: _not_expired(of_type, at) for name, of_type in observed.items()}
    return {name: {image: one.size for image, one in of_type.items()} for name, of_type in valid.items() if of_type}


def _not_expired(of_type: Mapping[str, ObservedMemory], at: int) -> dict[str, ObservedMemory]:
    return {image: one for image, one in of_type.items() if at - one.at < KEPT.total_seconds()}

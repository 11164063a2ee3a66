"""How much one node may hold, by the blast radius of its pool: vCPUs, or a share of the pods of each workload.

A radius of vCPUs closes larger types to every group of pods that a smaller type of the pool can hold. A share is a rule
of the group about hosts. It applies where every pool that the group may use has a share, because the rules of a group
do not depend on the pool; the largest of them counts. In other cases only the merging of nodes respects the share.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from joiner.cluster.resources import CPU
from joiner.planning.model.node_offers import OfferSet, PoolOffers
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.pools import NodePool

TINY: Final = 1e-9


def most_on_a_node(group: PodGroup, share: float) -> int:
    """Return how many of the group's pods one node may hold, at least one; running pods of the group count.

    >>> from joiner.cluster import Pod
    >>> pod = Pod("default", "web-1")
    >>> group = PodGroup(0, pod.constraints, "default", labels={}, pods=(pod,) * 9)
    >>> most_on_a_node(group, 0.25), most_on_a_node(group, 0.01)
    (2, 1)
    """
    return max(int((len(group.pods) + group.running) * share + TINY), 1)


def share_of(group: PodGroup, offered_pools: Iterable[PoolOffers]) -> float | None:
    """Return the share of the group's pods that one new node may hold; None if a pool that may launch one has none."""
    shares = [
        one.pool.planning.blast_radius.share
        for one in offered_pools
        if any(variant.bits.get(group.index) for variant in one.variants)
        and group.constraints.untolerated(one.pool.taints) is None
    ]
    limited = [share for share in shares if share is not None]
    return max(limited) if limited and len(limited) == len(shares) else None


def within_vcpus(
    pool: NodePool, offer_set: OfferSet, groups: Sequence[PodGroup], accepted: Mapping[int, int]
) -> dict[int, int]:
    """Return the offers that each group may use, by its index as bits, without types above the pool's radius.

    `accepted` are those whose labels it accepts. A group that no smaller type can hold keeps all of them.
    """
    most = pool.planning.blast_radius.vcpus
    if most is None:
        return dict(accepted)
    small = [one for one in offer_set.launchable if one.capacity.get(CPU, 0) <= most * 1000]
    mask = sum(1 << one.index for one in small)
    return {
        group.index: accepted[group.index] & mask
        if any(accepted[group.index] >> one.index & 1 and fits(group, one.free) for one in small)
        else accepted[group.index]
        for group in groups
    }

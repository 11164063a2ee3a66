"""How much one node may hold, by the blast radius of its pool: vCPUs, or a share of the pods of each workload.

A radius of vCPUs closes larger types to the groups of pods that a smaller type of the pool in the same zone can hold.
It does not hold for pods that must share a host-like domain with others: together they may need a larger node.

A share is a rule of the group about hosts. It applies where every pool that the group may use has a share, because the
rules of a group do not depend on the pool; the largest of them counts. In other cases only the merging of nodes
respects the share.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.cluster import PodAffinityTerm
from joiner.cluster.resources import CPU
from joiner.planning.model.node_offers import NodeOffer, OfferSet, Openings, PoolOffers
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.tuning import TINY
from joiner.pools import NodePool
from joiner.pools.pool_planning import BlastRadius

WIDE_DOMAINS: Final = frozenset({names.ZONE, names.ZONE_ID, names.REGION})
"""Labels of domains that have room for any number of nodes. Pods that share a domain of another label may share a
node."""


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


def as_running(pool: NodePool) -> NodePool:
    """Return the pool without the rules that only new nodes keep: its running nodes may be larger than the blast
    radius, and of exotic types."""
    return replace(pool, planning=replace(pool.planning, blast_radius=BlastRadius(), every_type=True))


def within_vcpus(pool: NodePool, offer_set: OfferSet, groups: Sequence[PodGroup], openings: Openings) -> Openings:
    """Return the offers that each group may use without types above the pool's radius.

    In a zone where no smaller type with unlimited supply that the group may open can hold it, it keeps all of them. So
    does a group that must be with other pods on a host, or that others must be with.
    """
    most = pool.planning.blast_radius.vcpus
    if most is None:
        return openings
    small: dict[str | None, list[NodeOffer]] = {}
    for one in offer_set.launchable:
        if one.capacity.get(CPU, 0) <= most * 1000:
            small.setdefault(one.label(names.ZONE), []).append(one)
    large = {
        zone: bits & ~sum(1 << one.index for one in small.get(zone, ()))
        for zone, bits in offer_set.positions(names.ZONE)[0].items()
    }
    neighbours = find_host_neighbours(groups)
    found = dict(openings.accepted)
    for group in groups:
        if group in neighbours:
            continue
        mine = openings.opened[group.index]
        for zone, bits in large.items():
            if any(
                mine >> one.index & 1 and one.supply is None and fits(group, one.free) for one in small.get(zone, ())
            ):
                found[group.index] &= ~bits
    return openings.only(found)


def find_host_neighbours(groups: Sequence[PodGroup]) -> dict[PodGroup, list[PodGroup]]:
    """Return by group all groups, itself included, whose pods required affinity may force onto a host with its pods. No
    other groups are keys."""
    terms = {group: mine for group in groups if (mine := _host_affinity(group))}
    found: dict[PodGroup, list[PodGroup]] = {}
    for group in groups if terms else ():
        mine = terms.get(group, [])
        near = [one for one in groups if any(_may_select(term, one) for term in mine)] if mine else []
        near += [one for one, its in terms.items() if one not in near and any(_may_select(term, group) for term in its)]
        if near or mine:
            found[group] = near if group in near else [group, *near]
    return found


def _host_affinity(group: PodGroup) -> list[PodAffinityTerm]:
    """Return the terms of required affinity that may force pods onto one node."""
    return [term for term in group.constraints.affinity if term.topology_key not in WIDE_DOMAINS]


def _may_select(term: PodAffinityTerm, group: PodGroup) -> bool:
    """Return whether a term selects the group, if a selector of namespaces selects its namespace."""
    there = group.namespace in term.namespaces or term.namespace_selector.requirements is not None
    return there and term.selector.selects(group.labels)

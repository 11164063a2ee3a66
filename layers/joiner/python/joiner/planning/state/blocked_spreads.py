"""Topology spreads that empty domains block: domains in which their own pods can have no node.

kube-scheduler counts every domain that has a node, also a node whose taints the pod does not tolerate
(``nodeTaintsPolicy: Ignore`` is the default). One GPU node in a zone without nodes for a Deployment therefore keeps the
pods of the Deployment at ``maxSkew`` in every other zone. Nodes of other pods stay out of such a domain if that places
more pods. Source: Kubernetes, "Pod Topology Spread Constraints".
"""

from collections.abc import Collection, Mapping
from typing import Final

from joiner import names
from joiner.planning.model.node_offers import Unavailable
from joiner.planning.model.offer_compilation import ANY_VALUE
from joiner.planning.model.offered_domains import offered_domains
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.plan import TEMPORARY, Reason
from joiner.planning.state.domain_assignment import reachable_domains
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import SpreadRule

CLOSABLE: Final = (names.ZONE, names.CAPACITY_TYPE)
"""The topology keys whose domains are sets of offerings, which a plan can leave out."""


def find_blocking_domains(state: PlanState) -> dict[tuple[str, str], PodGroup]:
    """Return the domains (key, value) in which only other pods can have a new node, and that count for a spread whose
    pods then cannot all be placed; each with a group that has this spread."""
    found: dict[tuple[str, str], PodGroup] = {}
    for group in state.groups.pending:
        for rule in state.rules[group.index].spreads:
            key = rule.spread.topology_key
            if key not in CLOSABLE or not rule.universe or not rule.counts_itself:
                continue
            reach = reachable_domains(state, group, key)
            blocked = rule.universe - reach
            if blocked and reach and _most(rule, reach & rule.universe, blocked) < state.left[group]:
                counted = _counted_now(state, rule)
                found.update({(key, value): group for value in blocked - counted})
    return found


def describe_unreachable_domains(state: PlanState, group: PodGroup, reason: str) -> str:
    """Return which domains of the spread that is the ``reason`` have the fewest pods and can have no node for the
    group; empty if there are none, or if the reason is another rule."""
    for rule in state.rules[group.index].spreads:
        if rule.text != reason or not rule.universe:
            continue
        counts, lowest = rule.counts.by_domain, rule.lowest()
        unreachable = rule.universe - reachable_domains(state, group, rule.spread.topology_key)
        if fewest := [domain for domain in sorted(unreachable) if counts.get(domain, 0) <= lowest]:
            one = "counts as a domain" if len(fewest) == 1 else "count as domains"
            return f", because {', '.join(fewest)} {one} and can have no node for it"
    return ""


def offerings_of(domains: Collection[tuple[str, str]]) -> Unavailable:
    """Return these domains as unavailable offerings: (capacity type, instance type, zone)."""
    return frozenset(
        (capacity_type, ANY_VALUE, value if key == names.ZONE else ANY_VALUE)
        for key, value in domains
        for capacity_type in (names.CAPACITY_TYPES if key == names.ZONE else (value,))
    )


def needs_domains(state: PlanState, everywhere: PlanState, domains: Collection[tuple[str, str]]) -> bool:
    """Return whether a node in one of these domains could hold a pod that the plan without them leaves pending."""
    return any(
        number and value in offered_domains(pool_offers, everywhere.groups.all[group.index], key)
        for group, number in state.left.items()
        for pool_offers in everywhere.open_pools
        for key, value in domains
    )


def explain_left_out(
    state: PlanState, everywhere: PlanState, domains: Mapping[tuple[str, str], PodGroup]
) -> dict[PodGroup, tuple[Reason, ...]]:
    """Return the pending groups that only a node in one of these domains can hold, each with the reasons of the pools
    that have such nodes. ``state`` is the plan without the domains, and ``everywhere`` the state of the same snapshot
    with them."""
    found = {}
    for group, number in state.left.items():
        if not number or group.refused or reachable_domains(state, group, names.ZONE):
            continue
        reasons: dict[str, Reason] = {}
        for pool_offers in everywhere.open_pools:
            for (key, value), spread in domains.items():
                if value in offered_domains(pool_offers, everywhere.groups.all[group.index], key):
                    why = (
                        f"a node in {value} would count for the topology spread of {spread.pods[0].key}, which can "
                        f"have none there and gets its node first{TEMPORARY}"
                    )
                    reasons.setdefault(pool_offers.pool.name, Reason(pool_offers.pool.name, why))
        if reasons:
            found[group] = tuple(reasons.values())
    return found


def _most(rule: SpreadRule, reach: Collection[str], blocked: Collection[str]) -> int:
    """Return how many pods the reachable domains accept while the blocked ones have no more than now."""
    counts = rule.counts.by_domain
    lowest = min(counts.get(domain, 0) for domain in blocked)
    return sum(max(lowest + rule.spread.max_skew - counts.get(domain, 0), 0) for domain in reach)


def _counted_now(state: PlanState, rule: SpreadRule) -> set[str]:
    """Return the domains of existing nodes, which count whatever is launched."""
    key, only = rule.spread.topology_key, rule.counts.only
    return {node.labels[key] for node in state.existing if key in node.labels and (only is None or only(node))}

"""Check that a finished plan keeps every rule between pods.

Some steps place pods in another order than the scheduler: pods assigned to domains beforehand, and nodes that are
emptied and filled again. The whole result is checked here, and is discarded if it breaks a rule.
"""

from collections.abc import Collection, Iterable

from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts, GroupRules, SpreadRule


def keeps_all_rules(state: PlanState) -> bool:
    """Return whether every pod of the plan is where its own rules and the rules of all other pods allow."""
    nodes = [node for node in (*state.existing, *state.new) if node.planned]
    keys = {rule.spread.topology_key for group in state.left for rule in state.rules[group.index].spreads}
    common_keys = {key for key in keys if all(key in node.labels for node in nodes)}
    most: dict[DomainCounts, int] = {}
    bound = {group for group in state.left if not _anywhere(state.rules[group.index], common_keys, most)}
    if not bound:
        return True
    known: dict[tuple[SpreadRule, str | None], bool] = {}
    beside: dict[PodGroup, list[NodeState]] = {group: [] for group in bound if state.rules[group.index].affinity}
    for node in nodes:
        for group in node.planned:
            if group in bound and not _may_stay(state, group, node, known):
                return False
            if group in beside:
                beside[group].append(node)
    return all(_one_beginning(state, group, there) for group, there in beside.items())


def find_misplaced(state: PlanState) -> list[tuple[NodeState, PodGroup]]:
    """Return each node and group of the plan whose pods may not stay there, by their rules about other pods."""
    known: dict[tuple[SpreadRule, str | None], bool] = {}
    return [
        (node, group)
        for node in (*state.existing, *state.new)
        for group in node.planned
        if not state.rules[group.index].free and not _may_stay(state, group, node, known)
    ]


def _anywhere(own: GroupRules, common_keys: Collection[str], most: dict[DomainCounts, int]) -> bool:
    """Return whether the group may stay on any of its nodes: no pod that it must be apart from is in any of its
    domains, and its spreads are level. ``common_keys`` are the keys that every node has. ``most`` caches the count of
    the fullest domain."""
    if own.free:
        return True
    if (
        own.affinity
        or own.together
        or own.offer_set
        or any(rule.spread.topology_key not in common_keys for rule in own.spreads)
    ):
        return False
    apart = own.apart
    for counts in (*(counts for counts, _ in apart), *(rule.counts for rule in own.spreads)):
        if counts not in most:
            most[counts] = max(counts.by_domain.values(), default=0)
    level = all(rule.spread.allows(most[rule.counts], rule.lowest()) for rule in own.spreads)
    return level and all(most[counts] <= allowed for counts, allowed in apart)


def _may_stay(
    state: PlanState, group: PodGroup, node: NodeState, known: dict[tuple[SpreadRule, str | None], bool]
) -> bool:
    """Return whether the group may stay on this node. ``known`` caches which domains are level enough for a spread."""
    own = state.rules[group.index]
    for counts in (*own.away, *own.unwanted):
        domain = node.labels.get(counts.key)
        if domain is not None and counts.by_domain.get(domain, 0) > (1 if counts in own.feeds else 0):
            return False
    for rule in own.spreads:
        asked = (rule, node.labels.get(rule.spread.topology_key))
        level = known.get(asked)
        if level is None:
            level = known[asked] = asked[0].allows(asked[1])
        if not level:
            return False
    if any(counts.total > counts.by_domain.get(node.labels.get(counts.key, ""), 0) for counts in own.together):
        return False
    places = [(counts, there, node.labels.get(counts.key, "")) for counts, there in own.offer_set]
    if any(counts.by_domain.get(domain, 0) > there.get(domain, 0) for counts, there, domain in places):
        return False
    return all(counts.by_domain.get(node.labels.get(counts.key, ""), 0) for counts in own.affinity)


def _one_beginning(state: PlanState, group: PodGroup, nodes: Iterable[NodeState]) -> bool:
    """Return whether pods with affinity to their own kind start in one domain only. They may start only if no pod of
    their kind exists anywhere; ``nodes`` are the nodes that have them."""
    own = state.rules[group.index]
    mine: dict[tuple[str, ...], int] = {}
    for node in nodes:
        where = tuple(node.labels.get(counts.key, "") for counts in own.affinity)
        mine[where] = mine.get(where, 0) + node.planned[group]
    counted = 1 if own.affinity[0] in own.feeds else 0
    begun = [
        where
        for where, number in mine.items()
        if any(
            counts.by_domain.get(domain, 0) <= counted * number
            for counts, domain in zip(own.affinity, where, strict=True)
        )
    ]
    if not begun:
        return True
    if len(begun) > 1 or not own.selects_itself:
        return False
    return all(counts.total <= counted * mine[begun[0]] for counts in own.affinity)

"""Check that a finished plan keeps every rule between pods.

Some steps place pods in another order than the scheduler: pods assigned to domains beforehand, and nodes that are
emptied and filled again. The whole result is checked here, and is discarded if it breaks a rule.
"""

from collections.abc import Collection, Iterable

from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.plan_state import NodeState, PlanState
from joiner.planning.state.pod_topology import DomainCounts, GroupRules, SpreadRule


def keeps_all_rules(state: PlanState) -> bool:
    """Return whether every pod of the plan is where its own rules and the rules of all other pods allow."""
    rooms = [room for room in (*state.existing, *state.new) if room.planned]
    keys = {rule.spread.topology_key for group in state.left for rule in state.rules[group.index].spreads}
    carried = {key for key in keys if all(key in room.labels for room in rooms)}
    most: dict[DomainCounts, int] = {}
    bound = {group for group in state.left if not _anywhere(state.rules[group.index], carried, most)}
    if not bound:
        return True
    known: dict[tuple[SpreadRule, str | None], bool] = {}
    beside: dict[PodGroup, list[NodeState]] = {group: [] for group in bound if state.rules[group.index].affinity}
    for room in rooms:
        for group in room.planned:
            if group in bound and not _may_stay(state, group, room, known):
                return False
            if group in beside:
                beside[group].append(room)
    return all(_one_beginning(state, group, there) for group, there in beside.items())


def _anywhere(own: GroupRules, carried: Collection[str], most: dict[DomainCounts, int]) -> bool:
    """Return whether the group may stay on any of its nodes: no pod that it must be apart from is in any of its
    domains, and its spreads are level. ``carried`` are the keys that every node has. ``most`` caches the count of
    the fullest domain."""
    if own.free:
        return True
    if (
        own.affinity
        or own.together
        or own.stock
        or any(rule.spread.topology_key not in carried for rule in own.spreads)
    ):
        return False
    apart = own.apart
    for tally in (*(tally for tally, _ in apart), *(rule.tally for rule in own.spreads)):
        if tally not in most:
            most[tally] = max(tally.by_domain.values(), default=0)
    level = all(rule.spread.allows(most[rule.tally], rule.lowest()) for rule in own.spreads)
    return level and all(most[tally] <= allowed for tally, allowed in apart)


def _may_stay(
    state: PlanState, group: PodGroup, room: NodeState, known: dict[tuple[SpreadRule, str | None], bool]
) -> bool:
    """Return whether the group may stay on this node. ``known`` caches which domains are level enough for a spread."""
    own = state.rules[group.index]
    for tally in (*own.away, *own.unwanted):
        domain = room.labels.get(tally.key)
        if domain is not None and tally.by_domain.get(domain, 0) > (1 if tally in own.feeds else 0):
            return False
    for rule in own.spreads:
        asked = (rule, room.labels.get(rule.spread.topology_key))
        level = known.get(asked)
        if level is None:
            level = known[asked] = asked[0].allows(asked[1])
        if not level:
            return False
    if any(tally.total > tally.by_domain.get(room.labels.get(tally.key, ""), 0) for tally in own.together):
        return False
    places = [(tally, there, room.labels.get(tally.key, "")) for tally, there in own.stock]
    if any(tally.by_domain.get(domain, 0) > there.get(domain, 0) for tally, there, domain in places):
        return False
    return all(tally.by_domain.get(room.labels.get(tally.key, ""), 0) for tally in own.affinity)


def _one_beginning(state: PlanState, group: PodGroup, rooms: Iterable[NodeState]) -> bool:
    """Return whether pods with affinity to their own kind start in one domain only. They may start only if no pod of
    their kind exists anywhere; ``rooms`` are the nodes that have them."""
    own = state.rules[group.index]
    mine: dict[tuple[str, ...], int] = {}
    for room in rooms:
        where = tuple(room.labels.get(tally.key, "") for tally in own.affinity)
        mine[where] = mine.get(where, 0) + room.planned[group]
    counted = 1 if own.affinity[0] in own.feeds else 0
    begun = [
        where
        for where, number in mine.items()
        if any(
            tally.by_domain.get(domain, 0) <= counted * number
            for tally, domain in zip(own.affinity, where, strict=True)
        )
    ]
    if not begun:
        return True
    if len(begun) > 1 or not own.selects_itself:
        return False
    return all(tally.total <= counted * mine[begun[0]] for tally in own.affinity)

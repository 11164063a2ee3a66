"""The lower bound of small plans, for whole nodes and whole pods: an exact search proves that a plan is optimal.

The relaxation (``relaxation``) counts fractions of nodes, so for a few pods it is far below every plan. Here the pods
are packed exactly (``exact_dp``), once for each way to divide them among topology domains that their rules may allow.
The cheapest result is a bound: rules that are left out can only make plans more expensive.

Of the rules between pods, these count: how many pods of a kind one host may hold, and the rules by which the pods of
one group alone must be level, apart or together in the domains of one topology key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import comb, prod
from typing import Final

import numpy as np

from joiner import names
from joiner.planning.arrays import Marks, Whole
from joiner.planning.effort import STEPS_PER_SECOND, Meter
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.packing.exact_dp import pack_exactly
from joiner.planning.packing.node_filling import Packing
from joiner.planning.plan import OPTIMAL_GAP
from joiner.planning.relaxation.lower_bound import spare_capacity
from joiner.planning.relaxation.packing_problem import PackingProblem, compile_problem
from joiner.planning.state.domain_assignment import DomainAssignment, reachable_domains
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import SpreadRule
from joiner.planning.tuning import MOST_PROVEN_PODS, TINY

MOST_DIVISIONS: Final = 100
"""The maximum number of ways to divide the pods of one group among its domains."""
MOST_TRIED: Final = 5_000
"""The maximum number of divisions of one group that are compared with its rules. With more, its rules are left out."""
MOST_COMBINATIONS: Final = 300
"""The maximum number of combinations of such ways. With more, the rules of some groups are left out."""
STEPS_OF_PART: Final = 0.005
STEPS_OF_PAIR: Final = 1e-6
"""The effort of packing exactly, in steps: for each part of the demand, and for each pair of parts."""

Division = tuple[int, ...]
"""How many pods of a group are in each domain."""


@dataclass(frozen=True, slots=True)
class GroupDivisions:
    """The ways in which the rules of a group may divide its pods among the values of a topology key."""

    group: PodGroup
    key: str
    domains: tuple[str, ...]
    ways: tuple[Division, ...]


@dataclass(frozen=True, slots=True)
class WholeNodeBound:
    """No plan of these pods is cheaper than ``price`` ($/h), and no plan of that price has fewer than ``nodes`` new
    nodes. ``complete`` is whether more effort could not raise it."""

    price: float = 0.0
    nodes: int = 0
    complete: bool = True

    def is_reached(self, price: float, nodes: float) -> bool:
        """Return whether no plan is better than one of this price and number of nodes."""
        return 0 < price <= self.price * (1 + OPTIMAL_GAP) and nodes <= self.nodes


NOTHING_PROVEN: Final = WholeNodeBound(complete=False)


def prove_lower_bound(
    state: PlanState, price: float, meter: Meter, *, nodes: int = 0, share: float = 1.0
) -> WholeNodeBound:
    """Return the bound for the pods that are left to place in this state. ``price`` and ``nodes`` are those of a plan:
    a bound that reaches both need not be raised further.

    It is 0 if free capacity or pools of several weights exist, and not complete if it would take more than this share
    of the effort to raise it. The state must have no planned pods.
    """
    groups = [group for group in state.groups.pending if state.left[group] and not group.refused]
    if not groups or sum(state.left[group] for group in groups) > MOST_PROVEN_PODS:
        return WholeNodeBound()
    best, effort = WholeNodeBound(), _Effort(meter, share)
    for by_domain in (False, True):
        divided = _most_useful(_all_divisions(state, groups, effort)) if by_domain else []
        if effort.over:
            return replace(best, complete=False)
        problem = compile_problem(state, _every_domain(divided), groups, overflow=True)
        if problem.choices.has_supplies or not problem.one_tier or spare_capacity(state, problem) is not None:
            return WholeNodeBound()
        items = {one.group: _items_of(problem, one.group) for one in divided}
        found = _cheapest(_firm_only(problem), _demands(state, problem, divided, items), effort)
        if found is None:
            return replace(best, complete=False)
        best = max(best, found, key=_rank)
        if not best.price or (best.price >= price - TINY and best.nodes >= nodes):
            break
    return best


def _rank(bound: WholeNodeBound) -> tuple[float, int]:
    return round(bound.price, 9), bound.nodes


class _Effort:
    """What is left of the effort for exact packings: a share of the steps that the search of the plan may use, and of
    the time that is left."""

    def __init__(self, meter: Meter, share: float) -> None:
        self._meter = meter
        self._share = share
        self._left = meter.allowance * share

    @property
    def over(self) -> bool:
        """Return whether the deadline of the plan has passed."""
        return self._meter.overdue(0.0)

    def allows(self, demand: Whole) -> bool:
        """Return whether this demand can be packed exactly within the rest of the effort, and subtract it."""
        parts = prod(number + 1.0 for number in demand.tolist())  # A float: a large demand has infinitely many parts.
        steps = parts * STEPS_OF_PART + parts * parts * STEPS_OF_PAIR
        self._left -= steps
        return self._left >= 0 and self._meter.time_left * self._share >= steps / STEPS_PER_SECOND


def _cheapest(problem: PackingProblem, demands: Iterator[Whole], effort: _Effort) -> WholeNodeBound | None:
    """Return the lowest price of these demands, and the lowest number of nodes for that price; None if the effort does
    not suffice."""
    known: dict[bytes, Packing] = {}
    best = WholeNodeBound(float("inf"))
    for demand in demands:
        price, nodes = 0.0, 0
        for part in _independent_parts(problem, demand):
            if part.tobytes() not in known:
                if not effort.allows(part):
                    return None
                known[part.tobytes()] = pack_exactly(problem, part)
            price += known[part.tobytes()].price
            nodes += known[part.tobytes()].nodes
        best = min(best, WholeNodeBound(price, nodes), key=_rank)
    return best if np.isfinite(best.price) else WholeNodeBound()


def _independent_parts(problem: PackingProblem, demand: Whole) -> Iterator[Whole]:
    """Divide a demand into items that no offer can hold together, so that each part is packed on its own."""
    items = np.flatnonzero(demand)
    shared: Marks = problem.open[:, items].T.astype(np.int64) @ problem.open[:, items] > 0
    rest = np.ones(len(items), bool)
    while rest.any():
        together = np.zeros(len(items), bool)
        together[np.flatnonzero(rest)[0]] = True
        while (more := shared[together].any(axis=0) | together).sum() > together.sum():
            together = more
        rest &= ~together
        part = np.zeros_like(demand)
        part[items[together]] = demand[items[together]]
        yield part


def _demands(
    state: PlanState,
    problem: PackingProblem,
    divided: Sequence[GroupDivisions],
    items: Mapping[PodGroup, Sequence[int]],
) -> Iterator[Whole]:
    """Yield the demand by item for each combination of divisions."""
    fixed = np.zeros(problem.items, np.int64)
    apart = {one.group for one in divided}
    for item, members in enumerate(problem.members):
        fixed[item] = sum(state.left[group] for group, _ in members if group not in apart)
    for ways in product(*(one.ways for one in divided)):
        demand = fixed.copy()
        for one, way in zip(divided, ways, strict=True):
            for item, number in zip(items[one.group], way, strict=True):
                demand[item] += number
        yield demand


def _items_of(problem: PackingProblem, group: PodGroup) -> list[int]:
    """Return the items of a divided group, in the order of its domains."""
    return [item for item, members in enumerate(problem.members) if any(one is group for one, _ in members)]


def _firm_only(problem: PackingProblem) -> PackingProblem:
    """Return the problem with only those rules about hosts that hold in every plan."""
    firm = problem.firm
    return replace(
        problem, asks=problem.asks[firm], counts=problem.counts[firm], caps=problem.caps[firm], firm=firm[firm]
    )


def _every_domain(divided: Sequence[GroupDivisions]) -> DomainAssignment:
    """Return an assignment that makes an item of each group in each of its domains."""
    return DomainAssignment({one.group: (one.key, dict.fromkeys(one.domains, 1)) for one in divided})


def _most_useful(found: list[GroupDivisions]) -> list[GroupDivisions]:
    """Leave out the groups with the most divisions until all combinations can be searched."""
    kept = sorted(found, key=lambda one: (len(one.ways), one.group.index))
    while prod(len(one.ways) for one in kept) > MOST_COMBINATIONS:
        kept.pop()
    return sorted(kept, key=lambda one: one.group.index)


def _all_divisions(state: PlanState, groups: Sequence[PodGroup], effort: _Effort) -> list[GroupDivisions]:
    """Return the divisions of each group that rules restrict, or of fewer groups if the deadline passes. Groups with
    the same key have the same domains, in the same order, so that equal groups have equal items."""
    keys = {group: _key_of(state, group) for group in groups}
    domains = {
        key: tuple(sorted(set[str]().union(*(reachable_domains(state, one, key) for one in groups))))
        for key in {*keys.values()} - {""}
    }
    found = []
    for group, key in keys.items():
        if effort.over:
            break
        if not key:
            continue
        ways = _divisions(state, group, key, domains[key])
        reach = len(reachable_domains(state, group, key))
        restricted = len(ways) < comb(state.left[group] + reach - 1, reach - 1) if reach else True
        if ways and restricted:
            found.append(GroupDivisions(group, key, domains[key], ways))
    return found


def _key_of(state: PlanState, group: PodGroup) -> str:
    """Return the topology key whose domains the rules of a group restrict; empty if there is none."""
    own = state.rules[group.index]
    keys = {rule.spread.topology_key for rule in own.spreads if rule.universe is not None}
    keys |= {counts.key for counts, _ in own.apart} | {counts.key for counts in own.affinity}
    keys -= {names.HOSTNAME}
    return names.ZONE if names.ZONE in keys else min(keys, default="")


def _divisions(state: PlanState, group: PodGroup, key: str, domains: Sequence[str]) -> tuple[Division, ...]:
    """Return every division of the pods of a group that its rules may allow when all pods are placed; none if there
    are more than `MOST_DIVISIONS`, or if more than `MOST_TRIED` would have to be compared with the rules."""
    reach = reachable_domains(state, group, key)
    spreads = [rule for rule in state.rules[group.index].spreads if _counts_alone(state, group, key, rule)]
    most = [_most_in(state, group, key, domain, spreads) if domain in reach else 0 for domain in domains]
    gathered = _gathered(state, group, key)
    found: list[Division] = []
    for number, way in enumerate(_ways(state.left[group], most)):
        if number == MOST_TRIED or len(found) > MOST_DIVISIONS:
            return ()
        if gathered and sum(1 for each in way if each) > 1:
            continue
        if _is_level(spreads, dict(zip(domains, way, strict=True))):
            found.append(way)
    return tuple(found) if len(found) <= MOST_DIVISIONS else ()


def _ways(number: int, most: Sequence[int]) -> Iterator[Division]:
    if not most:
        if not number:
            yield ()
        return
    for first in range(max(number - sum(most[1:]), 0), min(number, most[0]) + 1):
        for others in _ways(number - first, most[1:]):
            yield (first, *others)


def _most_in(state: PlanState, group: PodGroup, key: str, domain: str, spreads: Sequence[SpreadRule]) -> int:
    """Return how many pods of the group anti-affinity, affinity and these spreads allow in a domain at most."""
    own, most = state.rules[group.index], state.left[group]
    for counts, allowed in own.apart:
        if counts.key == key:
            most = min(most, max(allowed - counts.by_domain.get(domain, 0), 0))
    for counts in own.affinity:
        if (
            counts.key == key
            and counts.total
            and not counts.by_domain.get(domain, 0)
            and not _selects_other_groups(state, group)
        ):
            most = 0
    return min([most, *_most_by_spreads(state, group, key, domain, spreads)])


def _most_by_spreads(
    state: PlanState, group: PodGroup, key: str, domain: str, spreads: Sequence[SpreadRule]
) -> Iterator[int]:
    """Yield how many pods of the group each spread allows in a domain at most: the lowest count is at most the mean."""
    reach = reachable_domains(state, group, key)
    for rule in spreads:
        universe = rule.universe
        if universe and reach <= universe:
            there = {one: rule.counts.by_domain.get(one, 0) for one in universe}
            mean = (sum(there.values()) + state.left[group]) // len(universe)
            yield max(mean + rule.spread.max_skew - there[domain], 0) if domain in there else 0


def _gathered(state: PlanState, group: PodGroup, key: str) -> bool:
    """Return whether the first pod of the group decides the domain of all others: only its own pods can satisfy its
    affinity."""
    own = state.rules[group.index]
    alone = (
        own.selects_itself
        and not _selects_other_groups(state, group)
        and not any(counts.total for counts in own.affinity)
    )
    return alone and any(counts.key == key for counts in own.affinity)


def _selects_other_groups(state: PlanState, group: PodGroup) -> bool:
    """Return whether other pods that are left to place can satisfy its affinity."""
    return any(state.left.get(other, 0) for other in state.rules[group.index].selected_groups)


def _is_level(spreads: Sequence[SpreadRule], way: Mapping[str, int]) -> bool:
    """Return whether a division is within the skew of each of these spreads.

    Pods that other groups add later may raise the skew of a spread that counts them, so such spreads are left out.
    """
    used = {domain for domain, number in way.items() if number}
    for rule in spreads:
        universe = rule.universe
        if not universe or not used <= universe:
            continue
        counts = {domain: rule.counts.by_domain.get(domain, 0) + way.get(domain, 0) for domain in universe}
        lowest = rule.spread.lowest_count(counts.values(), len(universe))
        if not all(rule.spread.allows(counts[domain], lowest) for domain in used):
            return False
    return True


def _counts_alone(state: PlanState, group: PodGroup, key: str, rule: SpreadRule) -> bool:
    """Return whether the spread has this key and counts those of the pods left to place that belong to this group."""
    if rule.spread.topology_key != key or not rule.counts_itself:
        return False
    return [one for one, number in state.left.items() if number and rule.counts in state.rules[one.index].feeds] == [
        group
    ]

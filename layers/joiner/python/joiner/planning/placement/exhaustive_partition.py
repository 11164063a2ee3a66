"""Try every partition of a few pods among nodes, so that a very small plan is as cheap as possible.

Resources and node rules decide the price of each part, in each domain that some rule between pods distinguishes.
Partitions are placed in the plan state, the cheapest first, until one keeps the rules between pods.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Final

from joiner import names
from joiner.planning.effort import Meter
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.placement.exhaustive_placement import RepairEffort
from joiner.planning.relaxation.dominance import OfferFrontier
from joiner.planning.state.checkpoint import layout_of, restore_layout
from joiner.planning.state.constraint_check import keeps_all_rules
from joiner.planning.state.node_state import NodeState
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts
from joiner.planning.tuning import MOST_PARTITION_PODS

TRIALS: Final = 200
"""The maximum number of partitions placed on trial, of the cheapest LOOKED_AT that the affinity rules allow."""
LOOKED_AT: Final = 4000
A_DIVISION: Final = 0.01
A_LOOK: Final = 0.02
A_TRIAL: Final = 0.15
"""The effort of one trial, in steps."""

WAYS: Final = (1, 1, 2, 5, 15, 52, 203, 877)
"""The number of partitions of so many different pods."""

Part = tuple[PodGroup, ...]
Way = Sequence[tuple[OfferChoice, Part]]
Options = list[tuple[float, OfferChoice]]
"""The cheapest choice for a part in each domain, the cheapest domain first."""


def repartition_pods(
    state: PlanState,
    frontier: OfferFrontier,
    nodes: Sequence[NodeState],
    meter: Meter,
    waiting: Sequence[PodGroup] = (),
) -> bool:
    """Divide the pods of these nodes among cheaper nodes, or together with pending pods among any nodes; return
    whether that succeeded.

    ``waiting`` names one group for each pending pod. The search stops when the effort is used up.
    """
    pods = sorted(
        (*waiting, *(group for node in nodes for group, number in node.planned.items() for _ in range(number))),
        key=lambda one: one.index,
    )
    weights = {node.choice.pool_offers.pool.weight for node in nodes if node.choice} or {
        weight for weight, _ in frontier.tiers
    }
    if not 1 < len(pods) <= MOST_PARTITION_PODS or len(weights) != 1:
        return False
    price = float("inf") if waiting else sum(node.price for node in nodes) - 1e-9
    kept = layout_of(nodes)
    ways = _by_price(state, frontier, pods, weights.pop(), price)
    meter.spend(A_DIVISION * WAYS[len(pods)])
    for node in nodes:
        state.close(node)
    if any(_realize(state, way) for way in islice(_promising(state, ways, meter), TRIALS)):
        return True
    restore_layout(state, kept)
    return False


def place_cheaper(
    state: PlanState, frontier: OfferFrontier, pods: Sequence[PodGroup], price: float, effort: RepairEffort
) -> bool:
    """Place these pods on new nodes that cost less than ``price`` in total; return whether that succeeded. ``pods``
    names one group for each pod."""
    weights = {weight for weight, _ in frontier.tiers}
    if not 0 < len(pods) <= MOST_PARTITION_PODS or len(weights) != 1:
        return False
    effort.spend(A_DIVISION * WAYS[len(pods)])
    ordered = sorted(pods, key=lambda one: one.index)
    ways = _by_price(state, frontier, ordered, weights.pop(), price - 1e-9)
    return any(_realize(state, way) for way in islice(_promising(state, ways, effort), TRIALS))


def partitions(pods: Sequence[PodGroup]) -> Iterator[tuple[Part, ...]]:
    """Yield every partition of the pods; pods of one group are interchangeable."""
    if not pods:
        yield ()
        return
    first, rest = pods[0], pods[1:]
    seen: set[Part] = set()
    for bits in range(1 << len(rest)):
        together = (first, *(rest[place] for place in range(len(rest)) if bits >> place & 1))
        if together not in seen:
            seen.add(together)
            for others in partitions([rest[place] for place in range(len(rest)) if not bits >> place & 1]):
                yield (together, *others)


def _by_price(
    state: PlanState, frontier: OfferFrontier, pods: Sequence[PodGroup], weight: int, under: float
) -> Iterator[Way]:
    """Yield the partitions, with a choice for each part, whose total price is below ``under``, the cheapest first."""
    choices = frontier.of_weight(weight)
    keys = sorted({key for group in pods for key in state.keys_of(group)})
    known: dict[Part, Options] = {}
    queue: list[tuple[float, int, tuple[int, ...], int]] = []
    ways: list[tuple[tuple[Part, ...], list[Options]]] = []
    for parts in partitions(pods):
        price, options = 0.0, []
        for part in parts:
            if part not in known:
                barred = _clash(state, part) or not any(_may_open(state, frontier, one, weight) for one in part)
                known[part] = [] if barred else _options(choices, part, keys)
            options.append(known[part])
            price += known[part][0][0] if known[part] else float("inf")
            if price >= under:
                break
        else:
            queue.append((price, len(ways), (0,) * len(parts), 0))
            ways.append((parts, options))
    heapify(queue)
    while queue:
        price, number, picked, since = heappop(queue)
        parts, options = ways[number]
        yield [(each[at][1], part) for each, at, part in zip(options, picked, parts, strict=True)]
        for place in range(
            since, len(picked)
        ):  # Raising positions from left to right only reaches every other choice exactly once.
            at = picked[place] + 1
            if at < len(options[place]):
                higher = price + options[place][at][0] - options[place][at - 1][0]
                if higher < under:
                    heappush(queue, (higher, number, (*picked[:place], at, *picked[place + 1 :]), place))


def _may_open(state: PlanState, frontier: OfferFrontier, group: PodGroup, weight: int) -> bool:
    """Return whether a pod of the group may open a node of a pool of this weight: no pool of higher weight can have a
    node for it, unless rules about other pods keep it from such a node."""
    return not state.rules[group.index].free or not any(
        one.groups & (1 << group.index) and fits(group, one.one.free) and not state.over_limit(one)
        for higher, choices in frontier.tiers
        if higher > weight
        for one in choices
    )


def _promising(state: PlanState, ways: Iterable[Way], meter: Meter | RepairEffort) -> Iterator[Way]:
    for way in islice(ways, LOOKED_AT):
        meter.spend(A_LOOK)
        if meter.spent():
            return
        if _could_stand(state, way):
            meter.spend(A_TRIAL)
            yield way


def _clash(state: PlanState, part: Part) -> bool:
    """Return whether rules about hosts forbid these pods on one new node."""
    counted = Counter(counts for group in part for counts in state.rules[group.index].feeds)
    return any(
        any(counted[counts] > most for counts, most in own.of_hosts)
        or any(counts.key == names.HOSTNAME and not counted[counts] for counts in own.affinity)
        for own in (state.rules[group.index] for group in set(part))
    )


def _could_stand(state: PlanState, way: Way) -> bool:
    """Return whether no pod is in a domain with pods that it must be apart from, and every pod is with the pods that
    its affinity requires."""
    counted: Counter[tuple[DomainCounts, str | None]] = Counter()
    for number, (choice, part) in enumerate(way):
        for group in part:
            counted.update((counts, _domain(counts, choice, number)) for counts in state.rules[group.index].feeds)
    for number, (choice, part) in enumerate(way):
        for group in set(part):
            own = state.rules[group.index]
            for counts, most in own.apart:
                there = _domain(counts, choice, number)
                if there is not None and counted[counts, there] + counts.by_domain.get(there, 0) > most:
                    return False
            for counts in own.affinity:
                there = _domain(counts, choice, number)
                if not counted[counts, there] + counts.by_domain.get(there or "", 0):
                    return False
    return True


def _domain(counts: DomainCounts, choice: OfferChoice, number: int) -> str | None:
    """Return the domain of this part of the plan, a node of this choice, for a rule."""
    return f"#{number}" if counts.key == names.HOSTNAME else choice.label(counts.key)


def _options(choices: Iterable[OfferChoice], part: Part, keys: Sequence[str]) -> Options:
    mask, need = 0, [0] * len(part[0].vector)
    for group in part:
        mask |= 1 << group.index
        for position, amount in group.needs:
            need[position] += amount
    found: dict[tuple[str | None, ...], tuple[float, OfferChoice]] = {}
    for choice in choices:
        if choice.groups & mask == mask and all(map(int.__le__, need, choice.one.free)):
            domain = tuple([choice.label(key) for key in keys])
            found.setdefault(domain, (choice.one.offer.price_per_hour, choice))
    return list(found.values())


def _realize(state: PlanState, way: Way) -> bool:
    """Place the pods one after the other as this partition requires; return whether all of them are placed."""
    opened: list[tuple[NodeState, Counter[PodGroup]]] = []
    left = 0
    for choice, part in way:
        if state.over_limit(choice):
            break
        opened.append((state.open(choice), Counter(part)))
        left += len(part)
    else:
        moved = True
        while moved and left:  # Pods may need others first: those they follow, or those that keep a spread level.
            moved = False
            for node, missing in opened:
                for group in missing:
                    placed = state.put(group, node, missing[group])
                    missing[group] -= placed
                    left -= placed
                    moved |= placed > 0
        if not left and keeps_all_rules(state):
            return True
    for node, _ in opened:
        state.close(node)
    return False

"""``plan``: one snapshot in, one plan out. Compile, place in several ways, keep the best, read it off, explain what is left.

Pure and deterministic: the same world gives the same plan, whatever the order in which it was listed. Better is a plan that
places more pods, the more important ones first; among those the cheaper; then the one with fewer nodes.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from joiner.catalogue import Catalogue
from joiner.planning.auditing import holds
from joiner.planning.bound import Bound, bound
from joiner.planning.explanation import explain
from joiner.planning.filling import Approach, Filler, deal
from joiner.planning.frontier import Frontier
from joiner.planning.groups import Group, group
from joiner.planning.improving import improve
from joiner.planning.offers import markets
from joiner.planning.pending import waiting
from joiner.planning.plan import Ceilings, Plan
from joiner.planning.result import read_off
from joiner.planning.rooms import Room, World
from joiner.planning.snapshot import Snapshot
from joiner.planning.standing import standing
from joiner.pools import ResolvedNodeClass

NO_CEILINGS = Ceilings()
MANY_PODS = 200
"""From here on fewer ways are tried: each takes longer, and the ways differ less."""


def plan(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Collection[tuple[str, str, str]] = (),
    *,
    classes: Mapping[str, ResolvedNodeClass],
    ceilings: Ceilings = NO_CEILINGS,
) -> Plan:
    """What to do for the pending pods of this snapshot.

    ``unavailable`` are offerings known to be short: (capacity type, instance type, zone), ``*`` for any. ``classes`` are the resolved node
    classes by key (``EC2NodeClass/default``); a pool whose class is missing or not ready plans nothing, the others go on.
    """
    who = waiting(snapshot)
    placed = [pod for pod in snapshot.pods if pod.node_name and not pod.terminal]
    reserved = [pod for pods in who.reserved.values() for pod in pods]
    moving = {pod.key for pod in who.pending}
    groups = group(who.pending, [*(pod for pod in placed if pod.key not in moving), *reserved], snapshot.daemon_sets, snapshot.volumes)
    offered = markets(snapshot, groups, catalogue, frozenset(unavailable), classes)
    there = standing(snapshot, catalogue, groups, who)
    world = World(
        groups,
        offered,
        there.rooms,
        namespaces=snapshot.namespaces,
        used=there.used,
        ceilings=ceilings,
        nodes=there.nodes,
        price=there.price,
    )
    frontier = Frontier(offered, groups)
    everything = bound(world, frontier)
    _place(world, frontier, everything)
    return read_off(world, snapshot, explain(world, catalogue), _proven(world, frontier))


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one way ended: comparable, the smaller the better; ``layout`` is enough to make it again."""

    score: tuple[float, ...]
    missing: int
    layout: tuple[tuple[Room, tuple[tuple[Group, int], ...]], ...]


def _place(world: World, frontier: Frontier, everything: Bound) -> None:
    """Leaves the world with the best plan found in it."""
    best: Attempt | None = None
    for approach in _approaches(world):
        if approach.last_resort and best is not None and not best.missing:
            continue
        if approach.dealt:
            deal(world, everything.shares)
        Filler(world, frontier, everything.shares, approach).fill()
        world.quotas.clear()
        if not approach.dealt or holds(world):
            improve(world, frontier, everything.shares)
            attempt = _attempt(world)
            if best is None or attempt.score < best.score:
                best = attempt
        clear(world)
    if best is not None:
        restore(world, best.layout)


def _approaches(world: World) -> Iterator[Approach]:
    """The ways worth trying, the most promising first. Dealing pods out over zones can fail; not doing so cannot."""
    spread = any(world.rules[one.index].quoted for one in world.left)
    many = world.pods_left > MANY_PODS
    ways = [("worth", None), ("cpu", 32_000 if many else None)]
    if not many:
        ways += [("memory", None), *(("worth", largest) for largest in (64_000, 32_000, 16_000, 8_000, 4_000, 2_000))]
    for order, largest in ways:
        if spread:
            yield Approach(order, largest, dealt=True)
        if not (spread and many):
            yield Approach(order, largest)
    if spread and many:
        yield Approach(last_resort=True)


def _attempt(world: World) -> Attempt:
    """By priority, the highest first: pods left; then price and nodes."""
    priorities = sorted({one.constraints.priority for one in world.left}, reverse=True)
    missing = [float(sum(number for one, number in world.left.items() if one.constraints.priority == level)) for level in priorities]
    layout = tuple((room, tuple(room.planned.items())) for room in (*world.existing, *world.new) if room.planned)
    # A plan made strictly pod after pod may still end in a skew that its first pods would not have accepted: any other is better
    ordered_only = 0.0 if holds(world) else 1.0
    return Attempt((ordered_only, *missing, round(world.price, 9), float(len(world.new))), world.pods_left, layout)


def clear(world: World) -> None:
    """Takes every planned pod out and every new room away."""
    for room in reversed(list(world.new)):
        world.close(room)
    for room in world.existing:
        for one, number in list(room.planned.items()):
            world.take(one, room, number)


def restore(world: World, layout: tuple[tuple[Room, tuple[tuple[Group, int], ...]], ...]) -> None:
    """Makes an earlier plan again; its rules were asked then."""
    for room, planned in layout:
        if room.choice:
            world.reopen(room)
        for one, number in planned:
            world.take(one, room, -number)


def _proven(world: World, frontier: Frontier) -> float:
    """The bound for the pods that this plan places, which need not be all."""
    layout = _attempt(world).layout
    missing = dict(world.left)
    clear(world)
    for one, number in missing.items():
        world.left[one] -= number
    proven = bound(world, frontier).price_per_hour
    for one, number in missing.items():
        world.left[one] += number
    restore(world, layout)
    return min(proven, world.price)

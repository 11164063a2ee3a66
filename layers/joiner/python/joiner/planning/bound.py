"""How cheap any plan could be, without solving anything: a bound that needs no trust, and a price for each group.

Take any weights that share one offer's price out over its resources and sum to one. Pods on a node of that offer never request
more than its room, so the sum of their shares (weight times request / room times price) never exceeds the price. Count for each pod the
smallest share over all offers that it could use, and the sum over all pods bounds every plan from below. The weights are tried
out; each is valid, so the best one is. Pods that capacity at hand may absorb are taken off, as many as could ever fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joiner import names
from joiner.cluster.resources import CPU, MEMORY, PODS
from joiner.planning.frontier import Frontier
from joiner.planning.groups import Group, fits
from joiner.planning.offers import Choice
from joiner.planning.rooms import World

STEPS = 10
SCARCE_SHARE = 0.8
"""How much of its price a node with devices (GPUs and the like) is taken to cost for them, if anything in the batch wants them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """``shares`` prices one pod of each group, by index; infinite where no offer can hold it."""

    price_per_hour: float
    shares: Mapping[int, float]


def bound(world: World, frontier: Frontier) -> Bound:
    """The best bound found for all pods that are left to place."""
    choices = {group: [one for one in frontier.of(group) if fits(group, one.one.room)] for group in world.left}
    best = Bound(0.0, {group.index: float("inf") for group in choices})
    for weights in _weights(world.groups.resources):
        shares = {
            group.index: min((_share(one, group, weights, world.groups.resources) for one in usable), default=float("inf"))
            for group, usable in choices.items()
        }
        value = _total(world, {group: shares[group.index] for group in choices})
        if value > best.price_per_hour or not any(map(_finite, best.shares.values())):
            best = Bound(value, shares)
    return Bound(max(best.price_per_hour, _dearest(world, choices)), best.shares)


def _weights(resources: Sequence[str]) -> list[dict[str, float]]:
    mixes = [{CPU: step / STEPS, MEMORY: 1 - step / STEPS} for step in range(STEPS + 1)]
    return [*mixes, {PODS: 1.0}, {CPU: 0.4, MEMORY: 0.4, PODS: 0.2}] if PODS in resources else mixes


def _share(choice: Choice, group: Group, weights: Mapping[str, float], resources: Sequence[str]) -> float:
    room = choice.one.room
    scarce = [position for position, name in enumerate(resources) if room[position] > 0 and name not in (CPU, MEMORY, PODS) and "/" in name]
    usual = 1 - SCARCE_SHARE if scarce else 1.0
    share = sum(SCARCE_SHARE / len(scarce) * group.vector[position] / room[position] for position in scarce)
    for position, name in enumerate(resources):
        if name in weights and group.vector[position]:
            share += usual * weights[name] * group.vector[position] / room[position]
    return share * choice.one.offer.price_per_hour


def _finite(number: float) -> bool:
    return number != float("inf")


def _total(world: World, shares: Mapping[Group, float]) -> float:
    """All shares, less what capacity at hand can absorb of them."""
    usable = {group: share for group, share in shares.items() if _finite(share) and share > 0}
    value = sum(world.left[group] * share for group, share in usable.items())
    absorbed = 0.0
    for room in world.existing:
        welcome = [group for group in usable if world.suits(group, room) and fits(group, room.free)]
        if welcome:
            densities = [
                free * max(usable[group] / group.vector[position] for group in welcome)
                for position, free in enumerate(room.free)
                if all(group.vector[position] for group in welcome)
            ]
            absorbed += min(densities, default=value)
    return max(value - absorbed, 0.0)


def _dearest(world: World, choices: Mapping[Group, Sequence[Choice]]) -> float:
    """The largest price that one group alone forces: a node for its pods, or one for each of them if they stay apart."""
    most = 0.0
    for group, usable in choices.items():
        if usable and world.left[group]:
            hosts = [
                room for room in world.existing if world.suits(group, room) and all(amount <= room.free[p] for p, amount in group.needs)
            ]
            alone = bool(group.constraints.host_ports) or any(
                tally.key == names.HOSTNAME and tally in world.rules[group.index].feeds for tally in world.rules[group.index].away
            )
            needed = max(world.left[group] - len(hosts), 0) if alone else (0 if hosts else 1)
            most = max(most, needed * min(one.one.offer.price_per_hour for one in usable))
    return most

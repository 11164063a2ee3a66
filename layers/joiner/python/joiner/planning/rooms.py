"""Where pods can go: nodes that are there, claims on their way, and nodes that this plan makes. The plan is made in here.

A ``World`` is changed while a plan is being made and never leaves this room of the library: pods are put in and taken out again
until a good plan is found, then it is read off as a value. Every rule of the scheduler is asked before a pod is put anywhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from joiner import names
from joiner.cluster import HostPort, Resources, Taint
from joiner.planning.groups import Group, Groups
from joiner.planning.offers import Launchable, Market, Variant
from joiner.planning.plan import Ceilings
from joiner.planning.topology import Rules, rules_of


@dataclass(slots=True, eq=False, weakref_slot=True)
class Room:
    """One node, there or planned. ``free`` is what its pods can still request; ``planned`` counts the pods that this plan puts in."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    free: list[int]
    node: str = ""
    claim: str = ""
    held: dict[Group, int] = field(default_factory=dict)
    planned: dict[Group, int] = field(default_factory=dict)
    ports: list[HostPort] = field(default_factory=list)
    suited: dict[int, bool] = field(default_factory=dict)
    market: Market | None = None
    variant: Variant | None = None
    launchable: Launchable | None = None

    @property
    def price(self) -> float:
        return self.launchable.offer.price_per_hour if self.launchable else 0.0


class World:
    """All rooms, what is left to place, and how much of each pool's limits is used."""

    def __init__(
        self,
        groups: Groups,
        markets: Sequence[Market],
        existing: Iterable[Room],
        *,
        namespaces: Mapping[str, Mapping[str, str]],
        used: Mapping[str, Mapping[str, int]],
        ceilings: Ceilings,
        nodes: int,
        price: float,
    ) -> None:
        self.groups = groups
        self.markets = tuple(markets)
        self.existing = tuple(existing)
        self.new: list[Room] = []
        self.rules: tuple[Rules, ...] = rules_of(groups.all, self.existing, markets, namespaces)
        self.left: dict[Group, int] = {group: len(group.pods) for group in groups.pending}
        self.used = {key: dict(amounts) for key, amounts in used.items()}
        self.quotas: dict[int, dict[str, int]] = {}
        self._ceilings = ceilings
        self._nodes = nodes
        self._price = price
        self._opened = 0
        self._tolerated: dict[tuple[int, str], bool] = {}
        for room in self.existing:
            for group, number in room.held.items():
                self._count(group, room, number)

    def open(self, market: Market, variant: Variant, one: Launchable) -> Room:
        """A new node of this offer; it counts against limits at once."""
        self._opened += 1
        name = f"new-{self._opened}"
        room = Room(
            name=name,
            labels={**one.labels, **variant.labels, names.HOSTNAME: name},
            taints=market.pool.taints,
            free=list(one.room),
            market=market,
            variant=variant,
            launchable=one,
        )
        for daemon in one.daemons:
            room.held[daemon] = 1
            room.ports.extend(daemon.constraints.host_ports)
        self.reopen(room)
        return room

    def reopen(self, room: Room) -> None:
        """A room that was closed, empty again."""
        for daemon, number in room.held.items():
            self._count(daemon, room, number)
        if room.market and room.launchable:
            self._use(room.market, room.launchable, 1)
        self.new.append(room)

    def close(self, room: Room) -> None:
        """The reverse of ``open``: its pods are left to place again."""
        for group, number in list(room.planned.items()):
            self.take(group, room, number)
        for daemon, number in room.held.items():
            self._count(daemon, room, -number)
        if room.market and room.launchable:
            self._use(room.market, room.launchable, -1)
        self.new.remove(room)

    def over_limit(self, market: Market, one: Launchable) -> str:
        """Which limit forbids one more node of this offer; empty if none does."""
        pool, used = market.pool, self.used.get(market.pool.key, {})
        for name, limit in pool.limits.items():
            more = 1 if name == "nodes" else one.capacity.get(name, 0)
            if used.get(name, 0) + more > limit:
                return f"the pool's limit of {Resources({name: limit}).to_kube()[name]} {name}"
        if self._ceilings.nodes is not None and self._nodes + len(self.new) + 1 > self._ceilings.nodes:
            return f"the cluster's ceiling of {self._ceilings.nodes} nodes"
        ceiling = self._ceilings.price_per_hour
        if ceiling is not None and self._price + self.price + one.offer.price_per_hour > ceiling + 1e-9:
            return f"the cluster's ceiling of {ceiling} $/h"
        return ""

    @property
    def price(self) -> float:
        return sum(room.price for room in self.new)

    def _use(self, market: Market, one: Launchable, number: int) -> None:
        used = self.used.setdefault(market.pool.key, {})
        used["nodes"] = used.get("nodes", 0) + number
        for name in market.pool.limits:
            if name != "nodes":
                used[name] = used.get(name, 0) + number * one.capacity.get(name, 0)

    def suits(self, group: Group, room: Room) -> bool:
        """Whether taints, labels and name of the node let such pods in."""
        if room.market and room.launchable and room.variant:
            return self._tolerates(group, room.market) and bool(room.variant.bits[group.index] >> room.launchable.index & 1)
        known = room.suited.get(group.index)
        if known is None:
            said = group.constraints
            known = said.untolerated(room.taints) is None and said.suits(room.labels, room.node or room.name)
            known = known and any(place.allow(room.labels) for place in group.places)
            room.suited[group.index] = known
        return known

    def _tolerates(self, group: Group, market: Market) -> bool:
        key = (group.index, market.pool.key)
        if key not in self._tolerated:
            self._tolerated[key] = group.constraints.untolerated(market.pool.taints) is None
        return self._tolerated[key]

    def put(self, group: Group, room: Room, wanted: int) -> int:
        """Puts as many of the group in as may and can go, at most ``wanted``; answers how many."""
        if wanted <= 0 or group.refused or not self.suits(group, room):
            return 0
        fitting = wanted
        free = room.free
        for position, amount in group.needs:
            there = free[position] // amount
            if there < fitting:
                if there <= 0:
                    return 0
                fitting = there
        if self.rules[group.index].free and not group.constraints.host_ports:
            self._move(group, room, fitting)
            return fitting
        for done in range(fitting):
            if self.refusal(group, room):
                return done
            self._move(group, room, 1)
        return fitting

    def refusal(self, group: Group, room: Room) -> str:
        """The rule about neighbours or ports that keeps one more pod of the group out of this room; empty if none does."""
        if any(port.conflicts(taken) for port in group.constraints.host_ports for taken in room.ports):
            return "its host ports are taken"
        return self.rules[group.index].refusal(room, self.quotas.get(group.index))

    def take(self, group: Group, room: Room, number: int) -> None:
        self._move(group, room, -number)

    def _move(self, group: Group, room: Room, number: int) -> None:
        for position, amount in group.needs:
            room.free[position] -= amount * number
        after = room.planned.get(group, 0) + number
        if after:
            room.planned[group] = after
        else:
            del room.planned[group]
        self.left[group] -= number
        for port in group.constraints.host_ports:
            if number > 0:
                room.ports.append(port)
            else:
                room.ports.remove(port)
        self._count(group, room, number)
        quota = self.quotas.get(group.index)
        if quota is not None:
            rule = self.rules[group.index].quoted
            domain = room.labels.get(rule.spread.topology_key) if rule else None
            if domain is not None:
                quota[domain] = quota.get(domain, 0) - number

    def _count(self, group: Group, room: Room, number: int) -> None:
        for tally in self.rules[group.index].feeds:
            tally.add(room, number)

    @property
    def pods_left(self) -> int:
        return sum(self.left.values())

"""An exhaustive planner for tiny clusters, written a second time from the rules of the scheduler.

It imports nothing of the library. It answers one question: can more pods be placed than a plan places? It tries every
subset of the pods that is better, the best first, and for each of them every division of its pods among the existing
nodes and among new nodes in every zone. A division is possible if it keeps every rule when all pods are there, and if
the scheduler could place its pods one after the other.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final

from tests.unit.planning.drawn_clusters import (
    HOST,
    ZONE,
    Json,
    affinity,
    instance_type,
    near,
    node,
    node_pool,
    pods,
    running,
)
from tests.unit.planning.drawn_clusters import spread as spread_constraint
from tests.unit.planning.volume_manifests import LATER, claim

TYPES: Final = {
    "t.small": (1, 2, 0.02),
    "s.large": (2, 4, 0.04),
    "c.xlarge": (4, 8, 0.075),
    "m.xlarge": (4, 16, 0.09),
    "m.2xlarge": (8, 32, 0.17),
}
"""The vCPUs, GiB and $/h of each instance type."""
RESERVED: Final = (80, 400)
"""What every new node keeps for itself: millicores and MiB."""
RUNNING: Final = (100, 64)
"""What a running pod requests: millicores and MiB."""


@dataclass(frozen=True)
class Spread:
    key: str
    skew: int
    min_domains: int = 1
    app: str = ""
    """The app that the spread counts; empty for the pods' own."""


@dataclass(frozen=True)
class App:
    """Pods that are alike. ``cpu`` is in millicores, ``memory`` in MiB. ``apart`` and ``beside`` are topology keys with
    an app; ``zone`` is a node selector. ``claim`` is the ReadWriteOncePod claim that all its pods mount."""

    name: str
    pods: int
    cpu: int
    memory: int
    priority: int = 0
    zone: str = ""
    port: bool = False
    spreads: tuple[Spread, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    beside: tuple[tuple[str, str], ...] = ()
    claim: str = ""

    def manifests(self) -> list[dict[str, Any]]:
        kinds = {"podAntiAffinity": self.apart, "podAffinity": self.beside}
        fields: dict[str, Any] = affinity(
            **{kind: [near(key, other) for key, other in terms] for kind, terms in kinds.items() if terms}
        )
        if self.spreads:
            fields["topologySpreadConstraints"] = [
                spread_constraint(one.key, app=one.app or self.name, skew=one.skew)
                | ({"minDomains": one.min_domains} if one.min_domains > 1 else {})
                for one in self.spreads
            ]
        if self.zone:
            fields["nodeSelector"] = {ZONE: self.zone}
        if self.port:
            fields["ports"] = [8080]
        if self.claim:
            fields["volumes"] = [{"name": "own", "persistentVolumeClaim": {"claimName": self.claim}}]
        if self.priority:
            fields["priority"] = self.priority
        return pods(self.pods, self.name, cpu=f"{self.cpu}m", memory=f"{self.memory}Mi", **fields)


@dataclass(frozen=True)
class Existing:
    """A node that exists, with running pods by the name of their app."""

    name: str
    zone: str
    cpu: int
    gib: int
    apps: tuple[str, ...] = ()


@dataclass(frozen=True)
class TinyCluster:
    """A tiny cluster. ``limits`` are those of its only pool: vCPUs or nodes. ``addresses`` are the free addresses of
    the zones whose subnets have few."""

    apps: tuple[App, ...]
    types: tuple[str, ...]
    zones: tuple[str, ...]
    limits: tuple[tuple[str, int], ...] = ()
    nodes: tuple[Existing, ...] = ()
    addresses: tuple[tuple[str, int], ...] = ()

    @property
    def open_zones(self) -> tuple[str, ...]:
        """Return the zones in which a node can be launched."""
        return tuple(zone for zone in self.zones if dict(self.addresses).get(zone, 1))

    @property
    def catalogue(self) -> dict[str, Json]:
        return {name: instance_type(name, *TYPES[name]) for name in self.types}

    @property
    def lists(self) -> dict[str, list[Json]]:
        zones = {"key": ZONE, "operator": "In", "values": list(self.zones)}
        pool = node_pool(requirements=[zones], limits={name: str(number) for name, number in self.limits})
        there = [
            running(f"old-{at}-{number}", at.name, app=app, cpu=f"{RUNNING[0]}m", memory=f"{RUNNING[1]}Mi")
            for at in self.nodes
            for number, app in enumerate(at.apps)
        ]
        return {
            "pods": [*there, *(one for app in self.apps for one in app.manifests())],
            "nodes": [node(one.name, zone=one.zone, cpu=one.cpu, gib=one.gib) for one in self.nodes],
            "nodepools": [pool],
            "persistentvolumeclaims": [claim(name, modes="ReadWriteOncePod") for name in self.claims],
            "storageclasses": [LATER] if self.claims else [],
        }

    @property
    def claims(self) -> tuple[str, ...]:
        return tuple(sorted({app.claim for app in self.apps} - {""}))

    def shares_claims(self, placed: Counter[str]) -> bool:
        """Return whether two of these pods, by app, would have one claim."""
        return any(sum(placed[app.name] for app in self.apps if app.claim == name) > 1 for name in self.claims)

    @cached_property
    def shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Return what a new node of each type can hold, with the vCPUs that count against the limit."""
        return tuple(
            (1000 * cpu - RESERVED[0], 1024 * gib - RESERVED[1], cpu)
            for cpu, gib, _ in (TYPES[name] for name in self.types)
        )

    @cached_property
    def holds_any(self) -> bool:
        """Return whether a new node could hold one of the pods: the pool's zones then count for every spread."""
        return any(self._smallest(app.cpu, app.memory) for app in self.apps if app.zone in ("", *self.open_zones))

    def price(self, place: "DividedNode") -> float:
        """Return the price of a node in $/h, on-demand; existing ones cost nothing."""
        cpu, memory = sum(one.cpu for one in place.inside), sum(one.memory for one in place.inside)
        shapes = zip(self.shapes, self.types, strict=True)
        able = [TYPES[name][2] for (free, gib, _), name in shapes if free >= cpu and gib >= memory]
        return min(able) if place.free is None else 0.0

    def _smallest(self, cpu: int, memory: int) -> int | None:
        return min((count for free, gib, count in self.shapes if free >= cpu and gib >= memory), default=None)


@dataclass(frozen=True)
class DividedNode:
    """A node of a division, with its pods: their apps' names, running pods included. ``free`` is what an existing node
    has for more pods."""

    zone: str
    host: str
    inside: tuple[App, ...] = ()
    there: tuple[str, ...] = ()
    free: tuple[int, int] | None = None

    def with_one(self, app: App) -> "DividedNode":
        return DividedNode(self.zone, self.host, (*self.inside, app), self.there, self.free)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.there, *(app.name for app in self.inside))

    def domain(self, key: str) -> str:
        return self.zone if key == ZONE else self.host


Division = tuple[DividedNode, ...]


def placed_by_priority(cluster: TinyCluster, placed: Counter[str]) -> tuple[int, ...]:
    """Return how many pods are placed, by priority, highest first."""
    levels = sorted({app.priority for app in cluster.apps}, reverse=True)
    return tuple(sum(placed[app.name] for app in cluster.apps if app.priority == level) for level in levels)


def better_division(cluster: TinyCluster, placed: Counter[str]) -> Division | None:
    """Return a division that places more pods than these, higher priorities first; None if there is none."""
    ways = product(*(range(app.pods + 1) for app in cluster.apps))
    named = [Counter({app.name: number for app, number in zip(cluster.apps, way, strict=True)}) for way in ways]
    own = placed_by_priority(cluster, placed)
    named = [one for one in named if not cluster.shares_claims(one)]
    better = [(placed_by_priority(cluster, one), one) for one in named if placed_by_priority(cluster, one) > own]
    for _, wanted in sorted(better, key=lambda one: one[0], reverse=True):
        waiting = [app for app in cluster.apps for _ in range(wanted[app.name])]
        for division in divisions(cluster, waiting):
            if keeps_all_rules(cluster, division) and can_be_reached(cluster, division):
                return division
    return None


def cheapest_price(cluster: TinyCluster, placed: Counter[str]) -> float:
    """Return the lowest price ($/h, on-demand) of new nodes for as many pods of each priority as these, whichever pods
    that are."""
    ways = product(*(range(app.pods + 1) for app in cluster.apps))
    named = [Counter({app.name: number for app, number in zip(cluster.apps, way, strict=True)}) for way in ways]
    own = placed_by_priority(cluster, placed)
    best = float("inf")
    for wanted in named:
        if placed_by_priority(cluster, wanted) != own or cluster.shares_claims(wanted):
            continue
        for division in divisions(cluster, [app for app in cluster.apps for _ in range(wanted[app.name])]):
            price = sum(map(cluster.price, division))
            if price < best and keeps_all_rules(cluster, division) and can_be_reached(cluster, division):
                best = price
    return best


def divisions(cluster: TinyCluster, waiting: Sequence[App]) -> Iterator[Division]:
    """Yield the divisions of these pods that keep what more pods can only break: resources, limits, ports, and rules
    about hosts and about pods to be apart from."""
    start = tuple(
        DividedNode(
            one.zone,
            one.name,
            there=one.apps,
            free=(1000 * one.cpu - RUNNING[0] * len(one.apps), 1024 * one.gib - RUNNING[1] * len(one.apps)),
        )
        for one in cluster.nodes
    )
    yield from _divide(cluster, start, waiting, 0)


def _divide(cluster: TinyCluster, made: Division, waiting: Sequence[App], first: int) -> Iterator[Division]:
    """Pods of one app are interchangeable: each goes to a node that is not before the previous one's (``first``)."""
    if not waiting:
        yield made
        return
    app, rest = waiting[0], waiting[1:]
    alike = bool(rest) and rest[0] is app
    for at in range(first, len(made)):
        more = (*made[:at], made[at].with_one(app), *made[at + 1 :])
        if app.zone in ("", made[at].zone) and _may_stand(cluster, more, app, more[at]):
            yield from _divide(cluster, more, rest, at if alike else 0)
    for zone in cluster.open_zones:
        more = (*made, DividedNode(zone, f"new-{len(made)}", (app,)))
        if app.zone in ("", zone) and _may_stand(cluster, more, app, more[-1]):
            yield from _divide(cluster, more, rest, len(made) if alike else 0)


def _may_stand(cluster: TinyCluster, made: Division, app: App, here: DividedNode) -> bool:
    cpu, memory = sum(one.cpu for one in here.inside), sum(one.memory for one in here.inside)
    if here.free is not None and (cpu > here.free[0] or memory > here.free[1]):
        return False
    if sum(one.port for one in here.inside) > 1:
        return False
    sizes = [
        cluster._smallest(sum(one.cpu for one in place.inside), sum(one.memory for one in place.inside))
        for place in made
        if place.free is None
    ]
    if None in sizes:
        return False
    new = Counter(place.zone for place in made if place.free is None)
    if any(new[zone] > most for zone, most in cluster.addresses):
        return False
    used = {"cpu": sum(size or 0 for size in sizes), "nodes": len(sizes)}
    if any(used[name] > limit for name, limit in cluster.limits):
        return False
    return all(_stands_apart(made, place, one) for place in made for one in set(place.inside)) and all(
        here.names.count(each.app or app.name) <= each.skew for each in app.spreads if each.key == HOST
    )


def _stands_apart(made: Division, here: DividedNode, app: App) -> bool:
    for key, other in app.apart:
        near_by = [name for place in made if place.domain(key) == here.domain(key) for name in place.names]
        if near_by.count(other) > (1 if other == app.name else 0):
            return False
    return True


def keeps_all_rules(cluster: TinyCluster, made: Division) -> bool:
    """Return whether every pod may be where it is, by its own rules and by those of the others."""
    for place in made:
        for app in set(place.inside):
            if not _stands_apart(made, place, app):
                return False
            if any(_skew(cluster, made, app, one, place) > one.skew for one in app.spreads):
                return False
    return True


def _skew(cluster: TinyCluster, made: Division, app: App, spread: Spread, here: DividedNode) -> int:
    """Return by how much the domain of this node is above the emptiest domain that counts."""
    counted = [place for place in made if app.zone in ("", place.zone)]
    counts: Counter[str] = Counter()
    for place in counted:
        counts[place.domain(spread.key)] += place.names.count(spread.app or app.name)
    if spread.key == HOST:
        return counts[here.host]
    domains = {one.zone for one in cluster.nodes if app.zone in ("", one.zone)}
    domains |= {zone for zone in cluster.open_zones if cluster.holds_any and app.zone in ("", zone)}
    lowest = 0 if len(domains) < spread.min_domains else min((counts[zone] for zone in domains), default=0)
    return counts[here.zone] - lowest


def can_be_reached(cluster: TinyCluster, made: Division) -> bool:
    """Return whether the scheduler can place the pods one after the other, in some order."""
    empty = tuple(DividedNode(one.zone, one.host, (), one.there, one.free) for one in made)
    todo = tuple(tuple(sorted(Counter(one.inside).items(), key=lambda each: each[0].name)) for one in made)
    seen: set[Division] = set()

    def reach(there: Division) -> bool:
        if there in seen:
            return False
        seen.add(there)
        steps = [
            (at, app)
            for at, wanted in enumerate(todo)
            for app, number in wanted
            if there[at].inside.count(app) < number
        ]
        if not steps:
            return True
        for at, app in steps:
            inside = tuple(sorted((*there[at].inside, app), key=lambda one: one.name))
            place = DividedNode(there[at].zone, there[at].host, inside, there[at].there, there[at].free)
            more = (*there[:at], place, *there[at + 1 :])
            if _accepts(cluster, there, more, place, app) and reach(more):
                return True
        return False

    return reach(empty)


def _accepts(cluster: TinyCluster, before: Division, after: Division, here: DividedNode, app: App) -> bool:
    """Return whether the scheduler accepts this pod on this node at this moment."""
    for one in app.spreads:
        counts_itself = (one.app or app.name) == app.name
        if _skew(cluster, after if counts_itself else before, app, one, here) > one.skew:
            return False
    if not app.beside:
        return True
    meant = [(place, name) for place in before for name in place.names if all(name == other for _, other in app.beside)]
    near_by = [any(place.domain(key) == here.domain(key) for place, _ in meant) for key, _ in app.beside]
    return all(near_by) or (not meant and all(other == app.name for _, other in app.beside))

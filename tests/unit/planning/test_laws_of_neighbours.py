"""Tiny clusters whose pods have affinity, anti-affinity and spread rules, against all possible plans."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.planning.drawn_clusters import (
    APPS,
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    instance_type,
    near,
    node_pool,
    planned,
    pods,
    spread,
)

SLOW_IS_FINE = examples(60, repeated=30)
TYPES = {
    "t.small": (1, 2, 0.02),
    "s.large": (2, 4, 0.04),
    "c.xlarge": (4, 8, 0.075),
    "m.xlarge": (4, 16, 0.09),
    "m.2xlarge": (8, 32, 0.17),
}
PRICE_FACTORS = dict(zip(ZONES, (1.0, 1.1, 1.25), strict=True))
OWN_OVERHEAD = (80, 400)
"""Of cpu and memory, on every type of these tests."""


@dataclass(frozen=True)
class NeighbourApp:
    """Pods that are alike. ``cpu`` is in millicores, ``memory`` in MiB. A rule is a topology key with an app, or with a
    skew.
    """

    name: str
    pods: int
    cpu: int
    memory: int
    level: tuple[tuple[str, int], ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    beside: tuple[tuple[str, str], ...] = ()

    def manifests(self) -> list[Json]:
        kinds = {"podAntiAffinity": self.apart, "podAffinity": self.beside}
        fields = affinity(
            **{kind: [near(key, other) for key, other in terms] for kind, terms in kinds.items() if terms}
        )
        spreads = [spread(key, app=self.name, skew=skew) for key, skew in self.level]
        return list(
            pods(
                self.pods,
                self.name,
                cpu=f"{self.cpu}m",
                memory=f"{self.memory}Mi",
                topologySpreadConstraints=spreads,
                **fields,
            )
        )


@st.composite
def neighbours(draw: st.DrawFn) -> list[NeighbourApp]:
    """Draw at most six pods."""
    keys, names = st.sampled_from([ZONE, HOST]), st.sampled_from(APPS[: draw(st.integers(1, 3))])
    found = []
    for name in APPS[:3]:
        rules = draw(st.lists(st.sampled_from(["level", "apart", "apart", "beside"]), max_size=2))
        found.append(
            NeighbourApp(
                name,
                draw(st.integers(1, 2)),
                draw(st.sampled_from([100, 400, 900, 1800, 2500])),
                draw(st.sampled_from([64, 1024, 3072])),
                level=tuple({draw(keys): draw(st.integers(1, 2)) for rule in rules if rule == "level"}.items()),
                apart=tuple((draw(keys), draw(names)) for rule in rules if rule == "apart"),
                beside=tuple((draw(keys), draw(names)) for rule in rules if rule == "beside"),
            )
        )
    return found[: draw(st.integers(1, 3))]


def catalogue(names: list[str]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in names:
        cpu, gib, price = TYPES[name]
        offerings = [
            {"zone": zone, "capacityType": "on-demand", "pricePerHour": round(price * more, 5)}
            for zone, more in PRICE_FACTORS.items()
        ]
        found[name] = {**instance_type(name, cpu, gib, price), "offerings": offerings}
    return found


@SLOW_IS_FINE
@given(neighbours(), st.lists(st.sampled_from(sorted(TYPES)), min_size=2, max_size=4, unique=True))
def test_a_tiny_plan_is_as_cheap_as_any_that_keeps_to_the_rules_between_pods(
    apps: list[NeighbourApp], names: list[str]
) -> None:
    types = catalogue([*names, "m.2xlarge"])
    lists = {"pods": [one for app in apps for one in app.manifests()], "nodepools": [node_pool()]}
    plan = planned(lists, types)
    best = cheapest_of_all(apps, types)

    assert check_plan(lists, types, plan.to_json()) == []
    assert (plan.pending == ()) or best is None
    if best is not None:
        assert plan.lower_bound_per_hour <= best + 1e-9
        assert plan.price_per_hour <= 1.02 * best + 1e-9
        assert not plan.optimal or plan.price_per_hour <= best + 1e-9


Where = list[tuple[NeighbourApp, str, str]]
"""Each pod with its zone and its node."""


def cheapest_of_all(apps: list[NeighbourApp], types: Mapping[str, Json]) -> float | None:
    """Return the lowest price of all divisions of the pods among nodes in all zones; None if none keeps the rules."""
    prices = [
        (
            known["offerings"][0]["pricePerHour"],
            1000 * TYPES[name][0] - OWN_OVERHEAD[0],
            1024 * TYPES[name][1] - OWN_OVERHEAD[1],
        )
        for name, known in types.items()
    ]
    best: float | None = None
    for nodes in divisions([app for app in apps for _ in range(app.pods)]):
        cost = 0.0
        for zone, inside in nodes:
            fitting = [
                price
                for price, cpu, gib in prices
                if cpu >= sum(a.cpu for a in inside) and gib >= sum(a.memory for a in inside)
            ]
            cost += round(min(fitting, default=float("inf")) * PRICE_FACTORS[zone], 5)
        if cost < (float("inf") if best is None else best):
            where = [(app, zone, str(number)) for number, (zone, inside) in enumerate(nodes) for app in inside]
            if keeps_to_rules(where, {app.name: app for app in apps}):
                best = cost
    return best


def divisions(waiting: list[NeighbourApp]) -> Iterator[list[tuple[str, list[NeighbourApp]]]]:
    if not waiting:
        yield []
        return
    for nodes in divisions(waiting[:-1]):
        for place in range(len(nodes)):
            yield [(zone, [*inside, waiting[-1]] if place == at else inside) for at, (zone, inside) in enumerate(nodes)]
        for zone in ZONES:
            yield [*nodes, (zone, [waiting[-1]])]


def domain(key: str, pod: tuple[NeighbourApp, str, str]) -> str:
    return pod[1] if key == ZONE else pod[2]


def keeps_to_rules(where: Where, apps: Mapping[str, NeighbourApp]) -> bool:
    for one in where:
        for key, other in one[0].apart:
            if any(two is not one and two[0].name == other and domain(key, two) == domain(key, one) for two in where):
                return False
    for app in apps.values():
        for key, skew in app.level:
            counts = Counter(domain(key, one) for one in where if one[0] is app)
            lowest = 0 if key == HOST else min(counts.get(zone, 0) for zone in ZONES)
            if max(counts.values()) - lowest > skew:
                return False
    return all_find_each_other(where, frozenset())


def all_find_each_other(where: Where, there: frozenset[int]) -> bool:
    """Return whether the pods can be placed one after the other, each beside those that its affinity requires, or as
    the first of its own kind.
    """
    while more := {
        at for at, one in enumerate(where) if at not in there and beside(one, [where[other] for other in there])
    }:
        there |= more
    first = [at for at, one in enumerate(where) if at not in there and is_first(one, [where[other] for other in there])]
    return len(there) == len(where) or any(all_find_each_other(where, there | {at}) for at in first)


def meant(one: tuple[NeighbourApp, str, str], there: Where) -> Where:
    return [two for two in there if all(two[0].name == other for _, other in one[0].beside)]


def beside(one: tuple[NeighbourApp, str, str], there: Where) -> bool:
    return all(any(domain(key, two) == domain(key, one) for two in meant(one, there)) for key, _ in one[0].beside)


def is_first(one: tuple[NeighbourApp, str, str], there: Where) -> bool:
    return all(other == one[0].name for _, other in one[0].beside) and not meant(one, there)

"""Reserved instances and savings plans in plans: filled first as far as they go, without what running nodes use."""

from collections import Counter
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.commitments import Commitment, Machine, apply_commitments
from joiner.planning import Ceilings, Plan, Snapshot
from joiner.planning.model.running_commitments import cover_running_nodes
from joiner.planning.planner import Planner, plan
from joiner.planning.relaxation.lower_bound import compute_lower_bound
from joiner_cli.rendering.plan_table import render_plan_summary
from tests.law_settings import examples
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, Json, node, node_pool, pods
from tests.unit.planning.test_in_flight import claim

LARGE: Final = "g.large"
LIST_PRICE: Final = 0.07


def made(count: int, *commitments: Commitment, allowed: str = "on-demand", **lists: list[Json]) -> Plan:
    """Plan for pods of which one fits on a node of type g.large."""
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": [allowed]}
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=commitments)
    waiting = cluster(pods(count, cpu="1500m"), node_pool(requirements=[fields]), **lists)
    return plan(Snapshot.from_lists(waiting), catalogue, classes=CLASSES)


def covered(found: Plan) -> Counter[str]:
    """Count the nodes that commitments cover, by type."""
    return Counter(one.instance_type for one in found.nodes if one.offer.committed)


def of_type(name: str, kind: str = LARGE, *, zone: str = ZONES[0], **labels: str) -> Json:
    """Return a full node of an instance type."""
    taint = {"key": "full", "effect": "NoSchedule"}
    return node(name, zone=zone, taints=[taint], labels={names.INSTANCE_TYPE: kind, **labels})


def test_commitments_are_used_first_as_far_as_they_go() -> None:
    found = made(3, Commitment("reserved-instances/g", 2, {LARGE: 1}))

    assert found.pending == ()
    assert Counter(one.instance_type for one in found.nodes) == {LARGE: 3}
    assert covered(found) == {LARGE: 2}
    assert found.price_per_hour == pytest.approx(LIST_PRICE)
    assert found.price_per_hour + found.committed_per_hour == pytest.approx(3 * LIST_PRICE)
    assert found.lower_bound_per_hour <= found.price_per_hour


def test_a_plan_of_many_pods_uses_commitments_too() -> None:
    found = made(60, Commitment("reserved-instances/g", 30, {LARGE: 1}))

    assert found.pending == ()
    assert covered(found) == {LARGE: 30}
    assert found.price_per_hour == pytest.approx(30 * LIST_PRICE)


def test_a_type_with_a_commitment_is_preferred_to_a_cheaper_type_without() -> None:
    found = made(2, Commitment("reserved-instances/m", 8, {"m.xlarge": 8, "m.2xlarge": 16}))

    assert [one.instance_type for one in found.nodes] == ["m.xlarge"]
    assert covered(found) == {"m.xlarge": 1}


def test_sizes_of_a_family_share_its_units() -> None:
    found = made(6, Commitment("reserved-instances/m", 24, {"m.xlarge": 8, "m.2xlarge": 16}))

    assert sum(8 if one.instance_type == "m.xlarge" else 16 for one in found.nodes) == 24
    assert all(one.offer.committed for one in found.nodes)


def test_reserved_instances_of_a_zone_cover_nodes_of_that_zone_only() -> None:
    found = made(3, Commitment("reserved-instances/g.large", 2, {LARGE: 1}, ZONES[1]))

    assert [one.zone for one in found.nodes if one.offer.committed] == [ZONES[1], ZONES[1]]


def test_what_running_nodes_use_is_not_used_twice() -> None:
    two = Commitment("reserved-instances/g", 2, {LARGE: 1})

    assert covered(made(3, two, nodes=[of_type("n-1")])) == {LARGE: 1}
    assert covered(made(3, two, nodes=[of_type("n-1"), of_type("n-2", zone=ZONES[2])])) == {}
    # A node of another type, of a managed node group on spot, and of Joiner on spot
    spot = of_type("n-2", **{"eks.amazonaws.com/capacityType": "SPOT"})
    own = of_type("n-3", **{names.CAPACITY_TYPE: "spot"})
    assert covered(made(3, two, nodes=[of_type("n-1", "m.xlarge"), spot, own])) == {LARGE: 2}


def test_claims_in_flight_use_commitments() -> None:
    family = Commitment("reserved-instances/m", 8, {"m.xlarge": 8})

    assert covered(made(1, family)) == {"m.xlarge": 1}
    assert covered(made(9, family, nodeclaims=[claim()])) == {}


def test_a_savings_plan_covers_its_dollars_of_any_type_that_it_names() -> None:
    """A commitment of $0.10 an hour covers two nodes at the plan's rate of $0.05."""
    found = made(3, Commitment("savings-plan/1", 100_000, {LARGE: 50_000, "s.large": 60_000}))

    assert covered(found) == {LARGE: 2}


def test_spot_nodes_are_never_covered() -> None:
    found = made(2, Commitment("reserved-instances/g", 2, {LARGE: 1}), allowed="spot")

    assert {one.capacity_type for one in found.nodes} == {"spot"}
    assert covered(found) == {}


def test_an_offer_without_capacity_is_not_planned_because_it_is_paid_for() -> None:
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(Commitment("r", 2, {LARGE: 1}),))
    closed = [("on-demand", LARGE, zone) for zone in ZONES]

    found = plan(Snapshot.from_lists(cluster(pods(2, cpu="1500m"))), catalogue, closed, classes=CLASSES)

    assert found.pending == ()
    assert LARGE not in {one.instance_type for one in found.nodes if one.capacity_type == "on-demand"}


def test_the_summary_names_the_list_price_and_what_commitments_pay() -> None:
    found = made(3, Commitment("reserved-instances/g", 2, {LARGE: 1}))

    assert render_plan_summary(found).splitlines()[1:3] == [
        "$0.0700/h, which is optimal: no plan for these pods costs less.",
        "The list price is $0.2100/h: reserved instances and savings plans pay for $0.1400/h, the instances of 2 "
        "nodes.",
    ]
    shown = found.to_json()
    assert shown["committedPerHour"] == pytest.approx(0.14)
    assert Plan.from_json(shown).committed_per_hour == found.committed_per_hour


def test_a_plan_that_commitments_pay_for_is_optimal() -> None:
    found = made(2, Commitment("reserved-instances/g", 2, {LARGE: 1}))

    assert found.optimal and 0 < found.price_per_hour < 1e-7
    assert render_plan_summary(found).splitlines()[1] == (
        "$0.0000/h, which is optimal: no plan for these pods costs less."
    )


def test_a_price_above_a_bound_of_zero_is_no_share_of_it() -> None:
    found = replace(made(1), lower_bound_per_hour=0.0)

    assert not found.optimal
    assert render_plan_summary(found).splitlines()[1] == (
        "$0.0700/h, above the lower bound of $0/h: free capacity or commitments could be enough."
    )


def test_with_static_pools_under_a_ceiling_a_plan_with_commitments_is_found() -> None:
    fields = [
        {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": names.INSTANCE_TYPE, "operator": "In", "values": [LARGE]},
    ]
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(Commitment("r", 3, {LARGE: 1}),))
    waiting = cluster(
        pods(1, cpu="1500m"), node_pool(requirements=fields), node_pool("static", requirements=fields, replicas=3)
    )

    found = plan(Snapshot.from_lists(waiting), catalogue, classes=CLASSES, ceilings=Ceilings(price_per_hour=0.1))

    assert [one.offer.committed > 0 for one in found.nodes] == [True, True, True]


@pytest.mark.parametrize(
    ("amount", "sizes", "ceiling"),
    [(270_000, [(4, "700m"), (4, "2600m")], 0.08), (370_000, [(3, "2600m"), (6, "1100m")], 0.14)],
)
def test_nodes_that_commitments_do_not_pay_in_the_end_keep_to_the_ceiling(
    amount: int, sizes: list[tuple[int, str]], ceiling: float
) -> None:
    """The dollars of a savings plan pay for the smallest nodes first, and only for a part of the last one."""
    rates = {name: round(1e6 * 0.7 * list_price(name, ZONES[0])) for name in CATALOGUE}
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    waiting = [one for at, (number, cpu) in enumerate(sizes) for one in pods(number, f"app-{at}", cpu=cpu)]
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(Commitment("savings-plan", amount, rates),))
    snapshot = Snapshot.from_lists(cluster(waiting, node_pool(requirements=[fields])))

    found = plan(snapshot, catalogue, classes=CLASSES, ceilings=Ceilings(price_per_hour=ceiling))

    assert found.nodes and found.price_per_hour <= ceiling


def class_of(alias: str) -> Json:
    """Return a node class with the images of an alias."""
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "c"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": alias}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
        },
    }


@pytest.mark.parametrize("alias", ["al2023@latest", "bottlerocket@latest", "windows2022@latest"])
@pytest.mark.parametrize("zone", ["", ZONES[1]])
def test_a_node_planned_on_a_commitment_is_covered_as_soon_as_it_runs(alias: str, zone: str) -> None:
    two = Commitment("r", 16, {"m.xlarge": 8, LARGE: 8}, zone)
    system = "windows" if alias.startswith("windows") else "linux"
    allowed = [
        {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
        {"key": names.OS, "operator": "In", "values": [system]},
    ]
    waiting = cluster(
        pods(6, cpu="1500m", nodeSelector={names.OS: system}),
        node_pool(requirements=allowed),
        ec2nodeclasses=[class_of(alias)],
    )
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(two,))

    found = plan(Snapshot.from_lists(waiting), catalogue, classes=CLASSES)
    launched = [node(f"n-{number}", zone=one.zone, labels=dict(one.labels)) for number, one in enumerate(found.nodes)]
    running = cover_running_nodes(Snapshot.from_lists({"nodes": launched}), (two,))

    assert found.pending == ()
    assert {f"n-{number}" for number, one in enumerate(found.nodes) if one.offer.committed} == set(running.shares)
    assert len(running.shares) == (0 if system == "windows" else 2)


def overlay(**spec: str) -> Json:
    """Return a NodeOverlay for type g.large."""
    wanted = [{"key": names.INSTANCE_TYPE, "operator": "In", "values": [LARGE]}]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "o", "uid": "o"},
        "spec": {"requirements": wanted, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "nodes", "price"), [({"price": "0.06"}, 0, 0.18), ({"priceAdjustment": "+0.02"}, 2, 0.13)]
)
def test_a_fixed_price_of_an_overlay_excludes_commitments_and_a_change_of_the_price_does_not(
    spec: dict[str, str], nodes: int, price: float
) -> None:
    wanted = [
        {"key": names.INSTANCE_TYPE, "operator": "In", "values": [LARGE]},
        {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]
    waiting = cluster(pods(3, cpu="1500m"), node_pool(requirements=wanted), nodeoverlays=[overlay(**spec)])
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(Commitment("r", 2, {LARGE: 1}),))

    found = plan(Snapshot.from_lists(waiting), catalogue, classes=CLASSES)

    assert sum(1 for one in found.nodes if one.offer.committed) == nodes
    assert found.price_per_hour == pytest.approx(price, abs=1e-6)
    if not nodes:
        assert found.lower_bound_per_hour == pytest.approx(price)


def cheapest_price(number: int, commitment: Commitment) -> float:
    """Return the lowest price for pods that fill a large node, by trying every mix of covered nodes."""
    holds = {"m.xlarge": 2, "m.2xlarge": 5}

    def most(kinds: list[str], left: int) -> int:
        """Return the most pods that covered nodes of these types hold."""
        if not kinds:
            return 0
        use = commitment.uses[kinds[0]]
        return max(nodes * holds[kinds[0]] + most(kinds[1:], left - nodes * use) for nodes in range(left // use + 1))

    return max(number - most(list(commitment.uses), commitment.amount), 0) * LIST_PRICE


@examples(100, repeated=20)
@given(
    amount=st.integers(10, 200),
    units=st.fixed_dictionaries({"m.xlarge": st.integers(10, 90), "m.2xlarge": st.integers(10, 90)}),
    number=st.integers(1, 14),
)
def test_the_bound_is_no_higher_than_the_price_of_any_mix_of_covered_types(
    amount: int, units: dict[str, int], number: int
) -> None:
    """The bound is that of the relaxation itself, before it is limited by the price of the plan that was found."""
    commitment = Commitment("savings-plan/1", amount, units)
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(commitment,))
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    waiting = Snapshot.from_lists(cluster(pods(number, cpu="1500m"), node_pool(requirements=[fields])))
    state = Planner().state(waiting, catalogue, classes=CLASSES)

    assert compute_lower_bound(state).price_per_hour <= cheapest_price(number, commitment) + 1e-9


def test_the_bound_knows_that_two_types_share_the_rest_of_a_commitment() -> None:
    """60 units for five pods and 40 for two suffice for all seven pods."""
    commitment = Commitment("savings-plan/1", 100, {"m.2xlarge": 60, "m.xlarge": 40})
    catalogue = replace(Catalogue.from_json(CATALOGUE), commitments=(commitment,))
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    waiting = Snapshot.from_lists(cluster(pods(7, cpu="1500m"), node_pool(requirements=[fields])))

    assert cheapest_price(7, commitment) == 0
    assert compute_lower_bound(Planner().state(waiting, catalogue, classes=CLASSES)).price_per_hour == 0


def list_price(instance_type: str, zone: str) -> float:
    return Catalogue.from_json(CATALOGUE).price(instance_type, zone, "on-demand") or 0.0


def added_to_the_bill(found: Plan, commitments: tuple[Commitment, ...], running: list[Machine]) -> float:
    """Return what the nodes of a plan add to the bill of the account, beside the instances that run."""

    def bill(machines: list[Machine]) -> float:
        shares = apply_commitments(commitments, machines).shares
        return sum(list_price(one.instance_type, one.zone) * (1 - shares.get(one.id, 0.0)) for one in machines)

    new = [Machine(f"new/{one.name}", one.instance_type, one.zone) for one in found.nodes]
    return bill([*running, *new]) - bill(running)


UNITS: Final = {"g.large": 1, "s.large": 1, "m.xlarge": 2, "m.2xlarge": 4}
RATES: Final = {name: round(1e6 * 0.7 * list_price(name, ZONES[0])) for name in UNITS}


@st.composite
def owned(draw: st.DrawFn) -> tuple[Commitment, ...]:
    """Draw up to two commitments: units of some types, and dollars at the rates of a savings plan."""
    types = draw(st.lists(st.sampled_from(sorted(UNITS)), min_size=1, unique=True))
    zone = draw(st.sampled_from(["", ZONES[0]]))
    units = Commitment("reserved-instances", draw(st.integers(1, 8)), {name: UNITS[name] for name in types}, zone)
    dollars = Commitment("savings-plan", draw(st.integers(20_000, 900_000)), RATES)
    return draw(st.sampled_from([(units,), (dollars,), (units, dollars)]))


@examples(25)
@given(
    commitments=owned(),
    sizes=st.lists(st.tuples(st.integers(1, 6), st.sampled_from([300, 700, 1100, 1500, 2600])), min_size=1, max_size=4),
    there=st.lists(st.sampled_from(sorted(UNITS)), max_size=2),
)
def test_the_bill_is_never_higher_than_that_of_the_plan_that_ignores_commitments(
    commitments: tuple[Commitment, ...], sizes: list[tuple[int, int]], there: list[str]
) -> None:
    fields = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    waiting = [pod for at, (number, cpu) in enumerate(sizes) for pod in pods(number, f"app-{at}", cpu=f"{cpu}m")]
    nodes = [of_type(f"n-{at}", kind) for at, kind in enumerate(there)]
    snapshot = Snapshot.from_lists(cluster(waiting, node_pool(requirements=[fields]), nodes=nodes))
    running = [Machine(f"n-{at}", kind, ZONES[0]) for at, kind in enumerate(there)]
    catalogue = Catalogue.from_json(CATALOGUE)

    ignoring = plan(snapshot, catalogue, classes=CLASSES)
    using = plan(snapshot, replace(catalogue, commitments=commitments), classes=CLASSES)

    assert len(using.pending) <= len(ignoring.pending)
    bill = added_to_the_bill(using, commitments, running)
    assert bill <= added_to_the_bill(ignoring, commitments, running) + 1e-6
    assert using.lower_bound_per_hour <= using.price_per_hour


def test_without_commitments_a_plan_names_none() -> None:
    found = made(3)

    assert found.committed_per_hour == 0
    assert "committedPerHour" not in found.to_json()
    assert "list price" not in render_plan_summary(found)


def test_a_running_node_on_dedicated_hardware_uses_no_commitment() -> None:
    there = [of_type("alone", **{names.TENANCY: "dedicated"}), of_type("shared")]
    snapshot = Snapshot.from_lists(cluster([], node_pool(), nodes=there))

    found = cover_running_nodes(snapshot, [Commitment("reserved-instances/g", 2, {LARGE: 1})])

    assert set(found.shares) == {"shared"}

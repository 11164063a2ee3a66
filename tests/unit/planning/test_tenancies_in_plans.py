"""Nodes on dedicated hardware: only where a pool or a pod requires it, at its own price."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools.resolved_node_class import PlacementGroup
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node_pool, pods

SURCHARGE = 0.01
SOLD_DEDICATED = {
    name: {**known, "dedicatedSurchargePerHour": SURCHARGE} for name, known in CATALOGUE.items() if name != "s.large"
}
PARTLY_SOLD = {**CATALOGUE, **SOLD_DEDICATED}
NEAR = PlacementGroup("pg-1", "near", "cluster")
Requirement = Mapping[str, Any]


def tenancy(operator: str, *values: str) -> Requirement:
    return {"key": names.TENANCY, "operator": operator, **({"values": list(values)} if values else {})}


def requiring(*requirements: Requirement) -> dict[str, Any]:
    """Return the fields of a pod whose node affinity has these requirements."""
    terms = [{"matchExpressions": list(requirements)}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def planned(
    pool: Collection[Requirement] = (), pod: Mapping[str, Any] | None = None, catalogue: Mapping[str, Any] = PARTLY_SOLD
) -> Plan:
    """Return the checked plan for three pods."""
    made = node_pool()
    made["spec"]["template"]["spec"]["requirements"] += list(pool)
    lists = cluster(pods(3, **(pod or {})), made)
    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(catalogue), classes=CLASSES)
    assert check_plan(lists, catalogue, found.to_json()) == []
    return found


def tenancies(found: Plan) -> set[str]:
    return {node.labels.get(names.TENANCY, "default") for node in found.nodes}


@pytest.mark.parametrize(
    ("pool", "pod", "expected"),
    [
        ([], {}, {"default"}),
        ([tenancy("Exists")], {}, {"default"}),
        ([tenancy("In", "default", "dedicated")], {}, {"default"}),
        ([tenancy("In", "dedicated")], {}, {"dedicated"}),
        ([tenancy("NotIn", "default")], {}, {"dedicated"}),
        ([], {"nodeSelector": {names.TENANCY: "dedicated"}}, {"dedicated"}),
        ([], requiring(tenancy("NotIn", "default")), {"dedicated"}),
        ([], requiring(tenancy("In", "default", "dedicated")), {"default"}),
        ([tenancy("In", "default", "dedicated")], {"nodeSelector": {names.TENANCY: "dedicated"}}, {"dedicated"}),
        ([tenancy("In", "dedicated")], {"nodeSelector": {names.TENANCY: "default"}}, set()),
        ([tenancy("In", "default")], {"nodeSelector": {names.TENANCY: "dedicated"}}, set()),
    ],
)
def test_nodes_have_dedicated_hardware_only_where_it_is_required(
    pool: list[Requirement], pod: Mapping[str, Any], expected: set[str]
) -> None:
    found = planned(pool, pod)

    assert tenancies(found) == expected
    assert len(found.pending) == (0 if expected else 3)


def test_pods_that_require_different_tenancies_get_nodes_of_both() -> None:
    mixed = [*pods(2), *pods(2, "alone", nodeSelector={names.TENANCY: "dedicated"})]
    lists = cluster(mixed, node_pool())

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(PARTLY_SOLD), classes=CLASSES)

    assert check_plan(lists, PARTLY_SOLD, found.to_json()) == []
    assert tenancies(found) == {"default", "dedicated"}
    on_shared = {pod for node in found.nodes if names.TENANCY not in node.labels for pod in node.pods}
    assert not {"default/alone-0", "default/alone-1"} & on_shared


def test_claims_of_nodes_on_dedicated_hardware_require_it() -> None:
    (node,) = planned(pod={"nodeSelector": {names.TENANCY: "dedicated"}}).nodes

    assert (
        node.requirements[names.TENANCY] == planned([tenancy("In", "dedicated")]).nodes[0].requirements[names.TENANCY]
    )
    assert names.DEFAULT_TENANCY not in node.requirements[names.TENANCY]


def test_only_types_with_a_price_as_dedicated_instances_are_used_so() -> None:
    found = planned([tenancy("In", "dedicated")])

    types = {each.instance_type for node in found.nodes for each in (node.offer, *node.alternatives)}
    assert types
    assert "s.large" not in types


def test_without_prices_of_dedicated_instances_those_of_shared_hardware_stand_in() -> None:
    dedicated, shared = planned([tenancy("In", "dedicated")], catalogue=CATALOGUE), planned(catalogue=CATALOGUE)

    assert tenancies(dedicated) == {"dedicated"}
    assert dedicated.price_per_hour == shared.price_per_hour


@pytest.mark.parametrize(
    ("zone", "pool", "group", "nodes"),
    [
        ("*@dedicated", "dedicated", None, 0),
        ("*@dedicated", "default", None, 1),
        ("*", "dedicated", None, 0),
        ("*@dedicated", "dedicated", NEAR, 0),
        ("*@pg-1", "dedicated", NEAR, 0),
        ("*@pg-1@dedicated", "dedicated", NEAR, 0),
        ("*@pg-1@dedicated", "default", NEAR, 1),
        ("*@pg-2@dedicated", "dedicated", NEAR, 1),
    ],
)
def test_a_shortage_of_dedicated_hardware_closes_only_nodes_on_it(
    zone: str, pool: str, group: PlacementGroup | None, nodes: int
) -> None:
    made = node_pool(requirements=[tenancy("In", pool)])
    snapshot = Snapshot.from_lists(cluster(pods(1), made))
    classes = {key: replace(one, placement_group=group) for key, one in CLASSES.items()}
    short = {("on-demand", "*", zone), ("spot", "*", zone)}

    found = plan(snapshot, Catalogue.from_json(CATALOGUE), short, classes=classes)

    assert (len(found.nodes), len(found.pending)) == (nodes, 1 - nodes)


def overlay(*values: str, **more: Any) -> dict[str, Any]:
    spec = {"requirements": [tenancy("In", *values)], "priceAdjustment": "+10%", **more}
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "-".join(values).lower(), "uid": "u"},
        "spec": spec,
    }


@pytest.mark.parametrize(("value", "known"), [("dedicated", True), ("Dedicated", False)])
def test_an_overlay_of_dedicated_hardware_changes_its_price_and_a_misspelt_one_is_reported(
    value: str, known: bool
) -> None:
    made = node_pool()
    made["spec"]["template"]["spec"]["requirements"] += [tenancy("In", "dedicated")]
    lists = cluster(pods(1), made, nodeoverlays=[overlay(value)])

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES)

    without = plan(Snapshot.from_lists(cluster(pods(1), made)), Catalogue.from_json(CATALOGUE), classes=CLASSES)
    assert found.nodes[0].offer.overlaid == known
    assert (found.price_per_hour > without.price_per_hour) == known
    assert ["changes nothing" in one.remedy for one in found.problems if "NodeOverlay" in one.object] == (
        [] if known else [True]
    )


@pytest.mark.parametrize(
    "requirement",
    [
        {**tenancy("Exists"), "minValues": 2},
        {**tenancy("In", "default", "dedicated"), "minValues": 2},
    ],
)
def test_min_values_of_the_tenancy_are_always_met(requirement: Requirement) -> None:
    found = planned([requirement])

    assert (tenancies(found), found.pending) == ({"default"}, ())


@pytest.mark.parametrize(
    ("requirement", "shown"),
    [
        (
            tenancy("In", "dedicated", "host"),
            "requirements[karpenter.k8s.aws/instance-tenancy] is host",
        ),
        (tenancy("DoesNotExist"), "alone, 0 meet karpenter.k8s.aws/instance-tenancy"),
        (tenancy("NotIn", "default", "dedicated"), "alone, 0 meet karpenter.k8s.aws/instance-tenancy"),
    ],
)
def test_a_tenancy_that_no_instance_has_is_reported_on_the_pool(requirement: Requirement, shown: str) -> None:
    made = node_pool("odd", requirements=[requirement])
    lists = cluster(pods(1), made, node_pool())

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES)

    assert found.pending == ()
    assert any(shown in str(one) for one in found.problems if one.object == "NodePool/odd")


def test_dedicated_hardware_is_not_planned_in_a_capacity_reservation() -> None:
    reserved = {"zone": "us-test-1a", "capacityType": "reserved", "pricePerHour": 0.0, "count": 2}
    known = {**CATALOGUE["s.large"], "offerings": [*CATALOGUE["s.large"]["offerings"], reserved]}

    found = planned([tenancy("In", "dedicated")], catalogue={**CATALOGUE, "s.large": known})

    assert "reserved" not in {each.capacity_type for node in found.nodes for each in node.alternatives}


@pytest.mark.parametrize(
    ("label", "pod", "expected"),
    [("dedicated", "dedicated", "dedicated"), ("dedicated", "default", ""), ("default", "dedicated", "")],
)
def test_a_label_of_the_template_is_a_requirement(label: str, pod: str, expected: str) -> None:
    made = node_pool()
    made["spec"]["template"]["metadata"] = {"labels": {names.TENANCY: label}}
    lists = cluster(pods(1, nodeSelector={names.TENANCY: pod}), made)

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(PARTLY_SOLD), classes=CLASSES)

    assert [node.labels[names.TENANCY] for node in found.nodes] == ([expected] if expected else [])


def test_a_shortage_of_dedicated_hardware_is_no_mistake_of_the_pod() -> None:
    lists = cluster(pods(1, nodeSelector={names.TENANCY: "dedicated"}), node_pool())
    short = {(kind, "*", "*@dedicated") for kind in ("on-demand", "spot")}

    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), short, classes=CLASSES)

    (reason,) = found.pending[0].reasons
    assert "on dedicated hardware" in str(reason)
    assert "incompatible" not in str(reason)


@pytest.mark.parametrize(
    ("group", "nodes"),
    [
        (PlacementGroup("pg-1", "apart", "spread"), 0),
        (PlacementGroup("pg-1", "racks", "partition", 7), 0),
        (PlacementGroup("pg-1", "racks", "partition", 2), 1),
    ],
)
def test_placement_groups_without_dedicated_instances_get_none(group: PlacementGroup, nodes: int) -> None:
    snapshot = Snapshot.from_lists(cluster(pods(1), node_pool(requirements=[tenancy("In", "dedicated")])))
    classes = {key: replace(one, placement_group=group) for key, one in CLASSES.items()}

    found = plan(snapshot, Catalogue.from_json(CATALOGUE), classes=classes)

    assert len(found.nodes) == nodes
    for one in found.pending:
        assert f"EC2 launches no Dedicated Instances into the {group.strategy} placement group" in str(one.reasons[0])

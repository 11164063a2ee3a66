"""Nodes on dedicated hardware: only where a pool or a pod requires it, at its own price."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node_pool, pods

SURCHARGE = 0.01
SOLD_DEDICATED = {
    name: {**known, "dedicatedSurchargePerHour": SURCHARGE} for name, known in CATALOGUE.items() if name != "s.large"
}
PARTLY_SOLD = {**CATALOGUE, **SOLD_DEDICATED}
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
    ("zone", "pool", "nodes"),
    [("*@dedicated", "dedicated", 0), ("*@dedicated", "default", 1), ("*", "dedicated", 0)],
    ids=["of dedicated hardware", "of dedicated hardware, on shared", "of the zones, on dedicated"],
)
def test_a_shortage_of_dedicated_hardware_closes_only_nodes_on_it(zone: str, pool: str, nodes: int) -> None:
    made = node_pool()
    made["spec"]["template"]["spec"]["requirements"].append(tenancy("In", pool))
    snapshot = Snapshot.from_lists(cluster(pods(1), made))
    short = {("on-demand", "*", zone), ("spot", "*", zone)}

    found = plan(snapshot, Catalogue.from_json(CATALOGUE), short, classes=CLASSES)

    assert (len(found.nodes), len(found.pending)) == (nodes, 1 - nodes)

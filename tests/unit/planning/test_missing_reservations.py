"""A pool or a pod that takes reserved capacity only: without a usable reservation, its reason names the capacity type,
the class and the remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools import CapacityReservation
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONES, node_pool, pods

FREE = CapacityReservation("cr-1", "g.large", ZONES[0], 2)
SELECTS_NONE = (
    "its class EC2NodeClass/default selects no capacity reservation: set spec.capacityReservationSelectorTerms in "
)
ONLY = "it allows reserved capacity only, and "
BESIDE = ", or allow on-demand, too"


def requires(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [*values]}


RESERVED = requires(names.CAPACITY_TYPE, "reserved")


def made(
    *reservations: CapacityReservation,
    requirements: Sequence[Mapping[str, Any]] = (RESERVED,),
    terms: Sequence[Mapping[str, Any]] = (),
    closed: Sequence[tuple[str, str, str]] = (),
    **changes: Any,
) -> Plan:
    """Plan for one pod and a pool with these requirements, whose class has these reservations."""
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}],
            **({"capacityReservationSelectorTerms": [*terms]} if terms else {}),
        },
    }
    pool = node_pool(requirements=requirements, **{key: value for key, value in changes.items() if key == "replicas"})
    lists = {
        "pods": changes.get("pods", pods(1, cpu="1500m")),
        "nodepools": [pool],
        "ec2nodeclasses": [node_class],
    }
    classes = {key: replace(one, reservations=reservations) for key, one in CLASSES.items()}
    return plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), closed, classes=classes)


def reason(found: Plan) -> str:
    ((one,),) = [pending.reasons for pending in found.pending]
    return one.reason


def warnings_of_pool(found: Plan) -> list[tuple[str, str, str, str]]:
    mine = [one for one in found.problems if one.object == "NodePool/default"]
    return [(one.severity, one.field, one.value, one.remedy) for one in mine]


FIELD = f"spec.template.spec.requirements[{names.CAPACITY_TYPE}]"


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        pytest.param({}, f"{SELECTS_NONE}the class{BESIDE}", id="no terms"),
        pytest.param(
            {"terms": [{"id": "cr-0123456789abcdef0"}]},
            "no active capacity reservation matches spec.capacityReservationSelectorTerms of its class "
            f"EC2NodeClass/default: correct the terms, or create a reservation{BESIDE}",
            id="no active one",
        ),
        pytest.param(
            {"reservations": [FREE], "requirements": [RESERVED, requires("kubernetes.io/arch", "amd64")]},
            "its other requirements exclude all capacity reservations of its class EC2NodeClass/default (cr-1: g.large "
            f"in {ZONES[0]}): allow their instance types and zones{BESIDE}",
            id="other types",
        ),
        pytest.param(
            {"reservations": [replace(FREE, zone="us-test-1x")]},
            "its class EC2NodeClass/default has no subnet with a free address in the zone of a capacity reservation "
            f"with a free instance (cr-1: g.large in us-test-1x): select one there{BESIDE}",
            id="no subnet there",
        ),
    ],
)
def test_a_pool_of_reserved_capacity_only_has_the_reason_and_the_remedy(
    world: Mapping[str, Any], expected: str
) -> None:
    others = {name: value for name, value in world.items() if name != "reservations"}
    answer = made(*world.get("reservations", ()), **others)

    assert reason(answer) == f"{ONLY}{expected}"
    assert warnings_of_pool(answer) == [("warning", FIELD, "reserved", f"{ONLY}{expected}")]


def test_a_pool_whose_reserved_instances_are_all_in_use_is_no_mistake() -> None:
    found = made(replace(FREE, available=0))

    assert reason(found) == (
        f"{ONLY}no instance is free in the capacity reservations of its class EC2NodeClass/default that it allows "
        f"(cr-1: g.large in {ZONES[0]}): enlarge one, or select another{BESIDE}"
    )
    assert warnings_of_pool(found) == []


def test_a_pool_that_excludes_the_other_capacity_types_is_one_too() -> None:
    excludes = {"key": names.CAPACITY_TYPE, "operator": "NotIn", "values": ["spot", "on-demand"]}

    found = made(requirements=[excludes])

    assert reason(found) == f"{ONLY}{SELECTS_NONE}the class{BESIDE}"
    assert warnings_of_pool(found)[0][:3] == ("warning", FIELD, "NotIn [on-demand, spot]")


def test_a_static_pool_has_the_reason_at_its_replicas() -> None:
    found = made(replicas=2, pods=[])

    assert [(one.nodes, one.reason) for one in found.unlaunched] == [(2, f"{ONLY}{SELECTS_NONE}the class{BESIDE}")]


def test_a_free_reservation_that_is_unavailable_now_is_not_missing() -> None:
    found = made(FREE, closed=[("reserved", "g.large", ZONES[0])])

    assert reason(found) == "no instance type that is available meets the pool's requirements"
    assert warnings_of_pool(found) == []


def test_a_pool_whose_other_requirements_meet_nothing_is_not_explained_by_reservations() -> None:
    unmet = requires(names.INSTANCE_TYPE, "m.xlarge")

    found = made(requirements=[RESERVED, unmet, requires("kubernetes.io/arch", "arm64")])

    assert reason(found) == "no instance type that is available meets the pool's requirements"
    assert [one[1] for one in warnings_of_pool(found)] == ["spec.template.spec.requirements"]


def test_a_pod_that_requires_reserved_capacity_names_what_the_class_of_the_pool_lacks() -> None:
    wanting = pods(1, cpu="1500m", nodeSelector={names.CAPACITY_TYPE: "reserved"})
    both = requires(names.CAPACITY_TYPE, "reserved", "on-demand")

    assert reason(made(requirements=[both], pods=wanting)) == (
        f"incompatible requirements: the pod wants karpenter.sh/capacity-type In [reserved], and {SELECTS_NONE}"
        "the class"
    )
    on_demand = made(requirements=[requires(names.CAPACITY_TYPE, "on-demand")], pods=wanting)
    assert "no node of this pool has that" in reason(on_demand)
    assert made(FREE, requirements=[both], pods=wanting).pending == ()

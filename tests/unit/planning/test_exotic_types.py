"""Bare metal and types with accelerators are launched only where the pods or the pool ask for them, even where they are
the cheapest. Source: Karpenter, ``pkg/providers/instance/filter/filter.go``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, PlanTolerances, Snapshot
from joiner.planning.inputs.claim_pools import with_claim_pools
from joiner.planning.planner import plan
from joiner.pools import CapacityReservation
from tests.unit.planning.checked_plans import checked, cluster
from tests.unit.planning.drawn_clusters import CLASSES, ZONES, Json, affinity, instance_type, near, node_pool, pod, pods

LABEL = "karpenter.k8s.aws/instance-"
GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"


def kind(
    name: str, cpu: int, gib: int, price: float, *, gpus: int = 0, zones: Sequence[str] = ZONES[:1], **labels: str
) -> Json:
    """Return an instance type with the labels of its family and size, and those given, such as `accelerator_count`."""
    made = instance_type(name, cpu, gib, price, zones=zones, pods=30)
    family, _, size = name.partition(".")
    own = {"family": family, "size": size, "category": family.rstrip("0123456789dn"), **labels}
    own |= {"gpu_count": str(gpus)} if gpus else {}
    devices = {GPU: str(gpus)} if gpus else {}
    return {
        **made,
        "labels": {**made["labels"], **{LABEL + key.replace("_", "-"): value for key, value in own.items()}},
        "capacity": {**made["capacity"], **devices},
        "allocatable": {**made["allocatable"], **devices},
    }


COMMON = {"m5.xlarge": kind("m5.xlarge", 4, 16, 0.2)}
EXOTIC: Mapping[str, Json] = {
    "m5.metal": kind("m5.metal", 4, 16, 0.1),
    "g5.xlarge": kind("g5.xlarge", 4, 16, 0.1, gpus=1),
    "inf2.xlarge": kind("inf2.xlarge", 4, 16, 0.1, accelerator_count="1"),
    "f2.xlarge": kind("f2.xlarge", 4, 16, 0.1),
}
ALL = {**COMMON, **EXOTIC}


def gpu_pod(name: str, gpus: int = 1, **fields: Any) -> Json:
    made = pod(name, app="gpu", **fields)
    made["spec"]["containers"][0]["resources"]["requests"][GPU] = str(gpus)
    return made


def requires(key: str, *values: str, operator: str = "In") -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def types(made: Plan) -> list[str]:
    return sorted(node.instance_type for node in made.nodes)


@pytest.mark.parametrize("name", EXOTIC)
@pytest.mark.parametrize("capacity_type", ["spot", "on-demand"])
def test_a_pod_that_asks_for_nothing_gets_a_common_type_although_others_are_cheaper(
    name: str, capacity_type: str
) -> None:
    pool = node_pool(requirements=[requires("karpenter.sh/capacity-type", capacity_type)])

    made = checked(cluster(pods(3), pool), catalogue={**COMMON, name: EXOTIC[name]})

    assert types(made) == ["m5.xlarge"]
    assert {one.instance_type for node in made.nodes for one in node.alternatives} == {"m5.xlarge"}
    assert made.price_per_hour == pytest.approx(made.lower_bound_per_hour)


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (requires("node.kubernetes.io/instance-type", "m5.xlarge", "m5.metal"), "m5.metal"),
        (requires("node.kubernetes.io/instance-type", "m5.xlarge", "g5.xlarge"), "g5.xlarge"),
        (requires(LABEL + "size", "xlarge", "metal"), "m5.metal"),
        (requires(LABEL + "family", "m5", "g5"), "g5.xlarge"),
        (requires(LABEL + "category", "m", "inf"), "inf2.xlarge"),
        (requires(LABEL + "category", "m", "f"), "f2.xlarge"),
        (requires(LABEL + "gpu-count", operator="Exists"), "g5.xlarge"),
        (requires(LABEL + "accelerator-count", "0", operator="Gt"), "inf2.xlarge"),
        (requires(LABEL + "family", "m5"), "m5.xlarge"),
        (requires(LABEL + "category", "c", operator="NotIn"), "m5.xlarge"),
        (requires(LABEL + "gpu-count", "4", operator="NotIn"), "m5.xlarge"),
    ],
)
def test_requirements_of_the_pool_or_of_the_pod_that_name_them_open_them(requirement: Json, expected: str) -> None:
    by_pool = checked(cluster(pods(1), node_pool(requirements=[requirement])), catalogue=ALL)
    terms = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    asking = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    by_pod = checked(cluster(pods(1, affinity=asking)), catalogue=ALL)

    assert (types(by_pool), types(by_pod)) == ([expected], [expected])


def test_a_pod_that_names_them_opens_them_for_itself_only() -> None:
    metal = pod("metal", cpu="3", nodeSelector={LABEL + "size": "metal"})

    made = checked(cluster([metal, *pods(2, cpu="3")]), catalogue=ALL)

    assert types(made) == ["m5.metal", "m5.xlarge", "m5.xlarge"]


def test_pods_that_request_a_device_get_a_type_with_it_but_no_bare_metal() -> None:
    metal = {"g5.metal": kind("g5.metal", 8, 32, 0.08, gpus=8)}

    assert types(checked(cluster([gpu_pod("a")]), catalogue={**ALL, **metal})) == ["g5.xlarge"]
    assert types(checked(cluster([gpu_pod("a", 8)]), catalogue={**ALL, **metal})) == ["g5.metal"]


def test_a_pod_that_no_common_type_can_hold_gets_the_cheapest_of_the_others() -> None:
    large = {
        "p4.large": kind("p4.large", 16, 64, 9.0, gpus=8),
        "m5.metal": kind("m5.metal", 16, 64, 1.0),
    }

    assert types(checked(cluster(pods(1, cpu="9")), catalogue={**COMMON, **large})) == ["m5.metal"]


def test_pods_that_must_share_a_host_get_bare_metal_if_only_that_holds_all_of_them() -> None:
    metal = {"m5.metal": kind("m5.metal", 16, 64, 1.0)}
    together = affinity(podAffinity=[near(HOST, "web")])

    assert types(checked(cluster(pods(3, cpu="3", **together)), catalogue={**COMMON, **metal})) == ["m5.metal"]
    assert types(checked(cluster(pods(3, cpu="1", **together)), catalogue={**COMMON, **metal})) == ["m5.xlarge"]


def test_pods_join_a_node_that_another_pod_needs() -> None:
    catalogue = {**COMMON, "g5.2xlarge": kind("g5.2xlarge", 8, 32, 1.2, gpus=1)}

    made = checked(cluster([gpu_pod("gpu", cpu="1"), *pods(4, cpu="1500m")]), catalogue=catalogue)

    assert types(made) == ["g5.2xlarge"]


def test_beside_pods_that_need_them_other_pods_open_no_node_of_them() -> None:
    catalogue = {**COMMON, "g5.xlarge": kind("g5.xlarge", 4, 16, 0.1, gpus=1)}
    spot = node_pool(requirements=[requires("karpenter.sh/capacity-type", "spot")])
    waiting = [gpu_pod("gpu", cpu="3"), *pods(12, cpu="1900m"), *pods(3, "api", cpu="3500m")]

    for tolerances in (None, PlanTolerances()):
        snapshot = Snapshot.from_lists(cluster(waiting, spot))
        made = plan(snapshot, Catalogue.from_json(catalogue), classes=CLASSES, tolerances=tolerances)

        assert made.pending == ()
        assert [node.pods for node in made.nodes if node.instance_type == "g5.xlarge"] == [("default/gpu",)]
        assert not made.optimal  # the bound does not know this rule, see test_exotic_types_beside_rules


def test_min_values_count_them_and_a_common_type_is_planned() -> None:
    pool = node_pool(requirements=[{**requires(LABEL + "family", operator="Exists"), "minValues": 3}])

    (node,) = checked(cluster(pods(1), pool), catalogue=ALL).nodes

    assert node.instance_type == "m5.xlarge"
    assert len({one.instance_type.partition(".")[0] for one in node.alternatives}) == 3


@pytest.mark.parametrize(
    ("requirements", "expected", "choices"),
    [
        ([], "m5.xlarge", {"m5.xlarge"}),
        ([requires(LABEL + "size", "metal", "xlarge")], "m5.metal", {"m5.metal", "m5.xlarge"}),
    ],
)
def test_a_static_pool_has_them_only_if_it_names_them(
    requirements: Sequence[Json], expected: str, choices: set[str]
) -> None:
    made = checked(cluster([], node_pool("fixed", replicas=2, requirements=requirements)), catalogue=ALL)

    assert types(made) == [expected, expected]
    assert {one.instance_type for node in made.nodes for one in node.alternatives} == choices


@pytest.mark.parametrize(
    ("requirements", "requests", "expected"),
    [
        ([], {"cpu": "1"}, "m5.xlarge"),
        ([], {GPU: "1"}, "g5.xlarge"),
        ([requires(LABEL + "size", "metal", "xlarge")], {"cpu": "1"}, "m5.metal"),
    ],
)
def test_a_claim_of_a_user_has_them_only_if_it_names_or_requests_them(
    requirements: Sequence[Json], requests: Mapping[str, str], expected: str
) -> None:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": ref, "requirements": requirements, "resources": {"requests": requests}}
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "own"}, "spec": spec}
    snapshot = with_claim_pools(Snapshot.from_lists({"pods": [], "nodeclaims": [claim]}))

    assert types(plan(snapshot, Catalogue.from_json(ALL), classes=CLASSES)) == [expected]


def test_a_reservation_that_the_class_selects_asks_for_its_type() -> None:
    reserved = CapacityReservation("cr-1", "m5.metal", ZONES[0], 1)
    classes = {key: replace(one, reservations=(reserved,)) for key, one in CLASSES.items()}
    pool = node_pool(requirements=[requires(names.CAPACITY_TYPE, "reserved", "on-demand")])
    snapshot = Snapshot.from_lists(cluster(pods(2, cpu="3"), pool))

    made = plan(snapshot, Catalogue.from_json(ALL), classes=classes)

    assert sorted((node.instance_type, node.capacity_type) for node in made.nodes) == [
        ("m5.metal", "reserved"),
        ("m5.xlarge", "on-demand"),
    ]


def test_without_capacity_of_common_types_they_are_launched() -> None:
    made = checked(
        cluster(pods(1)), catalogue=ALL, unavailable=[(kind, "m5.xlarge", "*") for kind in ("spot", "on-demand")]
    )

    assert types(made) == ["f2.xlarge"]

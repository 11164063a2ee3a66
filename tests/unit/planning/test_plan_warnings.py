"""What a plan warns about, as a colleague would."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import PlanTolerances, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from tests.unit.planning.drawn_clusters import CLASSES, ZONES, instance_type, node, node_pool, pods

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
IN_ONE_ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONES[0]]}
ZONE = "topology.kubernetes.io/zone"
ONLY = {"only": instance_type("only", 4, 16, 0.2)}
BURSTABLE = {"t3.xlarge": instance_type("t3.xlarge", 4, 16, 0.1)}
ANOTHER = {"only": ONLY["only"], "other": instance_type("other", 4, 16, 0.2)}


def owned(count: int, name: str = "web", **fields: Any) -> list[dict[str, Any]]:
    """Return pods of one ReplicaSet."""
    owner = {"kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    made = pods(count, name, **fields)
    return [{**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}} for pod in made]


def warnings(
    lists: Mapping[str, Sequence[Any]],
    types: Mapping[str, Any],
    classes: Mapping[str, ResolvedNodeClass] = CLASSES,
) -> tuple[str, ...]:
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(types), classes=classes, tolerances=PlanTolerances())
    assert made.pending == ()
    assert made.to_json()["warnings"] == list(made.warnings)
    return made.warnings


def test_a_plan_that_is_spread_and_may_choose_has_no_warnings() -> None:
    assert warnings({"pods": owned(6, cpu="3"), "nodepools": [node_pool(requirements=[ON_DEMAND])]}, ANOTHER) == ()


def test_one_zone_and_one_type_are_reported() -> None:
    pool = node_pool(requirements=[ON_DEMAND, IN_ONE_ZONE])

    assert warnings({"pods": owned(5, cpu="3"), "nodepools": [pool]}, ONLY) == (
        f"all 5 new nodes are in the zone {ZONES[0]}",
        "all 5 new nodes can only be of the type only: if EC2 has no capacity for it, their pods stay pending; allow "
        "more types in the pool",
    )


@pytest.mark.parametrize("key", [ZONE, names.HOSTNAME])
def test_the_reason_for_one_zone_names_preferences_if_these_hold_the_nodes(key: str) -> None:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "api"}}}
    beside = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    waiting = [*owned(3, "api", cpu="3"), *owned(3, cpu="3", affinity={"podAffinity": beside})]

    found = warnings({"pods": waiting, "nodepools": [node_pool(requirements=[ON_DEMAND])]}, ANOTHER)

    text = (
        f"all 6 new nodes are in the zone {ZONES[0]}; nodes in other zones cost more than the tolerance, or rules and "
        "preferences of the pods, limits or reservations exclude them"
    )
    assert [one for one in found if "new nodes" in one] == ([text] if key == ZONE else [])


def test_a_workload_on_one_node_is_reported() -> None:
    lists: dict[str, list[Any]] = {"pods": owned(4, cpu="500m"), "nodepools": [node_pool(requirements=[ON_DEMAND])]}

    assert warnings(lists, ANOTHER) == ("4 of the 4 pods of default/web are on one new node, default-1",)


def test_also_both_pods_of_a_pair_on_one_node_are_reported() -> None:
    lists: dict[str, list[Any]] = {"pods": owned(2, cpu="500m"), "nodepools": [node_pool(requirements=[ON_DEMAND])]}

    assert warnings(lists, ANOTHER) == ("2 of the 2 pods of default/web are on one new node, default-1",)


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
def test_a_workload_that_asks_to_be_together_is_not_reported(key: str) -> None:
    beside = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside]}}
    cpu = "500m" if key == "kubernetes.io/hostname" else "3"
    lists: dict[str, list[Any]] = {
        "pods": owned(4, cpu=cpu, labels={"app": "web"}, affinity=affinity),
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }

    assert warnings(lists, ANOTHER) == ()


def test_a_workload_that_selects_a_zone_is_not_reported() -> None:
    there = {"topology.kubernetes.io/zone": ZONES[0]}
    lists: dict[str, list[Any]] = {
        "pods": [*owned(4, cpu="3", nodeSelector=there), *owned(4, "other", cpu="3")],
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }

    assert warnings({**lists, "pods": lists["pods"][:4]}, ANOTHER) == ()
    assert warnings(lists, ANOTHER) == ()


def test_the_pods_that_run_in_a_zone_count() -> None:
    running = [
        {**each, "spec": {**each["spec"], "nodeName": where}, "status": {"phase": "Running"}}
        for each, where in zip(owned(4, cpu="1"), ["near", "near", "near", "far"], strict=True)
    ]
    new = [
        {**each, "metadata": {**each["metadata"], "name": f"new-{number}"}}
        for number, each in enumerate(owned(2, cpu="3"))
    ]
    elsewhere = owned(2, "other", cpu="3", nodeSelector={"topology.kubernetes.io/zone": ZONES[1]})
    cheap = [
        {**each, "pricePerHour": each["pricePerHour"] * (1 if each["zone"] == ZONES[0] else 2)}
        for each in ONLY["only"]["offerings"]
    ]
    lists: dict[str, list[Any]] = {
        "pods": [*running, *new, *elsewhere],
        "nodes": [node("near", cpu=3), node("far", zone=ZONES[1], cpu=1)],
        "nodepools": [node_pool(requirements=[ON_DEMAND])],
    }

    types = {name: {**each, "offerings": cheap} for name, each in ANOTHER.items()}

    assert warnings(lists, types) == (f"5 of the 6 pods of default/web are in the zone {ZONES[0]}",)


def test_burstable_types_are_reported_if_pods_request_more_than_they_sustain() -> None:
    named = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["t3.xlarge"]}
    lists: dict[str, list[Any]] = {"pods": owned(3, cpu="3"), "nodepools": [node_pool(requirements=[ON_DEMAND, named])]}

    assert warnings(lists, BURSTABLE) == (
        "3 new nodes of burstable types get pods that request more CPU than the types sustain: they use up their "
        "credits, or each further vCPU-hour is billed",
    )


def test_a_plan_launches_no_node_in_a_zone_whose_subnets_are_full() -> None:
    classes = {
        "EC2NodeClass/default": ResolvedNodeClass(
            "default",
            "EC2NodeClass",
            subnets=tuple(Subnet(f"subnet-{zone}", zone, free_ips=0 if zone == ZONES[0] else 500) for zone in ZONES),
        )
    }
    lists: dict[str, list[Any]] = {"pods": owned(6, cpu="3"), "nodepools": [node_pool(requirements=[ON_DEMAND])]}

    everywhere = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=CLASSES)
    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=classes)

    assert {node.zone for node in everywhere.nodes} >= {ZONES[0]}
    assert made.pending == ()
    assert {node.zone for node in made.nodes} == {ZONES[1]}  # the types are sold in two zones


def test_pods_of_a_class_whose_subnets_are_full_name_the_subnets() -> None:
    subnets = tuple(Subnet(f"subnet-{zone}", zone, free_ips=0) for zone in ZONES)
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}
    lists: dict[str, list[Any]] = {"pods": pods(1), "nodepools": [node_pool(requirements=[ON_DEMAND])]}

    made = plan(Snapshot.from_lists(lists), Catalogue.from_json(ANOTHER), classes=classes)

    (reason,) = made.pending[0].reasons
    assert "no subnet of its class EC2NodeClass/default has a free address: use larger or more subnets" in str(reason)


def test_full_subnets_and_limits_that_are_nearly_reached_are_reported() -> None:
    subnets = tuple(Subnet(f"subnet-{zone}", zone, free_ips=3 if zone == ZONES[0] else 500) for zone in ZONES)
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=subnets)}
    pool = node_pool(requirements=[ON_DEMAND, IN_ONE_ZONE], limits={"cpu": "13"})

    assert warnings({"pods": pods(12, cpu="900m"), "nodepools": [pool]}, ANOTHER, classes) == (
        f"all 3 new nodes are in the zone {ZONES[0]}",
        f"the subnet subnet-{ZONES[0]} has 3 free addresses, and the new nodes and pods there need 15: allow more "
        "subnets in the node class, or use prefix delegation with a larger subnet",
        "NodePool/default is close to its limit of cpu: 12 of 13 with this plan",
    )


def test_subnets_that_suffice_for_each_class_but_not_for_all_are_reported() -> None:
    """The first class needs 4 addresses of 4, the second one 5 of 8; together they need 9 of 8."""
    subnets = tuple(Subnet(f"subnet-{number}", ZONES[0], free_ips=4) for number in range(2))
    pools = [node_pool(name, requirements=[ON_DEMAND]) for name in ("one", "both")]
    for pool in pools:
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = pool["metadata"]["name"]
    classes = {
        "EC2NodeClass/one": ResolvedNodeClass("one", "EC2NodeClass", subnets=subnets[:1]),
        "EC2NodeClass/both": ResolvedNodeClass("both", "EC2NodeClass", subnets=subnets),
    }
    waiting = [
        *pods(3, "a", cpu="900m", nodeSelector={"karpenter.sh/nodepool": "one"}),
        *pods(4, "b", cpu="900m", nodeSelector={"karpenter.sh/nodepool": "both"}),
    ]

    found = warnings({"pods": waiting, "nodepools": pools}, ANOTHER, classes)

    assert [one for one in found if "free addresses" in one] == [
        "the subnets subnet-0 and subnet-1 have 8 free addresses, and the new nodes and pods there need 9: allow more "
        "subnets in the node class, or use prefix delegation with a larger subnet"
    ]


@pytest.mark.parametrize(("count", "expected"), [(99, 0), (100, 1)])
def test_a_hundred_nodes_are_reported(count: int, expected: int) -> None:
    found = warnings({"pods": pods(count, cpu="3"), "nodepools": [node_pool(requirements=[ON_DEMAND])]}, ANOTHER)

    text = f"the plan launches {count} nodes for pods; larger instance types would need fewer"
    assert [one for one in found if "launches" in one] == [text] * expected


def test_pods_that_exclude_each_other_from_nodes_are_named_as_the_cause() -> None:
    rule = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": names.HOSTNAME}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
    waiting = pods(110, cpu="1", affinity=affinity)
    for one in waiting:
        one["metadata"]["labels"] = {"app": "web"}

    found = warnings({"pods": waiting, "nodepools": [node_pool(requirements=[ON_DEMAND])]}, ANOTHER)

    assert [one for one in found if "launches" in one] == [
        "the plan launches 110 nodes for pods; on 110 of them, rules of pods keep others of their kind off the node, "
        "so larger ones help little"
    ]


def test_the_nodes_of_static_pools_are_as_many_as_their_replicas_say() -> None:
    pools = [node_pool("fixed", replicas=150, requirements=[ON_DEMAND])]

    assert [one for one in warnings({"pods": [], "nodepools": pools}, ANOTHER) if "launches" in one] == []


def test_prices_of_shared_hardware_for_dedicated_instances_are_reported() -> None:
    alone = pods(1, nodeSelector={names.TENANCY: "dedicated"})
    lists: dict[str, list[Any]] = {"pods": alone, "nodepools": [node_pool(requirements=[ON_DEMAND])]}
    priced = {"only": {**ONLY["only"], "dedicatedSurchargePerHour": 0.02}}

    assert warnings(lists, priced) == ()
    assert warnings(lists, ONLY) == (
        "1 new node on dedicated hardware: the catalogue has no prices of Dedicated Instances, so the plan has those "
        "of shared hardware",
    )

"""Burstable types are planned with the vCPUs that their credits sustain, unless a pool or a pod names them."""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.catalogue.burstable_types import sustained_millicores
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from tests.unit.planning.drawn_clusters import CLASSES, instance_type, node_pool, pods

TYPES: dict[str, dict[str, Any]] = {
    "t3.xlarge": dict(instance_type("t3.xlarge", 4, 16, 0.1)),
    "m5.xlarge": dict(instance_type("m5.xlarge", 4, 16, 0.2)),
}
TYPES["t3.xlarge"]["labels"].update(
    {"karpenter.k8s.aws/instance-category": "t", "karpenter.k8s.aws/instance-family": "t3"}
)
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def planned(pool: Mapping[str, Any], cpu: str, **spec: Any) -> Plan:
    lists: dict[str, list[Any]] = {"pods": pods(1, cpu=cpu, **spec), "nodepools": [pool]}
    return plan(Snapshot.from_lists(lists), Catalogue.from_json(TYPES), classes=CLASSES)


def types(made: Plan) -> list[str]:
    return [node.instance_type for node in made.nodes]


@pytest.mark.parametrize(
    ("name", "millicores"),
    [
        ("t3.nano", 100),
        ("t3a.micro", 200),
        ("t4g.small", 400),
        ("t4g.2xlarge", 3200),
        ("t2.xlarge", 900),
        ("m5.large", None),
    ],
)
def test_the_baseline_is_that_of_the_credits_earned_in_an_hour(name: str, millicores: int | None) -> None:
    assert sustained_millicores(name) == millicores


def test_a_burstable_type_holds_what_it_sustains() -> None:
    pool = node_pool(requirements=[ON_DEMAND])

    assert types(planned(pool, "1500m")) == ["t3.xlarge"]
    assert types(planned(pool, "1600m")) == ["m5.xlarge"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("karpenter.k8s.aws/instance-category", "t"),
        ("karpenter.k8s.aws/instance-family", "t3"),
        ("node.kubernetes.io/instance-type", "t3.xlarge"),
    ],
)
def test_a_pool_or_a_pod_that_names_it_gets_all_of_its_cpu(key: str, value: str) -> None:
    named = {"key": key, "operator": "In", "values": [value]}

    assert types(planned(node_pool(requirements=[ON_DEMAND, named]), "3")) == ["t3.xlarge"]
    assert types(planned(node_pool(requirements=[ON_DEMAND]), "3", nodeSelector={key: value})) == ["t3.xlarge"]


def test_the_annotation_of_a_pool_asks_for_all_of_its_cpu() -> None:
    pool = dict(node_pool(requirements=[ON_DEMAND]))
    pool["metadata"] = {"name": "default", "uid": "u", "annotations": {"joiner.dev/burstable": "full"}}

    assert types(planned(pool, "3")) == ["t3.xlarge"]

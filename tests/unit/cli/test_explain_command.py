"""`joiner explain pod`: the reason for a node and the next best, or the rules that exclude each pool and type."""

import json
from pathlib import Path
from typing import Any

import pytest

from joiner.planning import Plan
from joiner.planning.plan_simplification import Simplification
from joiner_cli.rendering.plan_table import describe_simplification
from tests.unit.cli.command_runs import deployment, joiner, node_class, pod, pool, write
from tests.unit.cli.small_catalogue import small

AMD = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]


def test_a_pod_that_is_too_large_gets_each_group_of_types_and_the_nearest_offer(
    tmp_path: Path, catalogue: Path
) -> None:
    files = write(tmp_path, pool(requirements=AMD), pod("huge", cpu="20"))
    answer = joiner("explain", "pod", "huge", "-f", files, "--catalogue", catalogue)

    assert answer.exit_code == 2
    assert (
        answer.out
        == """\
default/huge stays pending. It requests 20 cpu, 128 MiB memory.

default: no instance type has enough resources.
  TYPES  WHICH                                                FIRST RULE THAT EXCLUDES THE POD
      3  c7g.xlarge, m7g.large, r6g.2xlarge                   the pool requires kubernetes.io/arch In [amd64]
      8  c6i.* (2), m5.* (2), g4dn.* (1) and 3 more families  too small: short of cpu
  Nearest: c6i.4xlarge in us-east-1a, on-demand, $0.6922/h; it is short of 4.11 cpu.
  What would have to change: the pod would have to request 4.11 cpu less.
"""
    )


def test_a_pod_that_matches_no_type_of_the_pool_shows_the_requirement(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(requirements=AMD), pod("arm", nodeSelector={"kubernetes.io/arch": "arm64"}))
    text = joiner("explain", "pod", "default/arm", "-f", files, "--catalogue", catalogue).out

    assert "the pod requires kubernetes.io/arch In [arm64]" in text
    assert (
        "What would have to change: the pod would have to drop kubernetes.io/arch In [arm64], or NodePool/default "
        "would have to allow kubernetes.io/arch In [arm64]." in text
    )


def test_a_pod_whose_affinity_has_only_empty_terms_is_explained(tmp_path: Path, catalogue: Path) -> None:
    affinity: dict[str, Any] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    }
    text = joiner(
        "explain", "pod", "a", "-f", write(tmp_path, pool(), pod("a", affinity=affinity)), "--catalogue", catalogue
    ).out

    assert (
        "default: its required node affinity has nothing but empty terms, and an empty term matches no node.\n" in text
    )
    assert "asks for a node by name" not in text
    assert text.endswith("What would have to change: the pod would have to drop its required node affinity.\n")


def test_a_taint_excludes_the_pod_from_the_whole_pool(tmp_path: Path, catalogue: Path) -> None:
    tainted = pool("gpu", node={"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]})
    text = joiner("explain", "pod", "a", "-f", write(tmp_path, tainted, pod("a")), "--catalogue", catalogue).out

    assert "gpu: did not tolerate taint nvidia.com/gpu:NoSchedule." in text
    assert (
        "What would have to change: the pod would have to tolerate nvidia.com/gpu:NoSchedule, or NodePool/gpu would "
        "have to remove the taint nvidia.com/gpu:NoSchedule." in text
    )


def test_a_placed_pod_shows_its_node_and_the_next_best(tmp_path: Path, catalogue: Path) -> None:
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}
    files = write(tmp_path, pool(requirements=[*AMD, zone]), deployment("web", 3, "500m", "1Gi"))
    answer = joiner("explain", "pod", "web-1", "-f", files, "--catalogue", catalogue)

    assert answer.exit_code == 0
    assert answer.out.startswith(
        "shop/web-1 goes to a new node of NodePool/default: c6i.large in us-east-1a, on-demand, $0.0972/h.\n"
    )
    assert (
        "6 instance types of NodePool/default can hold it; with shop/web-0, shop/web-2 this one is part" in answer.out
    )
    assert answer.out.endswith(
        "Next best: without c6i.large its 3 pods would go on m5.large in us-east-1a for $0.1082/h, $0.0110/h more.\n"
    )


def test_a_pod_on_an_existing_node_shows_the_price_of_a_new_one(tmp_path: Path, catalogue: Path) -> None:
    status = {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}, "status": status}
    answer = joiner(
        "explain", "pod", "a", "-f", write(tmp_path, pool(requirements=AMD), node, pod("a")), "--catalogue", catalogue
    )

    assert answer.out.startswith(
        "default/a goes to node here, which has enough free resources.\n\nWhy there: an existing node costs nothing "
        "more.\n"
    )
    assert "Next best: a new node, c6i.large" in answer.out


def test_a_pod_on_an_unregistered_node_shows_its_instance_and_deadline(tmp_path: Path, catalogue: Path) -> None:
    place = {"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "us-east-1a"}
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    launched = {
        "type": "Launched",
        "status": "True",
        "reason": "Launched",
        "message": "",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    }
    allocatable = {"cpu": "1930m", "memory": "7Gi", "pods": "29"}
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-a", "labels": {"karpenter.sh/nodepool": "default", **place}},
        "spec": {"nodeClassRef": ref, "requirements": []},
        "status": {
            "providerID": "aws:///us-east-1a/i-1",
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [launched],
        },
    }
    answer = joiner("explain", "pod", "a", "-f", write(tmp_path, pool(), claim, pod("a")), "--catalogue", catalogue)

    assert answer.out.startswith(
        "default/a goes to the node of NodeClaim default-a (instance i-1; it may join until 2026-11-21T12:15:00Z), "
        "which has enough free resources.\n"
    )
    assert "Next best: a new node, " in answer.out


def test_a_pod_is_explained_although_other_objects_are_invalid(tmp_path: Path, catalogue: Path) -> None:
    files = write(
        tmp_path, pool(), pool("broken", requirements=[{**AMD[0], "operator": "Inn"}]), pod("a"), pod("b", cpu="one")
    )
    placed = joiner("explain", "pod", "a", "-f", files, "--catalogue", catalogue)
    refused = joiner("explain", "pod", "b", "-f", files, "--catalogue", catalogue)

    assert placed.exit_code == 1
    assert placed.out.startswith("default/a goes to a new node of NodePool/default: ")
    assert "NodePool/broken: spec.template.spec.requirements[0].operator is Inn" in placed.err
    assert (refused.exit_code, refused.out) == (1, "")
    assert refused.err.endswith("; the invalid input is listed above\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "nothing",
            "joiner: there is no pod nothing (pods of a Deployment are called NAMESPACE/DEPLOYMENT-0 and so on)\n",
        ),
        (
            "web",
            "and so on); there are shop/web-0, shop/web-1, shop/web-2, shop/web-3, shop/web-4 and 2 more\n",
        ),
    ],
)
def test_an_unknown_pod_is_an_error(name: str, message: str, tmp_path: Path, catalogue: Path) -> None:
    answer = joiner(
        "explain", "pod", name, "-f", write(tmp_path, pool(), deployment("web", 7)), "--catalogue", catalogue
    )

    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err.endswith(message)


@pytest.mark.parametrize(
    ("wanted", "left_out", "where"),
    [
        ({}, "Left out: m5.metal (bare metal: neither the pod nor the pool asks for it).", "m5.large"),
        ({"karpenter.k8s.aws/instance-size": "metal"}, "", "m5.metal"),
    ],
)
def test_a_cheaper_type_that_nothing_asks_for_is_named(
    wanted: dict[str, str], left_out: str, where: str, tmp_path: Path
) -> None:
    types = small("m5.metal").to_json()
    only = {name: types[name] for name in ("m5.large", "m5.metal", "g4dn.xlarge")}
    for offering in only["m5.metal"]["offerings"]:
        offering["pricePerHour"] = 0.01
    catalogue = tmp_path / "cheap.json"
    catalogue.write_text(json.dumps(only))
    file = write(tmp_path, pool(), pod("a", nodeSelector=wanted))

    text = joiner("explain", "pod", "a", "-f", file, "--catalogue", catalogue).out

    assert f"default/a goes to a new node of NodePool/default: {where} in " in text
    assert "1 instance type of NodePool/default can hold it" in text
    assert [line for line in text.splitlines() if line.startswith("Left out")] == ([left_out] if left_out else [])


def test_a_simplified_plan_says_what_that_costs_and_why_the_next_best_is_cheaper(
    tmp_path: Path, catalogue: Path
) -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
            ]
        }
    }
    volumes = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "64Ti", "volumeType": "gp3"}}]
    pods = [pod(name, cpu=cpu, affinity=apart) for name, cpu in (("a", "3"), ("b", "3"), ("small", "100m"))]
    files = write(tmp_path, pool(requirements=AMD), node_class(blockDeviceMappings=volumes), *pods)

    plan = joiner("plan", "-f", files, "--catalogue", catalogue)
    text = joiner("explain", "pod", "small", "-f", files, "--catalogue", catalogue).out

    changed = (
        "$0.1070/h for 1 type fewer, 2 nodes in other zones "
        "(planning.fewerNodesTolerancePercent, planning.zoneSpreadTolerancePercent)"
    )
    assert f"\nSimplified: {changed}.\n" in plan.out
    assert f"; this is the cheapest plan found, simplified: {changed}, with the pod alone on its node.\n" in text
    assert text.endswith("/h, $0.1070/h less; the plan is simplified (see above).\n")


def test_a_simplification_to_a_new_type_counts_only_what_is_fewer() -> None:
    """Two types of nodes give their pods to one node of a third type."""
    plan = Plan(simplified=Simplification(nodes=2, types=-1, price_per_hour=0.01))

    assert describe_simplification(plan) == "$0.0100/h for 2 nodes fewer (planning.fewerNodesTolerancePercent)"
    assert describe_simplification(Plan(simplified=Simplification(types=-1, price_per_hour=0.01))) == ""
    assert describe_simplification(Plan(simplified=Simplification(types=1, price_per_hour=0.00001))) == ""

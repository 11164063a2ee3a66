"""Which other autoscalers create nodes in the cluster, and whether Joiner may act beside them."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from joiner.lifecycle.other_autoscalers import DEFINITIONS, AutoscalerSign, find_other_autoscalers, refusal_reason
from tests.unit.lifecycle.joining_nodes import NOON

REPOSITORY = Path(__file__).parents[3]


def lease(name: str, *, age: float = 5, holder: str = "karpenter-7f_0") -> dict[str, Any]:
    renewed = NOON - timedelta(seconds=age)
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}"},
    }


def test_a_running_karpenter_is_named_and_refuses() -> None:
    (found,) = find_other_autoscalers([lease("karpenter-leader-election")], (), NOON)

    assert found.guard is AutoscalerSign.KARPENTER_RUNS
    assert "karpenter-7f_0 holds the lease kube-system/karpenter-leader-election" in found.message
    assert "Scale Karpenter's deployment to 0" in found.message
    assert refusal_reason([found]) == "KarpenterRuns"


@pytest.mark.parametrize("past", [{"age": 61.0}, {"holder": ""}], ids=["that nobody renews", "that was given back"])
def test_a_lease_is_of_the_past(past: dict[str, Any]) -> None:
    assert find_other_autoscalers([lease("karpenter-leader-election", **past)], (), NOON) == ()


def test_a_lease_that_never_was_held_shows_nothing() -> None:
    assert find_other_autoscalers([{"metadata": {"name": "karpenter-leader-election"}, "spec": None}], (), NOON) == ()


def test_definitions_of_another_program_refuse_and_the_remedy_can_be_pasted() -> None:
    (found,) = find_other_autoscalers((), ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"], NOON)

    assert refusal_reason([found]) == "ForeignDefinitions"
    command = (
        "kubectl label crd nodeclaims.karpenter.sh nodepools.karpenter.sh "
        "app.kubernetes.io/managed-by=joiner --overwrite"
    )
    assert command in found.message


def test_cluster_autoscaler_is_warned_about_and_does_not_refuse() -> None:
    (found,) = find_other_autoscalers([lease("cluster-autoscaler", holder="ca-0")], (), NOON)

    assert (found.guard, refusal_reason([found])) == (AutoscalerSign.CLUSTER_AUTOSCALER_RUNS, "")
    assert "ca-0 holds the lease kube-system/cluster-autoscaler" in found.message


def test_all_are_reported_and_the_first_that_refuses_is_the_reason() -> None:
    found = find_other_autoscalers([lease("cluster-autoscaler"), lease("karpenter-leader-election")], DEFINITIONS, NOON)

    assert [other.guard for other in found] == [
        AutoscalerSign.KARPENTER_RUNS,
        AutoscalerSign.FOREIGN_DEFINITIONS,
        AutoscalerSign.CLUSTER_AUTOSCALER_RUNS,
    ]
    assert refusal_reason(found) == "KarpenterRuns"


def test_the_definitions_are_those_that_are_installed() -> None:
    installed = [
        yaml.safe_load(path.read_text())["metadata"] for path in (REPOSITORY / "manifests" / "crds").glob("*.yaml")
    ]

    karpenter = [each["name"] for each in installed if not each["name"].endswith(".autoscaling.x-k8s.io")]
    assert sorted(karpenter) == sorted(DEFINITIONS)
    assert {metadata["labels"]["app.kubernetes.io/managed-by"] for metadata in installed} == {"joiner"}

"""All problems of an invalid object are reported together: its warnings, and the names that no node has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import deployment, joiner, node_class, pod, pool, write
from tests.unit.cli.remedy_runs import only

SCHEDULE = "metadata.annotations[joiner.dev/schedule]"


def fields(folder: Path, catalogue: Path, *manifests: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the severity and the field of each problem."""
    found = joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue, "-o", "json").json
    return {(one["severity"], one["field"]) for one in found["problems"]}


def test_unknown_names_of_an_invalid_pool_are_reported(tmp_path: Path, catalogue: Path) -> None:
    types = only("node.kubernetes.io/instance-type", "m5.xlargee")
    no_zone = {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["us-east-1A"]}
    limits = {"cpu": "-4", "cpus": "3", "Memory": "5Gi", "nvidia.com/gpus": "2"}

    assert fields(tmp_path, catalogue, node_class(), pool(requirements=[types, no_zone], limits=limits)) >= {
        ("error", "spec.limits.cpu"),
        ("warning", "spec.limits.cpus"),
        ("warning", "spec.limits.Memory"),
        ("warning", "spec.limits.nvidia.com/gpus"),
        ("warning", "spec.template.spec.requirements[node.kubernetes.io/instance-type]"),
        ("warning", "spec.template.spec.requirements[topology.kubernetes.io/zone]"),
    }


def test_unknown_names_beside_a_misspelt_field_of_a_pool_are_reported(tmp_path: Path, catalogue: Path) -> None:
    misspelt = pool(requirements=[only("node.kubernetes.io/instance-type", "m5.xlargee")], wieght=3)

    assert fields(tmp_path, catalogue, node_class(), misspelt) >= {
        ("error", "spec.wieght"),
        ("warning", "spec.template.spec.requirements[node.kubernetes.io/instance-type]"),
    }


def test_a_problem_that_an_error_may_have_caused_is_not_reported(tmp_path: Path, catalogue: Path) -> None:
    """`limits` could not be read with a list in it, so no problem of its other resources is reported."""
    found = fields(tmp_path, catalogue, node_class(), pool(limits={"cpu": [1], "cpus": "3"}))

    assert {field for _, field in found if field.startswith("spec.limits")} == {"spec.limits[cpu]"}


@pytest.mark.parametrize("spec", [{"weight": 0}, {"replicas": -1}, {"limits": {"cpu": "-4"}}])
def test_annotations_and_labels_of_an_invalid_pool_are_reported(
    spec: dict[str, Any], tmp_path: Path, catalogue: Path
) -> None:
    annotated = pool(**spec)
    annotated["metadata"].update(annotations={"joiner.dev/bogus": "x"}, labels={"joiner.dev/drift": "detect"})

    assert fields(tmp_path, catalogue, node_class(), annotated) >= {
        ("error", "spec.limits.cpu" if "limits" in spec else f"spec.{next(iter(spec))}"),
        ("warning", "metadata.annotations[joiner.dev/bogus]"),
        ("warning", "metadata.labels[joiner.dev/drift]"),
    }


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "no"}}, "spec.scalableRef.name"),
        ({"replicas": -2, "podTemplateRef": {"name": "a"}}, "spec.replicas"),
    ],
)
def test_the_schedule_of_an_invalid_buffer_is_reported(
    spec: dict[str, Any], field: str, tmp_path: Path, catalogue: Path
) -> None:
    buffer = {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "annotations": {"joiner.dev/schedule": "always"}},
        "spec": spec,
    }

    assert fields(tmp_path, catalogue, buffer) >= {("error", field), ("warning", SCHEDULE)}


def test_all_mistakes_of_an_overlay_are_reported(tmp_path: Path, catalogue: Path) -> None:
    overlay = {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "a"},
        "spec": {"weight": 0, "requirements": [], "capacity": {"cpu": "4"}},
    }

    assert fields(tmp_path, catalogue, overlay) == {("error", "spec.weight"), ("error", "spec.capacity.cpu")}


def test_unknown_names_of_invalid_pods_are_reported(tmp_path: Path, catalogue: Path) -> None:
    selector = {"kubernetes.io/arhc": "arm64"}
    alone, workload = pod("a", nodeSelector=selector, prioritty=1), deployment("web", 2, nodeSelector=selector)
    workload["spec"]["replicaz"] = 3

    assert fields(tmp_path, catalogue, node_class(), pool(), alone, workload) >= {
        ("error", "spec.prioritty"),
        ("warning", "spec.nodeSelector[kubernetes.io/arhc]"),
        ("error", "spec.replicaz"),
        ("warning", "spec.template.spec.nodeSelector[kubernetes.io/arhc]"),
    }

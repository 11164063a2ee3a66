"""What the API server refuses in pods, StatefulSets and volumes is refused here, with the value as it was written."""

from typing import Any

import pytest

from tests.unit.cli.command_runs import deployment, pod
from tests.unit.cli.manifest_reading import read_objects


def stateful_set(mounts: list[dict[str, Any]], claim: dict[str, Any]) -> dict[str, Any]:
    """Return a StatefulSet with these mounts and one claim template with this metadata."""
    manifest = deployment("db", 1)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    claims = [
        {"metadata": claim, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    ]
    container["volumeMounts"] = mounts
    return {**manifest, "kind": "StatefulSet", "spec": {**manifest["spec"], "volumeClaimTemplates": claims}}


def volume(driver: str) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": driver, "volumeHandle": "vol-1"},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec}


def errors(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.field, one.value) for one in read_objects(manifest).errors]


MOUNTS = "spec.template.spec.containers[0].volumeMounts"


@pytest.mark.parametrize(
    ("mounts", "claim", "expected"),
    [
        ([{"name": "data", "mountPath": "/data"}], {"name": "data"}, []),
        ([{"name": "dat", "mountPath": "/data"}], {"name": "data"}, [(f"{MOUNTS}[0].name", "dat")]),
        ([{"name": "data", "mountPath": "/data"}] * 2, {"name": "data"}, [(f"{MOUNTS}[1].mountPath", "/data")]),
        ([{"name": "data"}], {"name": "data"}, [(f"{MOUNTS}[0].mountPath", "")]),
        ([], {}, [("spec.volumeClaimTemplates[0].metadata.name", "")]),
        ([], {"name": ""}, [("spec.volumeClaimTemplates[0].metadata.name", '""')]),
    ],
)
def test_mounts_of_a_stateful_set_name_its_volumes_and_claims(
    mounts: list[dict[str, Any]], claim: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert errors(stateful_set(mounts, claim)) == expected


def test_a_priority_must_be_that_of_the_class_unless_the_pod_is_from_a_cluster() -> None:
    stored = pod("stored", priority=5)
    stored["metadata"]["uid"] = "u-1"

    assert errors(pod("new", priority=5)) == [("spec.priority", "5")]
    assert errors(pod("critical", priority=5, priorityClassName="system-node-critical")) == [("spec.priority", "5")]
    assert (
        errors(stored) == errors(pod("zero", priority=0)) == errors(pod("of", priority=5, priorityClassName="a")) == []
    )


def test_a_pod_without_a_class_has_the_priority_of_the_default_class() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    default = {**high, "globalDefault": True}
    read = read_objects(default, pod("same", priority=1000), pod("other", priority=7), deployment("web", 2, priority=7))

    assert [(one.object, one.value) for one in read.errors] == [("Pod/default/other", "7")]
    assert [(one.object, one.field, one.value) for one in read.problems if one.severity == "warning"] == [
        ("Deployment/shop/web", "spec.template.spec.priority", "7")
    ]
    assert {one.name for one in read.snapshot.pods} == {"same", "web-0", "web-1"}


def test_a_repeated_gate_is_named() -> None:
    gates = [{"name": "example.com/quota"}, {"name": "example.com/other"}, {"name": "example.com/quota"}]

    assert errors(pod("gated", schedulingGates=gates)) == [("spec.schedulingGates[2].name", "example.com/quota")]


def test_the_name_of_a_csi_driver_has_63_bytes_at_most() -> None:
    assert errors(volume("a" * 63)) == []
    assert errors(volume("a" * 64)) == [("spec.csi.driver", "a" * 64)]


@pytest.mark.parametrize(
    ("number", "shown"), [(int(1e300), "1e+300"), (10**400, f"1{'0' * 78}…"), (2**31, "2147483648")]
)
def test_a_number_is_shown_as_it_was_written(number: int, shown: str) -> None:
    manifest = deployment("web", 1)
    manifest["spec"]["replicas"] = number

    assert errors(manifest) == [("spec.replicas", shown)]

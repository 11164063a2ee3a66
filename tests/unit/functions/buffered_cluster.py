"""A CapacityBuffer and its PodTemplate in a cluster, sweeps over them, and what Joiner writes to the buffer."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Manifest
from joiner.pools import Conditions
from tests.unit.functions.simulated_cluster import SimulatedCluster

BUFFER = ("capacitybuffers", "default", "spare")


def put_template(cluster: SimulatedCluster, cpu: str = "1500m", generation: int = 1) -> None:
    """Create a PodTemplate; two of its pods do not fit onto one node of two cores."""
    pod = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    metadata = {"name": "chunk", "namespace": "default", "generation": generation}
    cluster.kube.put({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": pod})


def put_buffer(cluster: SimulatedCluster, *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    cluster.kube.put(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default", "annotations": annotations or {}},
            "spec": {"podTemplateRef": {"name": "chunk"}, **spec},
        }
    )


def status(cluster: SimulatedCluster) -> Manifest:
    found: Manifest = cluster.kube.objects[BUFFER]["status"]
    return found


def conditions(cluster: SimulatedCluster) -> dict[str, str]:
    """Return status, reason and message of each condition of the buffer."""
    shown = Conditions.from_kube(status(cluster)["conditions"])
    return {one.type: f"{one.status} {one.reason}: {one.message}" for one in shown}


def notes(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    events = [each for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == "CapacityBuffer"]
    return [(each["reason"], each["note"]) for each in events]


def swept(cluster: SimulatedCluster, number: int) -> dict[str, Any]:
    """Run one sweep a minute later, with the scale-up that it starts."""
    cluster.now += timedelta(minutes=1)
    return cluster.sweep(f"sweep-{number}")


def due(found: dict[str, Any]) -> tuple[int, int]:
    """Return whether the buffers of a survey are to be planned: because they changed, and for changed nodes."""
    return found["changedBuffers"], found["buffersToPlan"]


def settle(cluster: SimulatedCluster, first: int = 1) -> int:
    """Sweep until a sweep starts nothing; return the number of the next one."""
    for number in range(first, first + 10):
        if due(swept(cluster, number)) == (0, 0):
            return number + 1
    raise AssertionError("each sweep starts a scale-up")

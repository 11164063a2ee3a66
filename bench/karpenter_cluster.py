"""A cluster with Karpenter instead of Joiner: the control plane of the local stack, and Karpenter's KWOK program.

The pool has the requirements of Joiner's, and the instance types have the same prices and the same allocatable. There
is no AWS: the provider creates the Node after the boot delay, and KWOK makes it Ready as on the local stack.
"""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import urllib3

from bench import karpenter_program
from bench.applied_workloads import BOOT_SECONDS, FAMILIES, POOL, WHEN_EMPTY
from bench.benchmark_stack import to_stderr
from bench.cases import SHIPPED, read_catalogue
from joiner.catalogue import InstanceType
from joiner.cluster import Resources
from joiner.cluster.resources import CPU, MEMORY, PODS
from joiner_local.control_plane import control_plane_binaries
from joiner_local.control_plane.kube_api import KubeApi, Object
from joiner_local.control_plane.kubernetes_control_plane import ControlPlane, free_ports
from joiner_local.demo.change_watch import until
from joiner_local.node_agent.kubelets import BootTimes
from joiner_local.node_agent.node_objects import KUBELET, READY_AFTER
from joiner_local.stack.stack_processes import Programs

VENV: Final = Path(sys.prefix)
POD_RUNNING: Final = karpenter_program.LOCKS / "pod_running.yaml"
RESERVED: Final = Resources.of(cpu="100m", memory="10Mi")
"""What the provider subtracts from the resources of each type."""
GROUP: Final = "karpenter.kwok.sh"
POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EVALUATIONS: Final = re.compile(
    r'^karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count\{.*consolidation_type="single".*\} '
    r"(\d+)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class KarpenterCluster:
    """A cluster in which Karpenter runs; `metrics` is the URL of its metrics."""

    kube: KubeApi
    metrics: str

    def idle_evaluations(self) -> int:
        """Return how often Karpenter has considered single nodes.

        It does so only after it has found nothing else to disrupt: no empty node, and no several nodes at once.
        """
        return count_evaluations(urllib3.request("GET", self.metrics, timeout=10).data.decode())


def count_evaluations(metrics: str) -> int:
    """Return the number of evaluations of single nodes in Karpenter's metrics.

    >>> name = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count"
    >>> count_evaluations(f'{name}{{consolidation_type="single",reason="underutilized"}} 7')
    7
    """
    return sum(int(count) for count in EVALUATIONS.findall(metrics))


@contextmanager
def karpenter_cluster(largest: int) -> Iterator[KarpenterCluster]:
    """Start a cluster with a ready pool of types below so many vCPUs, and end it after the block."""
    binaries = control_plane_binaries.find_or_build(VENV, to_stderr)
    program = karpenter_program.find_or_build(VENV, to_stderr)
    with tempfile.TemporaryDirectory(prefix="joiner-bench-", ignore_cleanup_errors=True) as root:
        programs = Programs(Path(root) / "log")
        try:
            more = {"kwok": [f"--config={POD_RUNNING}"]}
            plane = ControlPlane(Path(root), "bench", binaries, programs, to_stderr, more)
            # Every client has a certificate, so the API server sends no token to the authenticator.
            plane.begin(authenticator=f"http://127.0.0.1:{free_ports(1)[0]}/review")
            plane.populate()
            plane.wait_ready()
            yield _with_karpenter(plane, program, largest)
            programs.check()
        finally:
            programs.end()


def _with_karpenter(plane: ControlPlane, program: Path, largest: int) -> KarpenterCluster:
    """Start Karpenter with its pool, and wait until the pool is ready."""
    kube = plane.admin()
    kube.apply_manifests(karpenter_program.resource_definitions(VENV, to_stderr))
    until(lambda: all(_has(one, "Established") for one in kube.items(DEFINITIONS)), what="Karpenter's CRDs")
    types = plane.root / "instance_types.json"
    types.write_text(json.dumps(instance_types(largest)))
    metrics, health = free_ports(2)
    settings = {
        "KUBECONFIG": str(plane.kubeconfig),
        "SYSTEM_NAMESPACE": "kube-system",
        "DISABLE_LEADER_ELECTION": "true",
        "INSTANCE_TYPES_FILE_PATH": str(types),
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
    }
    running = plane.programs.start("karpenter", [program], env={**os.environ, **settings})
    kube.apply_manifests(karpenter_pool())

    def ready() -> bool:
        running.check()
        return _has(kube.get(f"{POOLS}/{POOL}"), "Ready")

    until(ready, what="Karpenter's pool")
    return KarpenterCluster(kube, f"http://127.0.0.1:{metrics}/metrics")


def _has(found: Object, condition: str) -> bool:
    conditions = found.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def instance_types(largest: int) -> list[Object]:
    """Return the provider's instance types: those of the families below so many vCPUs, as a node of them is on the
    local stack.

    >>> [one["resources"]["cpu"] for one in instance_types(33) if one["name"] == "m5.large"]
    ['2030m']
    """
    catalogue = read_catalogue(SHIPPED)
    return [
        _provider_type(one)
        for name, one in sorted(catalogue.types.items())
        if name.partition(".")[0] in FAMILIES and one.vcpus < largest
    ]


def _provider_type(known: InstanceType) -> Object:
    amounts = Resources({name: known.allocatable[name] for name in (CPU, MEMORY, PODS)}) + RESERVED
    return {
        "name": known.name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": amounts.to_kube(),
        "offerings": [
            {
                "Price": offering.price_per_hour,
                "Available": True,
                "Requirements": [
                    _is_in("karpenter.sh/capacity-type", offering.capacity_type),
                    _is_in("topology.kubernetes.io/zone", offering.zone),
                ],
            }
            for offering in known.offerings
        ],
    }


def _is_in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def karpenter_pool() -> list[Object]:
    """Return the pool and its class. The limit of vCPUs is in the instance types: their `cpu` includes what the
    provider subtracts, so it is no number of vCPUs that a requirement could be compared with."""
    requirements = [_is_in("karpenter.sh/capacity-type", "on-demand"), _is_in(f"{GROUP}/instance-family", *FAMILIES)]
    metadata = {
        "labels": {KUBELET: "kwok"},
        "annotations": {READY_AFTER: f"{round(BootTimes().ready * 1000)}ms"},
    }
    reference = {"group": GROUP, "kind": "KWOKNodeClass", "name": POOL}
    return [
        {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "KWOKNodeClass",
            "metadata": {"name": POOL},
            "spec": {"nodeRegistrationDelay": f"{BOOT_SECONDS:.0f}s"},
        },
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": POOL},
            "spec": {
                "template": {
                    "metadata": metadata,
                    "spec": {"nodeClassRef": reference, "requirements": requirements},
                },
                "disruption": WHEN_EMPTY,
            },
        },
    ]

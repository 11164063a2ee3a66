"""Three workloads, and `kubectl apply` of one of them to a cluster: what runs alike with Joiner and with Karpenter."""

import time
from dataclasses import dataclass
from typing import Final

from joiner_cli.catalogue_files import packaged_catalogue
from joiner_local.control_plane.kube_api import KubeApi, Object

BOOT_SECONDS: Final = 5.0
LIMIT: Final = 300.0
POLL: Final = 0.5  # seconds
NOT_RUNNING: Final = "fieldSelector=status.phase!=Running&limit=1"
"""A query for one such pod: lists of a thousand pods would use a tenth of the machine."""
PODS: Final = "/api/v1/namespaces/default/pods"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
FAMILIES: Final = ("m5", "c5", "r5", "m6i", "c6i", "r6i")
POOL: Final = "bench"
WHEN_EMPTY: Final[Object] = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
"""The disruption of a pool whose nodes stay."""
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class WorkloadCost:
    """A workload that runs: seconds from apply until all its pods ran, nodes, and $/h."""

    seconds: float
    nodes: int
    price_per_hour: float


@dataclass(frozen=True, slots=True)
class Workload:
    """Deployments that are applied together, and the recorded run of Karpenter. `largest` is the limit of vCPUs of an
    instance type."""

    name: str
    deployments: tuple[Object, ...]
    largest: int
    karpenter: WorkloadCost

    @property
    def pods(self) -> int:
        """Return the number of its pods."""
        return sum(int(one["spec"]["replicas"]) for one in self.deployments)


def deployment(name: str, replicas: int, cpu: str, memory: str, spec: Object | None = None) -> Object:
    """Return a deployment whose pods have these requests."""
    labels = {"app": name}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    pod = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        **(spec or {}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def spread_deployments() -> tuple[Object, ...]:
    """Return ten deployments of 30 pods from 250m to 3 CPU with a zone spread; three keep their pods on separate
    hosts."""
    found = []
    for number, cpu in enumerate((250, 500, 500, 750, 1000, 1000, 1500, 2000, 2500, 3000)):
        selector = {"matchLabels": {"app": f"w3-{number}"}}
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spec: Object = {"topologySpreadConstraints": [spread]}
        if number % 4 == 0:
            apart = [{"labelSelector": selector, "topologyKey": HOSTNAME}]
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
        found.append(deployment(f"w3-{number}", 30, f"{cpu}m", f"{2 * cpu}Mi", spec))
    return tuple(found)


WORKLOADS: Final = (
    Workload("W1", (deployment("w1", 17, "1", "1536Mi"),), 256, WorkloadCost(10.4, 1, 1.36)),
    Workload(
        "W2",
        (deployment("w2-small", 500, "900m", "3100Mi"), deployment("w2-large", 500, "3500m", "28Gi")),
        33,
        WorkloadCost(43.7, 78, 148.4),
    ),
    Workload("W3", spread_deployments(), 256, WorkloadCost(21.1, 37, 24.9)),
)


def apply_workload(kube: KubeApi, workload: Workload) -> tuple[float, float]:
    """Create the deployments and wait until all pods run, or until LIMIT; return both times (epoch)."""
    began = time.time()
    for one in workload.deployments:
        kube.create(DEPLOYMENTS, one)
    while True:
        done = not kube.items(f"{PODS}?{NOT_RUNNING}") and len(kube.items(PODS)) >= workload.pods
        if done or time.time() - began > LIMIT:
            return began, time.time()
        time.sleep(POLL)


def price_per_hour(claim: Object) -> float:
    """Return the on-demand price in $/h of a NodeClaim's instance; 0 until it is launched.

    Joiner's own annotation would not do: it contains the volumes and what a node costs beside its instance.

    >>> price_per_hour({"metadata": {"labels": {"node.kubernetes.io/instance-type": "c5.2xlarge"}}})
    0.34
    """
    known = packaged_catalogue().types.get((claim["metadata"].get("labels") or {}).get(INSTANCE_TYPE, ""))
    return known.offerings[0].price_per_hour if known else 0.0

"""Random small clusters: pools, daemons, nodes and pods with every rule that the planner implements, as plain
manifests.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.planning import Ceilings, Plan, PlanPolicies, Snapshot
from joiner.planning.plan_policies import DEFAULT_POLICIES, NO_CEILINGS
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet

Json = Mapping[str, Any]
ZONES = ("us-test-1a", "us-test-1b", "us-test-1c")
CLASSES = {
    "EC2NodeClass/default": ResolvedNodeClass(
        "default", "EC2NodeClass", subnets=tuple(Subnet(f"subnet-{zone}", zone) for zone in ZONES)
    )
}
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}
APPS = ("web", "api", "db")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def instance_type(
    name: str, cpu: int, gib: int, price: float, *, arch: str = "amd64", pods: int = 12, zones: Sequence[str] = ZONES
) -> Json:
    """Return a type at one price in each zone, on-demand, and at a third of it as spot."""
    return {
        "labels": {
            "node.kubernetes.io/instance-type": name,
            "kubernetes.io/arch": arch,
            "kubernetes.io/os": "linux",
            "karpenter.k8s.aws/instance-cpu": str(cpu),
        },
        "capacity": {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": str(pods)},
        "allocatable": {"cpu": f"{cpu * 1000 - 80}m", "memory": f"{gib * 1024 - 400}Mi", "pods": str(pods)},
        "offerings": [
            {"zone": zone, "capacityType": kind, "pricePerHour": round(price * share, 5)}
            for zone in zones
            for kind, share in (("on-demand", 1.0), ("spot", 0.35))
        ],
    }


CATALOGUE: dict[str, Json] = {
    "s.large": instance_type("s.large", 2, 4, 0.08),
    "m.xlarge": instance_type("m.xlarge", 4, 16, 0.19),
    "m.2xlarge": instance_type("m.2xlarge", 8, 32, 0.37, pods=30, zones=ZONES[:2]),
    "g.large": instance_type("g.large", 2, 8, 0.07, arch="arm64"),
}


def node_pool(
    name: str = "default", *, requirements: Sequence[Json] = (), taints: Sequence[Json] = (), **spec: Any
) -> Json:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"nodeClassRef": reference, "requirements": list(requirements), "taints": list(taints)}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"template": {"spec": template}, **spec},
    }


def pod(
    name: str, *, app: str = "web", cpu: str = "500m", memory: str = "512Mi", namespace: str = "default", **spec: Any
) -> dict[str, Any]:
    """Return a pending pod; ``ports`` are host ports, ``spec`` is used unchanged."""
    ports = [{"containerPort": number, "hostPort": number} for number in spec.pop("ports", ())]
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}, "ports": ports}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}, "uid": f"uid-{namespace}-{name}"},
        "spec": {"containers": [container], **spec},
        "status": UNSCHEDULABLE,
    }


def pods(count: int, name: str = "web", **fields: Any) -> list[dict[str, Any]]:
    return [pod(f"{name}-{number}", **{"app": name, **fields}) for number in range(count)]


def node(
    name: str,
    *,
    zone: str = ZONES[0],
    cpu: int = 4,
    gib: int = 16,
    taints: Sequence[Json] = (),
    labels: Mapping[str, str] | None = None,
) -> Json:
    amounts = {"cpu": str(cpu), "memory": f"{gib}Gi", "pods": "12"}
    known = {ZONE: zone, HOST: name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", **(labels or {})}
    return {
        "metadata": {"name": name, "labels": known},
        "spec": {"taints": list(taints), "providerID": f"aws:///{zone}/i-{name}"},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def running(name: str, where: str, **fields: Any) -> dict[str, Any]:
    """Return a pod that runs on a node."""
    one = pod(name, **fields)
    return {**one, "spec": {**one["spec"], "nodeName": where}, "status": {"phase": "Running"}}


def daemon_set(name: str, *, cpu: str = "100m", memory: str = "128Mi", **spec: Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "metadata": {"name": name, "namespace": "kube-system", "uid": f"uid-{name}"},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}},
    }


def spread(key: str = ZONE, *, app: str = "web", skew: int = 1, **more: Any) -> dict[str, Any]:
    hard = {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": app}}}
    return {"maxSkew": skew, "topologyKey": key, **hard, **more}


def near(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def affinity(**kinds: Sequence[Json]) -> dict[str, Any]:
    """Return an affinity: ``affinity(podAntiAffinity=[near(HOST, "web")])``."""
    return {
        "affinity": {
            kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)} for kind, terms in kinds.items()
        }
    }


def planned(
    lists: Mapping[str, Sequence[Json]],
    catalogue: Json = CATALOGUE,
    unavailable: Any = (),
    *,
    ceilings: Ceilings = NO_CEILINGS,
    assignments: Mapping[str, Mapping[str, int]] | None = None,
    in_flight: Sequence[str] = (),
    default_spreads: Sequence[Json] = (),
    policies: PlanPolicies = DEFAULT_POLICIES,
) -> Plan:
    snapshot = Snapshot.from_lists(lists, assignments=assignments, in_flight=in_flight, default_spreads=default_spreads)
    known = Catalogue.from_json(catalogue)
    return plan(snapshot, known, unavailable, classes=CLASSES, ceilings=ceilings, policies=policies)


# -- drawn at random -----------------------------------------------------------------------------------------------

TAINT = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
TOLERATION = {"key": "dedicated", "operator": "Exists"}


@st.composite
def deployments(draw: st.DrawFn, app: str) -> list[dict[str, Any]]:
    """Draw a few replicas with the same rules."""
    fields: dict[str, Any] = {
        "app": app,
        "cpu": draw(st.sampled_from(["100m", "900m", "2"])),
        "memory": draw(st.sampled_from(["64Mi", "3Gi"])),
    }
    if draw(st.booleans()):
        fields["tolerations"] = [TOLERATION]
    if draw(st.integers(0, 3)) == 0:
        fields["ports"] = [8080]
    if draw(st.integers(0, 2)) == 0:
        fields["nodeSelector"] = draw(
            st.sampled_from([{ZONE: ZONES[0]}, {"kubernetes.io/arch": "arm64"}, {"karpenter.sh/capacity-type": "spot"}])
        )
    kind = draw(st.sampled_from(["none", "none", "spread", "anti", "near", "both"]))
    other = draw(st.sampled_from(APPS))
    key = draw(st.sampled_from([ZONE, HOST]))
    if kind in ("spread", "both"):
        policy = {"nodeTaintsPolicy": "Honor"} if draw(st.booleans()) else {}
        domains = {"minDomains": draw(st.integers(2, 4))} if draw(st.integers(0, 3)) == 0 else {}
        fields["topologySpreadConstraints"] = [spread(key, app=app, skew=draw(st.integers(1, 2)), **policy, **domains)]
    if kind in ("anti", "both"):
        fields |= affinity(podAntiAffinity=[near(draw(st.sampled_from([ZONE, HOST])), other)])
    if kind == "near":
        fields |= affinity(podAffinity=[near(key, other)])
    return pods(draw(st.integers(1, 5)), app, **fields)


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, list[Json]]:
    """Draw lists of manifests, as the API server returns them."""
    waiting = [one for app in APPS[: draw(st.integers(1, 3))] for one in draw(deployments(app))]
    pools = [node_pool(limits={"cpu": str(draw(st.sampled_from([4, 12, 1000])))})]
    if draw(st.booleans()):
        pools.append(
            node_pool(
                "batch",
                taints=[TAINT],
                weight=10,
                requirements=[{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            )
        )
    nodes = [
        node(f"node-{number}", zone=draw(st.sampled_from(ZONES)), taints=draw(st.sampled_from([[], [TAINT]])))
        for number in range(draw(st.integers(0, 2)))
    ]
    there = [
        running(f"old-{one['metadata']['name']}", one["metadata"]["name"], app=draw(st.sampled_from(APPS)))
        for one in nodes
    ]
    wary = draw(st.booleans())
    if there and wary:
        there[0]["spec"] |= affinity(podAntiAffinity=[near(ZONE, draw(st.sampled_from(APPS)))])
    watched = draw(st.booleans())
    daemons = [daemon_set("agent", tolerations=[{"operator": "Exists"}])] if watched else []
    return {"pods": [*there, *waiting], "nodes": nodes, "nodepools": pools, "daemonsets": daemons}

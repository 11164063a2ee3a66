"""Random clusters with rarer rules: volumes, namespaces, revisions, preferences, minValues, overlays, reservations."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.planning.drawn_clusters import (
    APPS,
    CATALOGUE,
    HOST,
    TAINT,
    TOLERATION,
    ZONE,
    ZONES,
    Json,
    affinity,
    daemon_set,
    near,
    node,
    node_pool,
    pod,
    running,
    spread,
)
from tests.unit.planning.volume_manifests import EBS, volume

FAMILY = "karpenter.k8s.aws/instance-family"
RICH: dict[str, Json] = {
    name: {**known, "labels": {**known["labels"], FAMILY: name.partition(".")[0]}} for name, known in CATALOGUE.items()
}
RICH["m.xlarge"] = {
    **RICH["m.xlarge"],
    "offerings": [
        *RICH["m.xlarge"]["offerings"],
        {"zone": ZONES[0], "capacityType": "reserved", "pricePerHour": 0.00001, "count": 1, "reservation": "cr-1"},
    ],
}
CLASSES = [{"metadata": {"name": "ebs"}, "provisioner": EBS, "volumeBindingMode": "WaitForFirstConsumer"}]
SPACES = [
    {"metadata": {"name": name, "labels": {"team": team}}} for name, team in (("default", "red"), ("shop", "blue"))
]


@st.composite
def rules(draw: st.DrawFn, app: str) -> dict[str, Any]:
    """Draw the affinity and spread rules of one deployment's pods."""
    key, other = draw(st.sampled_from([ZONE, HOST])), draw(st.sampled_from(APPS))
    reach: dict[str, Any] = draw(
        st.sampled_from(
            [
                {},
                {"namespaces": ["shop"]},
                {"namespaceSelector": {"matchLabels": {"team": "blue"}}},
                {"namespaceSelector": {}},
            ]
        )
    )
    revision: dict[str, Any] = {"matchLabelKeys": ["pod-template-hash"]}
    preference = {"weight": 10, "podAffinityTerm": near(key, other)}
    return draw(
        st.sampled_from(
            [
                {},
                {},
                {"topologySpreadConstraints": [spread(key, app=app, **revision)]},
                {"topologySpreadConstraints": [spread(ZONE, app=app, skew=2), spread(HOST, app=app)]},
                {"topologySpreadConstraints": [spread("karpenter.sh/capacity-type", app=app)]},
                {"topologySpreadConstraints": [{**spread(ZONE, app=app), "whenUnsatisfiable": "ScheduleAnyway"}]},
                affinity(podAntiAffinity=[{**near(key, other), **reach}]),
                affinity(podAntiAffinity=[{**near(key, app), **revision}]),
                affinity(podAffinity=[{**near(key, app), **revision}]),
                affinity(podAffinity=[{**near(ZONE, other), **reach}]),
                {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}}},
            ]
        )
    )


@st.composite
def workloads(draw: st.DrawFn, app: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draw the pods of one deployment or stateful set, and their volume claims."""
    space = draw(st.sampled_from(["default", "default", "shop"]))
    fields = {
        "cpu": draw(st.sampled_from(["100m", "900m", "2"])),
        "memory": draw(st.sampled_from(["64Mi", "3Gi"])),
        "namespace": space,
    }
    mounts = draw(st.sampled_from(["nothing", "nothing", "own", "shared", "once"]))
    waiting: list[dict[str, Any]] = []
    claims: list[dict[str, Any]] = []
    about = draw(rules(app))
    tolerant: dict[str, Any] = {"tolerations": [TOLERATION]} if draw(st.booleans()) else {}
    important: dict[str, Any] = {"priority": draw(st.sampled_from([0, 100]))}
    revision = draw(st.sampled_from(["1", "2"]))
    for number in range(draw(st.integers(1, 4))):
        claim = f"{app}-{number}" if mounts == "own" else f"{app}-data"
        volumes = [] if mounts == "nothing" else [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        one = pod(f"{app}-{number}", app=app, volumes=volumes, **fields, **about, **tolerant, **important)
        one["metadata"]["labels"]["pod-template-hash"] = revision
        waiting.append(one)
        mode = {"own": "ReadWriteOnce", "shared": "ReadWriteMany", "once": "ReadWriteOncePod"}.get(mounts)
        if mode and all(each["metadata"]["name"] != claim for each in claims):
            bound = {"volumeName": f"pv-{claim}"} if draw(st.integers(0, 2)) == 0 else {}
            spec = {"accessModes": [mode], "storageClassName": "ebs", **bound}
            claims.append({"metadata": {"name": claim, "namespace": space}, "spec": spec})
    return waiting, claims


@st.composite
def rich_clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Draw lists of manifests, as the API server returns them."""
    drawn = [draw(workloads(app)) for app in APPS[: draw(st.integers(1, 3))]]
    waiting, claims = [pod for pods, _ in drawn for pod in pods], [claim for _, each in drawn for claim in each]
    volumes = [
        volume(claim["spec"]["volumeName"], draw(st.sampled_from(ZONES)))
        for claim in claims
        if "volumeName" in claim["spec"]
    ]
    least = draw(st.sampled_from([[], [{"key": FAMILY, "operator": "Exists", "minValues": 2}]]))
    pools: list[Json] = [node_pool(requirements=least, limits={"cpu": str(draw(st.sampled_from([8, 1000])))})]
    guarded = draw(st.booleans())
    if draw(st.booleans()):
        pools.append(node_pool("batch", taints=[TAINT], weight=10))
    if draw(st.integers(0, 3)) == 0:
        pools.append(node_pool("fixed", replicas=1, taints=[TAINT]))
    nodes = [node(f"node-{number}", zone=draw(st.sampled_from(ZONES))) for number in range(draw(st.integers(0, 2)))]
    there = [
        running(
            f"old-{one['metadata']['name']}", one["metadata"]["name"], app=draw(st.sampled_from(APPS)), namespace="shop"
        )
        for one in nodes
    ]
    if draw(st.booleans()) and nodes:
        preempting = pod("preempting", app="other", cpu="2")
        preempting["status"] = {**preempting["status"], "nominatedNodeName": "node-0"}
        there.append(preempting)
    limits = [
        {
            "metadata": {"name": one["metadata"]["name"]},
            "spec": {"drivers": [{"name": EBS, "allocatable": {"count": 1}}]},
        }
        for one in nodes
    ]
    costly = {
        "metadata": {"name": "costly"},
        "spec": {"requirements": [{"key": FAMILY, "operator": "In", "values": ["g"]}], "priceAdjustment": "+40%"},
    }
    chunk = {
        "metadata": {"name": "chunk", "namespace": "shop"},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"]},
    }
    spare = {
        "metadata": {"name": "spare", "namespace": "shop"},
        "spec": {"podTemplateRef": {"name": "chunk"}, "replicas": 2},
    }
    return {
        "pods": [*there, *waiting],
        "nodes": nodes,
        "nodepools": pools,
        "daemonsets": [daemon_set("agent", tolerations=[{"operator": "Exists"}])] if guarded else [],
        "namespaces": SPACES,
        "persistentvolumeclaims": claims,
        "persistentvolumes": volumes,
        "storageclasses": CLASSES,
        "csinodes": limits,
        "nodeoverlays": [costly] if draw(st.booleans()) else [],
        "capacitybuffers": [spare] if draw(st.integers(0, 3)) == 0 else [],
        "podtemplates": [chunk],
    }

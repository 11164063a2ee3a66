"""What the invariants of end-to-end tests call neglected: pods that could run alone on one more node, and nothing else.

Pods with affinity, spread and volumes are among them.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.neighbour_rules import Neighbours
from tests.e2e.servable_pods import OfferingLabels, neglected

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
A, B = {ZONE: "a"}, {ZONE: "b"}
WEB = {"matchLabels": {"app": "web"}}


def node(name: str, zone: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {HOST: name, ZONE: zone}}}


def pod(app: str, on: str = "", phase: str = "Running", **spec: Any) -> dict[str, Any]:
    metadata = {"name": app, "namespace": "default", "labels": {"app": app}}
    return {"metadata": metadata, "spec": {"nodeName": on, **spec}, "status": {"phase": phase}}


def affinity(kind: str, key: str, selector: dict[str, Any] = WEB) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str, **more: Any) -> dict[str, Any]:
    rule = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB, **more}
    return {"topologySpreadConstraints": [rule]}


NODES = [node("1", "a"), node("2", "b")]


def where(waiting: dict[str, Any], *bound: dict[str, Any], **more: Any) -> str:
    """The zones in which the pod could run on one more node."""
    neighbours = Neighbours.of(NODES, bound, **more)
    return "".join(labels[ZONE] for labels in (A, B) if neighbours.may_join(waiting, labels))


def test_a_pod_without_rules_could_run_anywhere() -> None:
    assert where(pod("web")) == "ab"


@pytest.mark.parametrize(
    ("bound", "zones"),
    [([], ""), ([pod("web", "1")], "a"), ([pod("web", "1", phase="Succeeded")], ""), ([pod("db", "1")], "")],
)
def test_affinity_to_another_pod_needs_that_pod_in_the_zone(bound: list[dict[str, Any]], zones: str) -> None:
    assert where(pod("db", **affinity("podAffinity", ZONE)), *bound) == zones


def test_affinity_to_another_pods_host_is_met_by_no_new_node() -> None:
    assert where(pod("db", **affinity("podAffinity", HOST)), pod("web", "1")) == ""


def test_the_first_pod_of_those_that_belong_together_could_run_anywhere() -> None:
    first = pod("web", **affinity("podAffinity", HOST))

    assert where(first) == "ab"
    assert where(first, pod("web", "1")) == ""


def test_anti_affinity_holds_in_both_directions() -> None:
    assert where(pod("web", **affinity("podAntiAffinity", ZONE)), pod("web", "1")) == "b"
    assert where(pod("web", **affinity("podAntiAffinity", HOST)), pod("web", "1")) == "ab"
    assert where(pod("web"), pod("db", "2", **affinity("podAntiAffinity", ZONE))) == "a"


def test_spread_counts_the_domains_that_there_are() -> None:
    assert where(pod("web", **spread(ZONE)), pod("web", "1")) == "b"
    assert where(pod("web", **spread(ZONE)), pod("web", "1"), pod("web", "2")) == "ab"
    assert where(pod("web", **spread(ZONE, maxSkew=2)), pod("web", "1")) == "ab"
    assert where(pod("web", **spread(ZONE, minDomains=3)), pod("web", "1"), pod("web", "2")) == ""
    assert where(pod("web", **spread(ZONE, whenUnsatisfiable="ScheduleAnyway")), pod("web", "1")) == "ab"
    assert where(pod("web", **spread(HOST)), pod("web", "1"), pod("web", "1")) == "ab"


def test_a_volume_keeps_a_pod_in_its_zone() -> None:
    requirement = {"key": ZONE, "operator": "In", "values": ["b"]}
    volume = {
        "metadata": {"name": "disk"},
        "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}},
    }
    metadata = {"name": "data", "namespace": "default"}
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    waiting = pod("db", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])

    def claim(**spec: str) -> list[dict[str, Any]]:
        return [{"metadata": metadata, "spec": spec}]

    assert where(waiting) == ""
    assert where(waiting, claims=claim(volumeName="disk"), volumes=[volume]) == "b"
    assert where(waiting, claims=claim(storageClassName="late"), storage_classes=[late]) == "ab"
    assert where(waiting, claims=claim(storageClassName="unknown"), storage_classes=[late]) == ""


POOL = {
    "metadata": {"name": "default"},
    "spec": {"template": {"spec": {"requirements": []}}},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
OFFERINGS = [OfferingLabels({"node.kubernetes.io/instance-type": "m5.xlarge", **zone}, 4000, 16384) for zone in (A, B)]


@dataclass
class FakeObjectLists:
    """An API server that lists these objects; what `neglected` reads besides is empty."""

    objects: dict[str, list[dict[str, Any]]]
    kube: Any = field(init=False)

    def __post_init__(self) -> None:
        self.kube = self

    def items(self, path: str) -> list[dict[str, Any]]:
        return self.objects.get(path.rpartition("/")[2], [])


def unschedulable(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    waiting = pod("db", containers=containers, **spec)
    waiting["metadata"]["name"] = name
    reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**waiting, "status": {"phase": "Pending", "conditions": [reason]}}


def neglected_of(*pods: dict[str, Any], pool: dict[str, Any] = POOL, **lists: list[dict[str, Any]]) -> list[str]:
    """The names of the pods that are reported, each with the pool that could serve it."""
    world: Any = FakeObjectLists({"nodepools": [pool], "nodes": NODES, "pods": list(pods), **lists})
    found = list(neglected(world, OFFERINGS))
    names = [sentence.split()[1] for sentence in found]
    assert found == [f"pod {name} is pending, and pool default could serve it, by m5.xlarge" for name in names]
    return names


WEB_IN_A = {**pod("web", "1"), "spec": {"nodeName": "1", "containers": [{"name": "main"}]}}


def test_pods_with_affinity_are_neglected_if_a_node_beside_the_bound_pods_could_serve_them() -> None:
    with_web = unschedulable("with-web", **affinity("podAffinity", ZONE))
    on_its_host = unschedulable("on-its-host", **affinity("podAffinity", HOST))
    with_nobody = unschedulable("with-nobody", **affinity("podAffinity", ZONE, {"matchLabels": {"app": "gone"}}))
    without_web = unschedulable("without-web", **affinity("podAntiAffinity", ZONE))

    assert neglected_of(WEB_IN_A, with_web, on_its_host, with_nobody, without_web) == ["with-web", "without-web"]


def test_pods_with_a_spread_are_neglected_if_a_zone_has_room_in_its_skew() -> None:
    zones = {"topologySpreadConstraints": spread(ZONE)["topologySpreadConstraints"]}
    three = spread(ZONE, minDomains=3)
    both = [WEB_IN_A, {**WEB_IN_A, "spec": {**WEB_IN_A["spec"], "nodeName": "2"}}]

    def waiting(name: str, rule: dict[str, Any]) -> dict[str, Any]:
        made = unschedulable(name, **rule)
        return {**made, "metadata": {**made["metadata"], "labels": {"app": "web"}}}

    assert neglected_of(*both, waiting("spread", zones), waiting("in-three", three)) == ["spread"]


def test_pods_with_volumes_are_neglected_if_a_node_of_their_zone_could_serve_them() -> None:
    def disk(name: str, zone: str) -> dict[str, Any]:
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
        return {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}

    def waiting(name: str) -> dict[str, Any]:
        return unschedulable(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])

    claims = [
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": name}} for name in ("in-b", "in-c")
    ]
    disks = [disk("in-b", "b"), disk("in-c", "c")]
    pods = [waiting(name) for name in ("in-b", "in-c", "unclaimed")]

    assert neglected_of(*pods, persistentvolumeclaims=claims, persistentvolumes=disks) == ["in-b"]


def test_pods_are_not_neglected_that_no_instance_or_no_usable_pool_could_serve() -> None:
    fits, large = unschedulable("fits"), unschedulable("large", "4")
    bound = {**unschedulable("bound"), "status": {"phase": "Pending", "conditions": []}}
    tainted = {"template": {"spec": {"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}}}
    limited = {"template": {"spec": {}}, "limits": {"cpu": "2"}}
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}

    assert neglected_of(fits, large, bound) == ["fits"]
    for pool in ({**POOL, "spec": tainted}, {**POOL, "spec": limited}, {**POOL, "status": unready}):
        assert neglected_of(fits, pool=pool) == []

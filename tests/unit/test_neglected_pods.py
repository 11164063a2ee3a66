"""What the invariants of end-to-end tests call neglected: pods that could run alone on one more node, and nothing else.

Pods with affinity, spread and volumes are among them.
"""

from typing import Any

import pytest

from tests.e2e.neighbour_rules import Neighbours

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

"""Pods that a kubelet takes, and pods that it refuses for good, in its own words; and when what it took may start."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.node_agent.kubelet_pods import (
    BOUND_PODS,
    DUE,
    LISTED,
    NODES,
    STARTS,
    PodAddresses,
    PodDecisions,
    running_status,
)
from joiner_local.node_agent.node_objects import KUBELET
from joiner_local.node_agent.pod_admission import Rejection, judge, requests_of


def node(
    name: str = "n1", *, ready: bool = True, taints: list[Object] | None = None, played: bool = True, **labels: str
) -> Object:
    return {
        "metadata": {"name": name, "labels": labels | ({KUBELET: "kwok"} if played else {})},
        "spec": {"taints": taints or []},
        "status": {
            "allocatable": {
                "cpu": "1930m",
                "memory": "7Gi",
                "ephemeral-storage": "17Gi",
                "pods": "3",
                "nvidia.com/gpu": "1",
            },
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}, {"type": "Hostname", "address": name}],
        },
    }


def pod(
    name: str,
    on: str = "n1",
    *,
    cpu: str = "500m",
    phase: str = "Pending",
    deleted: bool = False,
    **spec: Any,
) -> Object:
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": {"cpu": cpu, **spec.pop("more", {})}},
        "ports": spec.pop("ports", []),
    }
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "metadata": metadata | ({"deletionTimestamp": "2026-11-21T05:17:00Z"} if deleted else {}),
        "spec": {"nodeName": on, "containers": [container], **spec},
        "status": {"phase": phase},
    }


GONE: Object = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (pod("p", cpu="2"), "OutOfcpu"),
        (pod("p", more={"memory": "8Gi"}), "OutOfmemory"),
        (pod("p", more={"ephemeral-storage": "18Gi"}), "OutOfephemeral-storage"),
        (pod("p", nodeSelector={"team": "b"}), "NodeAffinity"),
        (pod("p", more={"nvidia.com/gpu": "2"}), "UnexpectedAdmissionError"),
        (pod("p", more={"aws.amazon.com/neuron": "1"}), "UnexpectedAdmissionError"),
    ],
)
def test_what_a_node_cannot_hold_is_refused(asked: Object, reason: str) -> None:
    rejection = judge(asked, node(team="a"), {})

    assert rejection is not None
    assert rejection.reason == reason


def test_a_pod_that_fits_exactly_is_taken() -> None:
    assert judge(pod("p", cpu="930m"), node(), {"cpu": 1000, "pods": 2}) is None
    assert judge(pod("p", cpu="931m"), node(), {"cpu": 1000, "pods": 2}) is not None
    assert judge(pod("p", cpu="0"), node(), {"pods": 3}) == Rejection(
        "OutOfpods", "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"
    )


def test_only_no_execute_taints_are_the_kubelets_business() -> None:
    closed = node(taints=[{"key": "joiner.dev/filling", "effect": "NoSchedule"}])
    unregistered = node(taints=[GONE])

    assert judge(pod("p"), closed, {}) is None
    assert judge(pod("p"), unregistered, {}) == Rejection(
        "TaintToleration",
        "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    )
    assert judge(pod("p", tolerations=[{"key": GONE["key"], "operator": "Exists"}]), unregistered, {}) is None


def test_a_host_port_is_taken_once() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]

    assert judge(pod("p", ports=ports), node(), {}, [("UDP", 8080)]) is None
    rejection = judge(pod("p", ports=ports), node(), {}, [("TCP", 8080)])
    assert rejection is not None
    assert rejection.reason == "NodePorts"


def to_node(name: str) -> Object:
    """The affinity that the DaemonSet controller writes."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_a_daemons_affinity_to_the_nodes_name_holds() -> None:
    assert judge(pod("p", affinity=to_node("n1")), node(), {}) is None
    assert judge(pod("p", affinity=to_node("n2")), node(), {}) is not None


def test_requests_count_sidecars_and_the_largest_init_container() -> None:
    asked = pod("p", cpu="1", overhead={"cpu": "10m"})
    asked["spec"]["initContainers"] = [
        {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
    ]

    assert requests_of(asked) == {"cpu": 3110, "memory": 2**30, "pods": 1}


@dataclass
class Hands:
    """What was written."""

    started: list[str] = field(default_factory=list)
    running: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    def decisions(self) -> PodDecisions:
        return PodDecisions(
            lambda pod: self.started.append(pod["metadata"]["name"]),
            lambda pod, node: self.running.append((pod["metadata"]["name"], node["metadata"]["name"])),
            lambda pod, rejection: self.refused.append((pod["metadata"]["name"], rejection.reason)),
            self.deleted.append,
        )


def test_each_pod_counts_those_before_it() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))

    for name in ("a", "b", "c"):
        decisions.take((BOUND_PODS, "ADDED", pod(name, cpu="900m")))

    assert (hands.started, hands.refused) == (["a", "b"], [("c", "OutOfcpu")])


def test_a_pod_that_ends_releases_its_resources() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))
    decisions.take((BOUND_PODS, "ADDED", pod("a", cpu="1900m")))
    decisions.take((BOUND_PODS, "MODIFIED", pod("a", cpu="1900m", phase="Succeeded")))
    decisions.take((BOUND_PODS, "ADDED", pod("b", cpu="1900m")))
    decisions.take((BOUND_PODS, "DELETED", pod("b", cpu="1900m")))
    decisions.take((BOUND_PODS, "ADDED", pod("c", cpu="1900m")))

    assert (hands.started, hands.refused) == (["a", "b", "c"], [])


def test_a_pod_waits_for_the_nodes_network_but_is_judged_at_once() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node(ready=False)]))
    decisions.take((BOUND_PODS, LISTED, [pod("a"), pod("host", hostNetwork=True), pod("big", cpu="4")]))
    assert (hands.started, hands.refused) == (["host"], [("big", "OutOfcpu")])

    decisions.take((NODES, "MODIFIED", node(ready=True)))
    assert hands.started == ["host", "a"]


def test_a_pod_bound_before_its_node_is_there_is_judged_when_it_comes() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((BOUND_PODS, "ADDED", pod("a")))
    decisions.take((NODES, "ADDED", node(ready=False, taints=[GONE])))

    assert (hands.started, hands.refused) == ([], [("a", "TaintToleration")])


def test_no_pod_is_admitted_to_a_silent_node() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node(played=False)]))
    decisions.take((BOUND_PODS, "ADDED", pod("a")))
    assert (hands.started, hands.refused) == ([], [])

    decisions.take((NODES, "MODIFIED", node()))
    assert hands.started == ["a"]


def test_pods_that_run_since_an_earlier_agent_have_their_place() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))
    decisions.take((BOUND_PODS, LISTED, [pod("new", cpu="100m"), pod("old", cpu="1900m", phase="Running")]))

    assert (hands.started, hands.refused) == ([], [("new", "OutOfcpu")])


def test_a_pod_runs_when_its_containers_have_started() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))
    decisions.take((BOUND_PODS, "ADDED", pod("a")))
    assert (hands.started, hands.running) == (["a"], [])

    decisions.take((STARTS, DUE, pod("a")))
    decisions.take((STARTS, DUE, pod("a")))

    assert hands.running == [("a", "n1")]


def test_a_pod_that_is_deleted_while_its_containers_start_never_runs() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))
    for name, change in (("leaving", "MODIFIED"), ("gone", "DELETED")):
        decisions.take((BOUND_PODS, "ADDED", pod(name)))
        decisions.take((BOUND_PODS, change, pod(name, deleted=True)))
        decisions.take((STARTS, DUE, pod(name)))

    assert hands.running == []


def test_a_pod_whose_kubelet_falls_silent_while_it_starts_runs_when_it_is_back() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))
    decisions.take((BOUND_PODS, "ADDED", pod("a")))
    decisions.take((NODES, "MODIFIED", node(played=False)))
    decisions.take((STARTS, DUE, pod("a")))
    assert hands.running == []

    decisions.take((NODES, "MODIFIED", node()))
    decisions.take((STARTS, DUE, pod("a")))

    assert (hands.started, hands.running) == (["a", "a"], [("a", "n1")])


def test_a_running_pod_has_the_address_of_its_node_or_one_of_its_own() -> None:
    addresses = PodAddresses()
    first, second = addresses.of(pod("a"), node()), addresses.of(pod("b"), node())

    assert first != second
    assert addresses.of(pod("c", hostNetwork=True), node()) == "10.0.0.7"


def test_a_running_pod_is_ready_also_by_its_readiness_gates() -> None:
    status = running_status(
        pod("a", readinessGates=[{"conditionType": "example.com/gate"}]), node(), "100.64.0.1", "2026-11-21T05:17:00Z"
    )

    assert (status["phase"], status["hostIP"], status["podIP"]) == ("Running", "10.0.0.7", "100.64.0.1")
    assert status["startTime"] == "2026-11-21T05:17:00Z"
    assert [each["type"] for each in status["conditions"] if each["status"] == "True"] == [
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
        "example.com/gate",
    ]
    assert [(each["name"], each["ready"]) for each in status["containerStatuses"]] == [("main", True)]


def test_a_pod_that_vanished_without_a_watch_releases_its_resources() -> None:
    hands = Hands()
    decisions = hands.decisions()
    decisions.take((NODES, LISTED, [node()]))
    decisions.take((BOUND_PODS, LISTED, [pod("a", cpu="1900m")]))
    decisions.take((BOUND_PODS, LISTED, [pod("b", cpu="1900m")]))
    decisions.take((NODES, LISTED, []))

    assert (hands.started, hands.refused, hands.deleted) == (["a", "b"], [], ["n1"])

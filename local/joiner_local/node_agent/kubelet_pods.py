"""Pods as kubelets handle them: admitted or refused when they are bound to a node, started when the node's network is
ready, and then reported as running. KWOK ends them (`stages.yaml`).

One thread makes all decisions, from two watches, so each decision counts the pods before it. A pod gets one write, as
from a kubelet whose containers start at once: each further one costs the API server and every watch of pods some
milliseconds of the cores on which everything here runs.
"""

import itertools
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import IPv4Network
from typing import Any, Final

import urllib3

from joiner_local.control_plane.kube_api import STRATEGIC_PATCH, ApiError, KubeApi, Object
from joiner_local.delayed_actions import DelayedActions
from joiner_local.node_agent.node_objects import KUBELET, START_AFTER
from joiner_local.node_agent.pod_admission import Amounts, Rejection, host_ports, judge, requests_of

log = logging.getLogger(__name__)

NODES: Final = "/api/v1/nodes"
BOUND_PODS: Final = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D"
TERMINAL: Final = ("Succeeded", "Failed")
AT_ONCE: Final = 16
LISTED: Final = "LISTED"
STARTS: Final = "starts"
DUE: Final = "DUE"
GONE: Final = (404, 409)  # deleted, or another pod has the name now
ATTEMPTS: Final = 20
PAUSE: Final = 0.5  # seconds
START_SECONDS: Final = 0.2  # from its admission until the containers of a pod run
ADDRESSES: Final = IPv4Network("100.64.0.0/10")  # of pods: the range that EKS recommends for them
AGENTS: Final = 64  # parts of that range: an agent that starts again takes another one, as a rule

Event = tuple[str, str, Any]
"""The path that is watched; LISTED, ADDED, MODIFIED or DELETED; the object, or all. Or STARTS, DUE and a pod."""


def follow(kube: KubeApi, path: str, report: Callable[[Event], None]) -> None:
    """Yield all objects, then each change, without end; all again when the watch is lost."""
    while True:
        try:
            listing = kube.get(path)
            report((path, LISTED, listing["items"]))
            version = listing["metadata"]["resourceVersion"]
            while version:
                version = _changes(kube, path, version, report)
        except (ApiError, urllib3.exceptions.HTTPError, OSError):
            log.info("watch of %s begins again", path, exc_info=True)
            time.sleep(0.2)


def _changes(kube: KubeApi, path: str, version: str, report: Callable[[Event], None]) -> str:
    """Yield the changes of one watch. Returns the version to continue from, or "" if it is too old."""
    for kind, thing in kube.watch(path, version=version):
        if kind == "ERROR":
            return ""
        version = thing["metadata"]["resourceVersion"]
        report((path, kind, thing))
    return version


def is_ready(node: Object) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", [])
    )


@dataclass(slots=True)
class NodePods:
    """One node as its kubelet sees it. `node` is None while no kubelet of the agent serves it."""

    node: Object | None = None
    admitted: dict[str, tuple[Amounts, list[tuple[str, int]]]] = field(
        default_factory=dict
    )  # by uid: requests, host ports
    arrived: dict[str, Object] = field(default_factory=dict)  # no kubelet has seen them yet
    waiting: dict[str, Object] = field(default_factory=dict)  # admitted, waiting for the network
    starting: dict[str, Object] = field(default_factory=dict)  # their containers start

    def taken(self) -> Amounts:
        total: Amounts = {}
        for amounts, _ in self.admitted.values():
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        return total

    def ports(self) -> Iterator[tuple[str, int]]:
        return (port for _, ports in self.admitted.values() for port in ports)

    def forget(self, uid: str) -> None:
        for known in (self.admitted, self.arrived, self.waiting, self.starting):
            known.pop(uid, None)


@dataclass(slots=True)
class PodDecisions:
    """The known state and the decisions.

    `start` makes the event DUE of a pod when its containers have started. `report` (a pod and its node) and `refuse`
    write what became of it.
    """

    start: Callable[[Object], None]
    report: Callable[[Object, Object], None]
    refuse: Callable[[Object, Rejection], None]
    node_deleted: Callable[[str], None]
    nodes: dict[str, NodePods] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        path, kind, thing = event
        if path == NODES:
            self._take_nodes(kind, thing)
        elif path == STARTS:
            self._started(thing)
        else:
            self._take_pods(kind, thing)

    def _take_nodes(self, kind: str, thing: Any) -> None:
        if kind == LISTED:
            present = {node["metadata"]["name"] for node in thing}
            for name in [name for name, known in self.nodes.items() if known.node is not None and name not in present]:
                self._node_gone(name)
            for node in thing:
                self._node(node)
        elif kind == "DELETED":
            self._node_gone(thing["metadata"]["name"])
        else:
            self._node(thing)

    def _node_gone(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.node_deleted(name)

    def _node(self, node: Object) -> None:
        here = self.nodes.setdefault(node["metadata"]["name"], NodePods())
        if KUBELET not in node["metadata"].get("labels", {}):
            here.node = None
            return
        here.node = node
        for pod in list(here.arrived.values()):
            self._decide(pod, node, here)
        if is_ready(node):
            for uid in list(here.waiting):
                self._start(here.waiting.pop(uid), here)

    def _take_pods(self, kind: str, thing: Any) -> None:
        if kind != LISTED:
            self._pod(kind, thing)
            return
        present = {pod["metadata"]["uid"] for pod in thing}
        for here in self.nodes.values():
            for uid in (here.admitted.keys() | here.arrived.keys()) - present:
                here.forget(uid)
        self.refused &= present
        for pod in sorted(thing, key=lambda each: each["status"].get("phase") != "Running"):  # these have their place
            self._pod("ADDED", pod)

    def _pod(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        here = self.nodes.setdefault(pod["spec"]["nodeName"], NodePods())
        if kind == "DELETED" or pod["status"].get("phase") in TERMINAL:
            here.forget(uid)
            if kind == "DELETED":
                self.refused.discard(uid)
        elif uid in here.admitted or uid in self.refused:
            for known in (here.waiting, here.starting):
                if uid in known:
                    known[uid] = pod
        elif pod["status"].get("phase") == "Running":
            here.arrived.pop(uid, None)
            here.admitted[uid] = (requests_of(pod), host_ports(pod))  # by an earlier agent
        elif "deletionTimestamp" in pod["metadata"]:
            here.arrived.pop(uid, None)
        elif here.node is None:
            here.arrived[uid] = pod
        else:
            self._decide(pod, here.node, here)

    def _decide(self, pod: Object, node: Object, here: NodePods) -> None:
        uid = pod["metadata"]["uid"]
        here.arrived.pop(uid, None)
        rejection = judge(pod, node, here.taken(), here.ports())
        if rejection is not None:
            self.refused.add(uid)
            self.refuse(pod, rejection)
            return
        here.admitted[uid] = (requests_of(pod), host_ports(pod))
        if is_ready(node) or pod["spec"].get("hostNetwork"):
            self._start(pod, here)
        else:
            here.waiting[uid] = pod

    def _start(self, pod: Object, here: NodePods) -> None:
        here.starting[pod["metadata"]["uid"]] = pod
        self.start(pod)

    def _started(self, pod: Object) -> None:
        """Report a pod whose containers run now, unless it was deleted meanwhile. If its kubelet is silent, the pod
        waits for it."""
        here, uid = self.nodes.get(pod["spec"]["nodeName"], NodePods()), pod["metadata"]["uid"]
        now = here.starting.pop(uid, None)
        if now is None or "deletionTimestamp" in now["metadata"]:
            return
        if here.node is None:
            here.waiting[uid] = now
        else:
            self.report(now, here.node)


@dataclass(slots=True)
class PodAddresses:
    """The addresses of pods, each given once."""

    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(_first_number()))

    def of(self, pod: Object, node: Object) -> str:
        """Return an address for a pod: that of its node if it uses the node's network, otherwise a new one."""
        return host_address(node) if pod["spec"].get("hostNetwork") else str(ADDRESSES[next(self._numbers)])


def _first_number() -> int:
    return 1 + random.randrange(AGENTS) * ADDRESSES.num_addresses // AGENTS  # noqa: S311 - addresses are no secrets


def host_address(node: Object) -> str:
    return next((each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"), "")


def running_status(pod: Object, node: Object, address: str, now: str) -> Object:
    """Return what a kubelet reports of a pod all of whose containers run and are ready."""
    ready = ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"]
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": host_address(node),
        "podIP": address,
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": now} for each in (*ready, *gates)],
        "containerStatuses": [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for each in pod["spec"]["containers"]
        ],
    }


class KubeletPods:
    """The watches, the thread that decides, and the threads that write."""

    def __init__(self, kube: KubeApi, watches: KubeApi, node_deleted: Callable[[str], None]) -> None:
        self._kube, self._watches = kube, watches
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._hands = ThreadPoolExecutor(AT_ONCE, "pod")
        self._starts = DelayedActions("starts")
        self._addresses = PodAddresses()
        self.decisions = PodDecisions(self._start, self._report, self._refuse, node_deleted)

    def start(self) -> None:
        for path in (NODES, BOUND_PODS):
            threading.Thread(
                target=follow, args=(self._watches, path, self._events.put), name=path, daemon=True
            ).start()
        threading.Thread(target=self._decide, name="admission", daemon=True).start()

    def _decide(self) -> None:
        while True:
            event = self._events.get()
            try:
                self.decisions.take(event)
            except Exception:
                log.exception("an event of %s", event[0])

    def _start(self, pod: Object) -> None:
        after = float((pod["metadata"].get("annotations") or {}).get(START_AFTER, START_SECONDS))
        self._starts.after(after, lambda: self._events.put((STARTS, DUE, pod)))

    def _report(self, pod: Object, node: Object) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._hands.submit(self._write, pod, running_status(pod, node, self._addresses.of(pod, node), now))

    def _refuse(self, pod: Object, rejection: Rejection) -> None:
        log.info("%s/%s refused by %s: %s", *_names(pod), pod["spec"]["nodeName"], rejection.message)
        status = {"phase": "Failed", "reason": rejection.reason, "message": rejection.message}
        self._hands.submit(self._write, pod, status)

    def _write(self, pod: Object, status: Mapping[str, Any]) -> None:
        namespace, name = _names(pod)
        # Never that of another pod of this name. Conditions of others, such as the scheduler's, stay
        guarded = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        for attempt in range(ATTEMPTS):  # a kubelet retries until it has reported
            try:
                self._kube.call("PATCH", path, guarded, content_type=STRATEGIC_PATCH)
            except ApiError as error:
                if error.status in GONE:
                    return
                log.warning("%s/%s, attempt %d: %s", namespace, name, attempt, error)
            except (urllib3.exceptions.HTTPError, OSError):
                log.warning("%s/%s, attempt %d", namespace, name, attempt, exc_info=True)
            else:
                return
            time.sleep(PAUSE)


def _names(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]

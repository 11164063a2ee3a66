"""Pods as kubelets handle them: admitted or refused when they are bound to a node, started when the node's network is
ready.

KWOK starts a pod only after it has the annotation that this module sets (`stages.yaml`), so a refused pod never ran.
One thread makes all decisions, from two watches, so each decision counts the pods before it.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import urllib3

from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from joiner_local.node_agent.node_objects import ADMITTED, KUBELET
from joiner_local.node_agent.pod_admission import Amounts, Rejection, host_ports, judge, requests_of

log = logging.getLogger(__name__)

NODES: Final = "/api/v1/nodes"
BOUND_PODS: Final = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D"
TERMINAL: Final = ("Succeeded", "Failed")
AT_ONCE: Final = 16
LISTED: Final = "LISTED"
GONE: Final = (404, 409)  # deleted, or another pod has the name now
ATTEMPTS: Final = 20
PAUSE: Final = 0.5  # seconds

Event = tuple[str, str, Any]  # path watched; LISTED, ADDED, MODIFIED or DELETED; the object, or all of them


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

    def taken(self) -> Amounts:
        total: Amounts = {}
        for amounts, _ in self.admitted.values():
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        return total

    def ports(self) -> Iterator[tuple[str, int]]:
        return (port for _, ports in self.admitted.values() for port in ports)

    def forget(self, uid: str) -> None:
        for known in (self.admitted, self.arrived, self.waiting):
            known.pop(uid, None)


@dataclass(slots=True)
class PodDecisions:
    """The known state and the decisions; `start` and `refuse` write them."""

    start: Callable[[Object], None]
    refuse: Callable[[Object, Rejection], None]
    node_deleted: Callable[[str], None]
    nodes: dict[str, NodePods] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        path, kind, thing = event
        if path == NODES:
            self._take_nodes(kind, thing)
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
                self.start(here.waiting.pop(uid))

    def _take_pods(self, kind: str, thing: Any) -> None:
        if kind != LISTED:
            self._pod(kind, thing)
            return
        present = {pod["metadata"]["uid"] for pod in thing}
        for here in self.nodes.values():
            for uid in (here.admitted.keys() | here.arrived.keys()) - present:
                here.forget(uid)
        self.refused &= present
        for pod in thing:
            self._pod("ADDED", pod)

    def _pod(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        here = self.nodes.setdefault(pod["spec"]["nodeName"], NodePods())
        if kind == "DELETED" or pod["status"].get("phase") in TERMINAL:
            here.forget(uid)
            if kind == "DELETED":
                self.refused.discard(uid)
        elif uid in here.admitted or uid in self.refused:
            if uid in here.waiting:
                here.waiting[uid] = pod
        elif pod["metadata"].get("annotations", {}).get(ADMITTED) or pod["status"].get("phase") == "Running":
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
            self.start(pod)
        else:
            here.waiting[uid] = pod


class KubeletPods:
    """The watches, the thread that decides, and the threads that write."""

    def __init__(self, kube: KubeApi, watches: KubeApi, node_deleted: Callable[[str], None]) -> None:
        self._kube, self._watches = kube, watches
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._hands = ThreadPoolExecutor(AT_ONCE, "pod")
        self.decisions = PodDecisions(self._start, self._refuse, node_deleted)

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
        self._hands.submit(self._write, pod, "", {"metadata": {"annotations": {ADMITTED: "true"}}})

    def _refuse(self, pod: Object, rejection: Rejection) -> None:
        log.info("%s/%s refused by %s: %s", *_names(pod), pod["spec"]["nodeName"], rejection.message)
        status = {"phase": "Failed", "reason": rejection.reason, "message": rejection.message}
        self._hands.submit(self._write, pod, "/status", {"status": status})

    def _write(self, pod: Object, part: str, patch: Mapping[str, Any]) -> None:
        namespace, name = _names(pod)
        guarded = {
            **patch,
            "metadata": {**patch.get("metadata", {}), "uid": pod["metadata"]["uid"]},
        }  # never that of another pod of this name
        path = f"/api/v1/namespaces/{namespace}/pods/{name}{part}"
        for attempt in range(ATTEMPTS):  # a kubelet retries until it has reported
            try:
                self._kube.merge(path, guarded)
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

"""Watches pods and nodes: which pods were on each node, how long each waited for one, and when they ended."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import urllib3

from joiner_local.control_plane.kube_api import ApiError, Object
from tests.e2e.stack_actions import Actor


class PodWitness:
    """Watches pods and nodes: which pods were on each node, when pods ended, and which of them had a node."""

    def __init__(self, actor: Actor) -> None:
        self.pods_of: dict[str, set[str]] = {}
        self.ended: dict[str, datetime] = {}
        self.bound: dict[str, tuple[str, datetime]] = {}
        """The node of each pod, and when the pod was first seen on it."""
        self.left: dict[str, list[datetime]] = {}
        """When pods left each node, or ended on it."""
        self.nodes: set[str] = set()
        self.waiting: dict[str, datetime] = {}
        """Since when each pod without a node has waited, by uid."""
        self.waits: list[tuple[str, float]] = []
        """How long pods waited for a node, in seconds."""
        self._over = threading.Event()
        self._kube = actor.world.kube
        for path, note in (("/api/v1/namespaces/default/pods", self._pod), ("/api/v1/nodes", self._node)):
            threading.Thread(target=self._watch, args=(path, note), daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _watch(self, path: str, note: Callable[[str, Object], None]) -> None:
        while not self._over.is_set():
            with suppress(ApiError, urllib3.exceptions.HTTPError):
                listed = self._kube.get(path)
                for found in listed["items"]:
                    note("ADDED", found)
                for event, found in self._kube.watch(path, version=listed["metadata"]["resourceVersion"], seconds=900):
                    note(event, found)
                    if self._over.is_set():
                        return

    def _pod(self, event: str, found: Object) -> None:
        pod, node = f"default/{found['metadata']['name']}", found["spec"].get("nodeName")
        self._note_wait(event, pod, found)
        now = datetime.now(UTC)
        if node:
            self.pods_of.setdefault(node, set()).add(pod)
            self.bound.setdefault(pod, (node, now))
        gone = event == "DELETED" or "deletionTimestamp" in found["metadata"]
        if gone and pod not in self.ended:
            self.ended[pod] = now
            if node:
                self.left.setdefault(node, []).append(now)

    def _note_wait(self, event: str, pod: str, found: Object) -> None:
        """Note the begin or the end of a pod's wait for a node. A pod that is deleted waits no more."""
        uid, now = found["metadata"]["uid"], datetime.now(UTC)
        if found["spec"].get("nodeName") or event == "DELETED" or "deletionTimestamp" in found["metadata"]:
            if (since := self.waiting.pop(uid, None)) is not None:
                self.waits.append((pod, (now - since).total_seconds()))
        elif not found["spec"].get("schedulingGates"):
            self.waiting.setdefault(uid, now)

    def longest_wait(self) -> tuple[str, float]:
        """Return the pod that waited the longest for a node, those that still wait included, and its seconds."""
        return max(self.waits, key=lambda each: each[1], default=("", 0.0))

    def _node(self, event: str, found: Object) -> None:
        if event != "DELETED":
            self.nodes.add(found["metadata"]["name"])

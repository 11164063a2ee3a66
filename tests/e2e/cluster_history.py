"""The history of a cluster, from outside: every version of its pods, nodes, claims, pools and PodDisruptionBudgets, who
deleted or evicted what (the audit log of the API server), and when instances ended (EC2).

All kinds have one sequence of resource versions, so the versions of all objects are ordered, also if the watches are
slow. A `ClusterRecorder` watches as long as the stack runs; `record` returns what happened since a time, and `forget`
begins anew.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from joiner_local.demo.change_watch import instances

PATHS: Final = {
    "/api/v1/pods": "pod",
    "/api/v1/nodes": "node",
    "/apis/karpenter.sh/v1/nodeclaims": "claim",
    "/apis/karpenter.sh/v1alpha5/machines": "claim",
    "/apis/karpenter.sh/v1/nodepools": "pool",
    "/apis/karpenter.sh/v1alpha5/provisioners": "provisioner",
    "/apis/policy/v1/poddisruptionbudgets": "budget",
}
KIND_OF: Final = {path.rpartition("/")[2]: kind for path, kind in PATHS.items()}
EC2_EVERY: Final = 1.0  # seconds
QUIET: Final = 0.4
"""Seconds without a change after which the watches have shown what happened before."""
CAUGHT_UP_WITHIN: Final = 10.0
RETRY: Final = 0.3
WATCHED_FOR: Final = 600  # seconds of one request

State = Mapping[tuple[str, str], Object]
"""Objects by kind and key: the name, or namespace and name."""


@dataclass(frozen=True, slots=True)
class Change:
    """A new version of an object, None if it was deleted; `at` is the time (epoch seconds) when the watch saw it."""

    revision: int
    at: float
    kind: str
    key: str
    found: Object | None


@dataclass(frozen=True, slots=True)
class Removal:
    """A request that the API server granted: `delete` or `evict`, of one object or (without its name) of all of a kind.

    `ours`: the identity is a role of AWS that is no node's, which only Joiner's functions have.
    """

    at: float
    verb: str
    kind: str
    key: str
    user: str
    ours: bool

    @classmethod
    def from_audit(cls, event: Mapping[str, Any]) -> "Removal | None":
        """Read an event of the audit log; None if the request was refused.

        >>> user = {"username": "arn:aws:sts::1:assumed-role/evict", "extra": {"arn": ["arn:aws:sts::1:assumed-role/"]}}
        >>> pod = {"resource": "pods", "subresource": "eviction", "namespace": "default", "name": "web"}
        >>> event = {"verb": "create", "user": user, "objectRef": pod, "responseStatus": {"code": 201}}
        >>> event |= {"requestReceivedTimestamp": "2026-11-29T00:00:01.500000Z"}
        >>> made = Removal.from_audit(event)
        >>> made.verb, made.kind, made.key, made.ours
        ('evict', 'pod', 'default/web', True)
        >>> Removal.from_audit({**event, "responseStatus": {"code": 429}})
        """
        if event.get("responseStatus", {}).get("code", 500) >= 300:
            return None
        user, about = event["user"], event["objectRef"]
        name, namespace = about.get("name", ""), about.get("namespace", "")
        return cls(
            datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
            "evict" if event["verb"] == "create" else "delete",
            KIND_OF[about["resource"]],
            f"{namespace}/{name}" if namespace else name,
            user["username"],
            "arn" in user.get("extra", {}) and not user["username"].startswith("system:node:"),
        )


@dataclass(frozen=True, slots=True)
class ClusterHistory:
    """What happened in a time: the objects at its begin, the changes in their order, what was removed by whom.

    `ended` has the time at which each instance was first seen not to run any more.
    """

    start: State
    changes: Sequence[Change]
    removals: Sequence[Removal] = ()
    ended: Mapping[str, float] = field(default_factory=dict)


class ClusterRecorder:
    """Watches a cluster until the process ends."""

    def __init__(self, kube: KubeApi, ec2: Any, audit_log: Path) -> None:
        self._kube, self._ec2, self._audit_log = kube, ec2, audit_log
        self._read_to = audit_log.stat().st_size if audit_log.exists() else 0
        self._start: dict[tuple[str, str], Object] = {}
        self._changes: list[Change] = []
        self._removals: list[Removal] = []
        self._lock = threading.Lock()
        self._listed = [threading.Event() for _ in PATHS]
        self._latest = 0
        self._alive: set[str] = set()
        self._ended: dict[str, float] = {}
        for (path, kind), listed in zip(PATHS.items(), self._listed, strict=True):
            threading.Thread(target=self._watch, args=(path, kind, listed), daemon=True).start()
        threading.Thread(target=self._look_at_instances, daemon=True).start()
        for listed in self._listed:
            listed.wait(CAUGHT_UP_WITHIN)

    def record(self, since: float = 0.0) -> ClusterHistory:
        """Return what happened since a time (epoch seconds), but not what was forgotten."""
        self._catch_up()
        self._read_audit_log()
        with self._lock:
            start, seen = dict(self._start), list(self._changes)
        ordered = sorted(seen, key=lambda each: each.revision)
        apply(start, [each for each in ordered if each.at < since])
        new = [each for each in ordered if each.at >= since]
        return ClusterHistory(start, new, tuple(self._removals), dict(self._ended))

    def forget(self) -> None:
        """Forget what happened until now, but not the objects that exist."""
        self._catch_up()
        self._read_audit_log()
        self._removals.clear()
        with self._lock:
            apply(self._start, sorted(self._changes, key=lambda each: each.revision))
            self._changes.clear()

    def _catch_up(self) -> None:
        """Wait until the watches have shown what the API server lists. RuntimeError if they do not."""
        end = time.time() + CAUGHT_UP_WITHIN
        while True:
            time.sleep(QUIET)  # what came and went meanwhile is in no list
            listed = {(kind, key_of(one)) for path, kind in PATHS.items() for one in self._items(path)}
            with self._lock:
                state, changes = dict(self._start), sorted(self._changes, key=lambda each: each.revision)
            apply(state, changes)
            seen = state.keys()
            now, last = time.time(), max((change.at for change in changes), default=0.0)
            if seen == listed and now - last > QUIET:
                return
            if now > end:
                if seen != listed:
                    raise RuntimeError(f"the watches have not shown {sorted(seen ^ listed)}")
                return

    def _items(self, path: str) -> list[Object]:
        """Return the objects of a list, none of a kind that does not exist."""
        return list((self._kube.find(path) or {"items": []})["items"])

    def _read_audit_log(self) -> None:
        if not self._audit_log.exists():  # before its first event
            return
        with self._audit_log.open("rb") as log:
            log.seek(self._read_to)
            written = log.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read_to += len(whole)
        read = (Removal.from_audit(json.loads(line)) for line in whole.splitlines())
        self._removals.extend(each for each in read if each is not None)

    def _watch(self, path: str, kind: str, listed: threading.Event) -> None:
        known: set[str] = set()
        version = ""
        while True:
            with suppress(ApiError, urllib3.exceptions.HTTPError, msgspec.MsgspecError, OSError, KeyError):
                version = version or self._list(path, kind, known)
                listed.set()
                for event, found in self._kube.watch(path, version=version, seconds=WATCHED_FOR):
                    if event == "ERROR":  # the version is too old
                        break
                    version = found["metadata"]["resourceVersion"]
                    self._note(kind, known, found, deleted=event == "DELETED")
                else:
                    continue
            version = ""
            listed.set()
            time.sleep(RETRY)

    def _list(self, path: str, kind: str, known: set[str]) -> str:
        """Note all objects, and the end of those that are gone; return the version of the list."""
        answer = self._kube.find(path)
        if answer is None:  # the kind does not exist
            answer = {"items": [], "metadata": {"resourceVersion": self._latest}}
        version = int(answer["metadata"]["resourceVersion"])
        for found in answer["items"]:
            self._note(kind, known, found)
        for key in known - {key_of(found) for found in answer["items"]}:
            self._append(Change(version, time.time(), kind, key, None))
            known.discard(key)
        return str(version)

    def _note(self, kind: str, known: set[str], found: Object, *, deleted: bool = False) -> None:
        key = key_of(found)
        (known.discard if deleted else known.add)(key)
        revision = int(found["metadata"]["resourceVersion"])
        self._append(Change(revision, time.time(), kind, key, None if deleted else without_bulk(found)))

    def _append(self, change: Change) -> None:
        with self._lock:
            self._changes.append(change)
            self._latest = max(self._latest, change.revision)

    def _look_at_instances(self) -> None:
        while True:
            with suppress(BotoCoreError, ClientError):
                alive = {str(each["InstanceId"]) for each in instances(self._ec2, alive=True)}
                now = time.time()
                self._ended |= dict.fromkeys(self._alive - alive, now)
                for back in alive & self._ended.keys():  # EC2's answers are consistent only eventually
                    del self._ended[back]
                self._alive |= alive
                self._alive -= self._ended.keys()
            time.sleep(EC2_EVERY)


def apply(state: dict[tuple[str, str], Object], changes: Sequence[Change]) -> None:
    """Change the state as these changes did."""
    for change in changes:
        if change.found is None:
            state.pop((change.kind, change.key), None)
        else:
            state[change.kind, change.key] = change.found


def key_of(found: Object) -> str:
    """Return the name of an object, with its namespace if it has one."""
    metadata = found["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def without_bulk(found: Object) -> Object:
    """Return the object without what is long and says nothing about disruption."""
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    spec = {key: value for key, value in found.get("spec", {}).items() if key not in ("containers", "volumes")}
    status = {key: value for key, value in found.get("status", {}).items() if key not in ("images", "nodeInfo")}
    return {"metadata": metadata, "spec": spec, "status": status}

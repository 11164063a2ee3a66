"""An API server in a dictionary, behind the real client: it passes the contract of the real one
(`tests/kube_contract.py`).

A test can make any call fail: the server refuses it, or loses it, or does it and loses the response.
"""

import copy
import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from joiner.adapters.kube import JSON_PATCH, Kube, Manifest
from joiner.adapters.kube_errors import AlreadyExists, Conflict, EvictionBlocked, KubeError, NotFound
from joiner.adapters.kube_kinds import CORE_EVENTS, EVENTS, KINDS, Kind

CREATED = "2026-11-21T12:00:00Z"

Key = tuple[str, str, str]
"""Plural, namespace, name."""

Fault = Callable[[str, str, Callable[[], Manifest]], Manifest]
"""A function of method, path, and the server's own action; its result replaces the server's response."""


HELD = "is held by its disruption budget web, which needs 1 healthy pods and has 1 currently"
"""What a claim's condition has of a pod that ``FakeKube.held`` names."""


class FakeKube(Kube):
    """Objects by kind, namespace and name; `asked` lists every call."""

    def __init__(self, objects: Iterable[Mapping[str, Any]] = (), *, fault: Fault | None = None) -> None:
        self.objects: dict[Key, Manifest] = {}
        self.asked: list[str] = []
        self.held: set[str] = set()  # names of pods that a disruption budget protects
        self.fault = fault
        self._versions = itertools.count(100)
        for each in objects:
            self.put(each)

    def put(self, manifest: Mapping[str, Any]) -> Manifest:
        """Store an object unchanged, with its status; add its kind and version."""
        kind = KINDS[manifest["apiVersion"], manifest["kind"]]
        made: Manifest = copy.deepcopy(dict(manifest))
        if kind == CORE_EVENTS:
            made = _as_newer_event(made)
        metadata = made["metadata"]
        if kind.namespaced:
            metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", str(uuid.uuid4()))
        metadata.setdefault("creationTimestamp", CREATED)
        metadata.setdefault("generation", 1)
        self._store((kind.plural, metadata.get("namespace", ""), metadata["name"]), made)
        return made

    def all(self, kind: Kind) -> list[Manifest]:
        """Return the objects of a kind, by name."""
        return [each for (plural, _, _), each in sorted(self.objects.items()) if plural == kind.plural]

    def within(self, seconds: float) -> "FakeKube":  # noqa: ARG002 - the client's
        """Return this API server, which answers at once."""
        return self

    def ask(
        self,
        method: str,
        path: str,
        body: Manifest | Sequence[Mapping[str, Any]] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Manifest:
        del accept  # a client that requests metadata only gets whole objects: the fake's objects are small
        self.asked.append(f"{method} {path}")
        sent = copy.deepcopy(body)

        def answer() -> Manifest:
            return copy.deepcopy(self._answered(method, path, sent, query or {}, content_type))

        return self.fault(method, path, answer) if self.fault else answer()

    def read(self, path: str, *, query: Mapping[str, str], accept: str = "application/json") -> bytes:
        return json.dumps(self.ask("GET", path, query=query, accept=accept)).encode()

    def _answered(self, method: str, path: str, body: Any, query: Mapping[str, str], content_type: str) -> Manifest:
        kind, namespace, name, subresource = _parsed(path)
        if method == "GET" and not name:
            return {
                "items": [
                    each for key, each in sorted(self.objects.items()) if _selected(key, each, kind, namespace, query)
                ]
            }
        if method == "POST" and not name:
            return self._create(kind, namespace, body, dry_run="dryRun" in query)
        key = (kind.plural, namespace, name)
        if key not in self.objects:
            raise NotFound(f"{kind.plural} {name} not found", status=404)
        return self._answer_of_one(method, key, subresource, body, content_type)

    def _answer_of_one(self, method: str, key: Key, subresource: str, body: Any, content_type: str) -> Manifest:
        match method, subresource:
            case "GET", _:
                return self.objects[key]
            case "DELETE", _:
                return self._delete(key, (body or {}).get("preconditions") or {})
            case "POST", "binding":
                return self._bind(key, body)
            case "POST", "eviction":
                return self._evict(key, (body.get("deleteOptions") or {}).get("preconditions") or {})
            case "PATCH", _:
                assert content_type != JSON_PATCH, "the fake knows merge patches"
                return self._patch(key, body, subresource)
        raise KubeError(f"the fake does not know {method} of {key}", status=405)

    def _create(self, kind: Kind, namespace: str, body: Manifest, *, dry_run: bool) -> Manifest:
        name = body["metadata"]["name"]
        if (kind.plural, namespace, name) in self.objects:
            raise AlreadyExists(f"{kind.plural} {name} already exists", status=409)
        body["metadata"] |= {"namespace": namespace} if namespace else {}
        if kind.group.startswith("karpenter"):
            body.pop("status", None)
        return body if dry_run else self.put(body)

    def _patch(self, key: Key, changes: Manifest, subresource: str) -> Manifest:
        present = self.objects[key]
        metadata = changes.get("metadata") or {}
        for field in ("resourceVersion", "uid"):
            if metadata.get(field) not in (None, present["metadata"][field]):
                raise Conflict("the object has been modified", status=409)
        own_status = key[0] in OWN_STATUS
        if own_status:
            changes = {
                name: value
                for name, value in changes.items()
                if (name == "status") == (subresource == "status") or name == "metadata"
            }
        after: Manifest = _merged(present, changes)
        after["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
        if after == present:
            return present
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            del self.objects[key]
            return after
        return self._store(key, after)

    def _delete(self, key: Key, preconditions: Mapping[str, str]) -> Manifest:
        present = self.objects[key]
        if any(present["metadata"].get(field) != value for field, value in preconditions.items()):
            raise Conflict("the precondition does not hold", status=409)
        if not present["metadata"].get("finalizers"):
            return self.objects.pop(key)
        present["metadata"].setdefault("deletionTimestamp", CREATED)
        return self._store(key, present)

    def _evict(self, key: Key, preconditions: Mapping[str, str]) -> Manifest:
        """Evict a pod; if it may be evicted, it is gone at once."""
        if key[2] in self.held:
            raise EvictionBlocked(
                "Cannot evict pod as it would violate the pod's disruption budget.",
                status=429,
                cause="The disruption budget web needs 1 healthy pods and has 1 currently",
            )
        return self._delete(key, preconditions)

    def _bind(self, key: Key, body: Manifest) -> Manifest:
        present = self.objects[key]
        if present["spec"].get("nodeName"):
            raise Conflict(f"pod {key[2]} is already assigned to node {present['spec']['nodeName']}", status=409)
        for field in ("uid", "resourceVersion"):
            if body["metadata"].get(field) not in (None, present["metadata"][field]):
                raise Conflict("it is another pod now", status=409)
        present["spec"]["nodeName"] = body["target"]["name"]
        present["status"] = {"phase": "Running"}
        return self._store(key, present)

    def _store(self, key: Key, manifest: Manifest) -> Manifest:
        manifest["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[key] = manifest
        return manifest


OWN_STATUS = {kind.plural for kind in KINDS.values() if kind.group.startswith(("karpenter", "autoscaling.x-k8s.io"))}


def _parsed(path: str) -> tuple[Kind, str, str, str]:
    """Return kind, namespace, name and subresource of a REST path."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    kind = next(each for each in KINDS.values() if (each.group, each.version, each.plural) == (group, version, rest[0]))
    return kind, namespace, rest[1] if len(rest) > 1 else "", rest[2] if len(rest) > 2 else ""


def _selected(key: Key, manifest: Manifest, kind: Kind, namespace: str, query: Mapping[str, str]) -> bool:
    terms = [term for term in query.get("labelSelector", "").split(",") if term]
    labels = manifest["metadata"].get("labels") or {}
    here = key[0] == kind.plural and namespace in ("", key[1])
    spec, status = manifest.get("spec") or {}, manifest.get("status") or {}
    fields = {
        "metadata.name": key[2],
        "spec.nodeName": spec.get("nodeName") or "",
        "status.phase": status.get("phase") or "Pending",
    }
    suits = all(_suits(fields, term) for term in query.get("fieldSelector", "").split(",") if term)
    return here and suits and all(_has_label(labels, term) for term in terms)


def _has_label(labels: Mapping[str, str], term: str) -> bool:
    """Return whether an object matches one term of a label selector: ``key``, ``!key`` or ``key=value``."""
    if term.startswith("!"):
        return term[1:] not in labels
    name, equals, value = term.partition("=")
    return labels.get(name) == value if equals else name in labels


def _suits(fields: Mapping[str, str], term: str) -> bool:
    """Return whether an object matches one term of a field selector: ``name=value`` or ``name!=value``."""
    field, _, value = term.partition("!=" if "!=" in term else "=")
    return (fields[field] == value) is ("!=" not in term)


def _as_newer_event(event: Manifest) -> Manifest:
    """Return an event of the core API as events.k8s.io shows it: the API server serves both from one object."""
    renamed = {
        "reportingComponent": "reportingController",
        "involvedObject": "regarding",
        "message": "note",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
    }
    return {renamed.get(field, field): value for field, value in event.items()} | {"apiVersion": EVENTS.api_version}


def _merged(present: Any, changes: Any) -> Any:
    """Merge as RFC 7386 does."""
    if not isinstance(changes, Mapping):
        return changes
    after = dict(present) if isinstance(present, Mapping) else {}
    for name, value in changes.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = _merged(after.get(name), value)
    return after

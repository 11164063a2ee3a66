"""A cluster at each time of its history: its objects, and since when they are as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from joiner_local.control_plane.kube_api import Object
from tests.e2e.cluster_history import Change, State
from tests.e2e.observed_manifests import (
    DO_NOT_DISRUPT,
    Place,
    annotations,
    condition,
    instance_of_claim,
    instance_of_node,
    is_deleting,
    is_initialized,
    is_tainted,
    pool_of,
    protection_of,
)

KNOWN_AFTER: Final = 15.0
"""Seconds. A decision is made from lists that are older than its effect: what is younger may be unknown to it."""
T = TypeVar("T")


@dataclass
class ReplayedCluster:
    """The objects by kind and key. Times are epoch seconds, 0 for what was so at the begin."""

    objects: dict[str, dict[str, Object]] = field(default_factory=dict)
    not_ready: dict[str, float] = field(default_factory=dict)
    """Since when each node is not Ready."""
    protected: dict[str, float] = field(default_factory=dict)
    """Since when nodes, claims and bound pods (`node a`) have the annotation that forbids their disruption. That of a
    pod may be a duration, which can be over."""
    ready: dict[str, float] = field(default_factory=dict)
    """Since when each bound pod is Ready."""
    closed: dict[str, float] = field(default_factory=dict)
    """Since when each PodDisruptionBudget allows no eviction."""
    _versions: dict[Place, list[tuple[float, Object]]] = field(default_factory=dict)
    _sizes: dict[Place, list[tuple[float, int]]] = field(default_factory=dict)
    _claims: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, start: State) -> "ReplayedCluster":
        made = cls()
        for (kind, key), found in start.items():
            made.note(Change(0, 0.0, kind, key, found))
        return made

    def note(self, change: Change) -> None:
        """Apply the next change."""
        kind, key, found = change.kind, change.key, change.found
        before = self.objects.setdefault(kind, {}).get(key)
        if found is None:
            self.objects[kind].pop(key, None)
        else:
            self.objects[kind][key] = found
        if kind in ("pool", "provisioner") and found is not None:
            self._versions.setdefault((kind, key), []).append((change.at, found))
        self._note_what_forbids(change)
        if kind == "claim" and found is not None:
            self._claims[instance_of_claim(found)] = key
        if kind == "node":
            _note_since(self.not_ready, key, change.at, holds=found is not None and condition(found, "Ready") != "True")
            for pool in {pool_of(each) for each in (before, found) if each is not None}:
                self._sizes.setdefault(pool, []).append((change.at, len(self.members(pool))))

    def _note_what_forbids(self, change: Change) -> None:
        kind, key, at, found = change.kind, change.key, change.at, change.found
        if kind in ("node", "claim"):
            forbids = found is not None and annotations(found).get(DO_NOT_DISRUPT) == "true"
            _note_since(self.protected, f"{kind} {key}", at, holds=forbids)
        elif kind == "pod":
            bound = found if found is not None and found["spec"].get("nodeName") else None
            _note_since(self.protected, f"pod {key}", at, holds=bound is not None and protection_of(bound) != "")
            _note_since(self.ready, key, at, holds=bound is not None and condition(bound, "Ready") == "True")
        elif kind == "budget":
            status = found.get("status", {}) if found is not None else {}
            _note_since(self.closed, key, at, holds=status.get("disruptionsAllowed") == 0)

    def all(self, kind: str) -> Mapping[str, Object]:
        return self.objects.get(kind, {})

    def members(self, pool: Place) -> list[str]:
        """Return the names of the initialized nodes of a pool."""
        return [name for name, node in self.all("node").items() if pool_of(node) == pool and is_initialized(node)]

    def claim_of(self, node: Object) -> tuple[str, Object] | None:
        """Return the claim of a node, with its name."""
        name = self._claims.get(instance_of_node(node) or "no instance", "")
        return (name, self.all("claim")[name]) if name in self.all("claim") else None

    def node_of(self, claim: Object) -> tuple[str, Object] | None:
        """Return the node of a claim, with its name."""
        name = str(claim.get("status", {}).get("nodeName", ""))
        node = self.all("node").get(name)
        return (name, node) if node is not None and instance_of_node(node) == instance_of_claim(claim) else None

    def is_leaving(self, node: Object) -> bool:
        return is_tainted(node) or self.is_deleted(node)

    def is_deleted(self, node: Object) -> bool:
        """Return whether a node or its claim is being deleted."""
        claim = self.claim_of(node)
        return is_deleting(node) or (claim is not None and is_deleting(claim[1]))

    def pods_on(self, node: str) -> list[Object]:
        return [pod for pod in self.all("pod").values() if pod["spec"].get("nodeName") == node]

    def recent_versions(self, pool: Place, at: float) -> list[Object]:
        """Return the versions of a pool that may have been known to a decision."""
        return _recent(self._versions.get(pool, []), at)

    def recent_size(self, pool: Place, at: float) -> int:
        """Return the largest number of initialized nodes that may have been known to a decision."""
        return max(_recent(self._sizes.get(pool, []), at), default=0)


def _note_since(since: dict[str, float], key: str, at: float, *, holds: bool) -> None:
    if holds:
        since.setdefault(key, at)
    else:
        since.pop(key, None)


def _recent(versions: list[tuple[float, T]], at: float) -> list[T]:
    """Return what was the last version at any time of the last `KNOWN_AFTER` seconds."""
    old = [each for when, each in versions if when < at - KNOWN_AFTER][-1:]
    return [*old, *(each for when, each in versions if at - KNOWN_AFTER <= when <= at)]

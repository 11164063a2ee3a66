"""Reads which pools and node classes of a dump are not ready: the cluster launches no nodes for them, nor does a plan.

A condition counts only for the generation of its object that it is about. A pool waits for its class: if the class is
among the manifests, the status of the class decides, because the manifest may be newer than the status of the pool.

>>> why = "SubnetsReady: no subnet has tag a = b"
>>> status = {"conditions": [{"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": why}]}
>>> found = read_readiness({"EC2NodeClass": [{"metadata": {"name": "default"}, "status": status}]})
>>> found.classes
{'EC2NodeClass/default': 'SubnetsReady: no subnet has tag a = b'}
>>> print(*found.warnings)
EC2NodeClass/default: status.conditions[Ready] is False: SubnetsReady: no subnet has tag a = b; the cluster launches \
no nodes for it, so this plan has none: correct it, or remove its status to plan it as ready
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.planning.state.static_pools import NOT_LAUNCHED
from joiner.pools import Conditions, InvalidManifest, NodeClaim, NodePool

Manifest = Mapping[str, Any]

CLASSES: Final = ("EC2NodeClass", "AWSNodeTemplate")
POOLS: Final = ("NodePool", "Provisioner")
NO_NODES: Final = "the cluster launches no nodes for it, so this plan has none"
REMEDY: Final = "correct it, or remove its status to plan it as ready"
OUTDATED: Final = "this is about an older version of it; this plan counts it as ready"
NOT_LAUNCHABLE: Final = "NotLaunchable"
"""The reason of the condition `Launched` of a claim for which no plan had a node (`reporting.launch_conditions`). Other
reasons are those of EC2, which was asked: a class was there."""
UNDECIDED: Final = "this plan counts it as ready"


@dataclass(frozen=True, slots=True)
class Readiness:
    """``pools`` and ``classes`` that are not ready, by key, each with the message of its condition."""

    pools: Mapping[str, str]
    classes: Mapping[str, str]
    warnings: tuple[InvalidManifest, ...]

    def closed_pools(self, pools: Sequence[NodePool], classes: Sequence[str]) -> dict[str, str]:
        """Return the pools that a plan may not use, each with the reason. ``classes`` are the keys of the classes among
        the manifests.
        """
        return {
            pool.key: f"{pool.key} is not ready: {self.pools[pool.key]}"
            for pool in pools
            if pool.key in self.pools and not _waits_for_class(pool, classes)
        }


def read_readiness(by_kind: Mapping[str, Sequence[Manifest]]) -> Readiness:
    """Read the Ready conditions that exist and are not True."""
    found: dict[str, dict[str, str]] = {"pools": {}, "classes": {}}
    warnings = []
    for kind in (*CLASSES, *POOLS):
        for manifest in by_kind.get(kind, ()):
            conditions = Conditions.from_kube((manifest.get("status") or {}).get("conditions"))
            ready = next((condition for condition in conditions if condition.type == "Ready"), None)
            if ready is None or ready.true:
                continue
            key = f"{kind}/{manifest['metadata']['name']}"
            why = ready.message or ready.reason or "no reason is given"
            outdated = ready.observed_generation not in (None, manifest["metadata"].get("generation"))
            if outdated or ready.status != "False":
                remedy = OUTDATED if outdated else UNDECIDED
            else:
                found["pools" if kind in POOLS else "classes"][key] = why
                remedy = f"{NO_NODES}: {REMEDY}"
            warnings.append(
                InvalidManifest(key, "status.conditions[Ready]", ready.status, f"{why}; {remedy}", "warning")
            )
    return Readiness(found["pools"], found["classes"], tuple(warnings))


def close_claims_without_class(claims: Iterable[NodeClaim], absences: Iterable[InvalidManifest]) -> dict[str, str]:
    """Return the claims of users that a plan may not launch, each with the reason: those with a missing class that a
    cluster could not launch either. ``absences`` are the missing classes.

    A claim whose class is among the manifests is planned, because the class may be newer than the status.
    """
    without_class = {one.object for one in absences}
    found = {}
    for claim in claims:
        launched = claim.conditions["Launched"]
        outdated = launched.observed_generation not in (None, claim.generation)
        refused = launched.status == "False" and launched.reason == NOT_LAUNCHABLE and not outdated
        if claim.key in without_class and refused:
            found[claim.key] = f"status.conditions[Launched] is False: {launched.message.removeprefix(NOT_LAUNCHED)}"
    return found


def _waits_for_class(pool: NodePool, classes: Sequence[str]) -> bool:
    """Return whether the pool is not ready only because of a class that is among the manifests."""
    status = {name: pool.conditions[name].status for name in ("NodeClassReady", "ValidationSucceeded")}
    only_class = status["NodeClassReady"] == "False" and status["ValidationSucceeded"] != "False"
    return only_class and pool.class_ref.kind != "Inline" and pool.class_ref.key in classes

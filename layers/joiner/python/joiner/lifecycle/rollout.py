"""Draining by a rollout: the only pod of a Deployment is replaced before it leaves, instead of being evicted.

Source: Kubernetes, "Deployments" (rolling update, surge), `kubectl rollout restart`. A pod asks for it by the
annotation ``joiner.dev/drain: rollout`` in the template of its Deployment. The restart changes the template's
annotation ``kubectl.kubernetes.io/restartedAt``. The Deployment creates the new pod, which no disrupted node receives,
and removes the old one when the new one is available. A restart that is younger than the pod replaces it. If a restart
is not found any more, another controller has undone it: one that owns the Deployment and writes its template. It is not
repeated, because each one would create and delete pods again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from math import ceil, floor
from typing import Any, Final

from joiner.lifecycle.retirement import RetirementReason
from joiner.pools.timestamps import format_timestamp, parse_timestamp

RESTARTED_AT: Final = "kubectl.kubernetes.io/restartedAt"
ROLLOUT_AWAITED: Final = timedelta(minutes=10)
"""From the restart until the pod is evicted after all: the default progress deadline of a Deployment."""

LEAVING_TIME: Final = frozenset(
    {
        RetirementReason.CONSOLIDATED,
        RetirementReason.DRIFTED,
        RetirementReason.EXPIRED,
        RetirementReason.AGED,
        RetirementReason.RECOMMENDED,
        RetirementReason.DELETED,
        RetirementReason.SURPLUS,
    }
)
"""Reasons that leave the time for a rollout."""

DEFAULT_SHARE: Final = "25%"


class RolloutStep(Enum):
    """The next action for one pod."""

    RESTART = "restart"
    WAIT = "wait"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Rollout:
    """The next action for one pod and the reason. ``until``: when the pod is evicted after all."""

    step: RolloutStep
    why: str
    until: datetime | None = None


def leaves_time(reason: str, noted: Iterable[str] = ()) -> bool:
    """Return whether a retirement for this reason leaves the time for a rollout. `noted` are all reasons of its record:
    an interruption may have come later.

    >>> leaves_time("drifted", ["empty", "drifted"]), leaves_time("drifted", ["drifted", "spot"]), leaves_time("empty")
    (True, False, False)
    """
    return reason in LEAVING_TIME and all(one in LEAVING_TIME or one == RetirementReason.EMPTY for one in noted)


def plan_rollout(
    deployment: Mapping[str, Any], created: datetime | None, now: datetime, *, tried: bool = False
) -> Rollout:
    """Return the next action for a pod of this Deployment that was created at this time. ``tried``: the Deployment was
    restarted for this pod before.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
    >>> plan_rollout({"spec": {"replicas": 3}}, noon, noon).why
    'it has 3 replicas, and only a single one is replaced by a rollout'
    """
    spec = deployment.get("spec") or {}
    if why := _refusal(spec):
        return Rollout(RolloutStep.EVICT, why)
    restarted = restarted_at(spec)
    if restarted is None or created is None or restarted <= created:
        if tried:
            return Rollout(RolloutStep.EVICT, "its restart was undone")
        return Rollout(RolloutStep.RESTART, "", now + ROLLOUT_AWAITED)
    until = restarted + ROLLOUT_AWAITED
    if now >= until:
        minutes = ROLLOUT_AWAITED // timedelta(minutes=1)
        return Rollout(RolloutStep.EVICT, f"its rollout has not replaced the pod within {minutes} minutes")
    return Rollout(RolloutStep.WAIT, "", until)


def restarted_at(spec: Mapping[str, Any]) -> datetime | None:
    """Return the time of the last restart; None if there was none."""
    metadata = (spec.get("template") or {}).get("metadata") or {}
    found = parse_timestamp((metadata.get("annotations") or {}).get(RESTARTED_AT))
    return found if found is not None and found.tzinfo is not None else None


def restart_patch(now: datetime, version: str) -> Mapping[str, Any]:
    """Return the merge patch that restarts a Deployment. It is refused if the Deployment changed meanwhile."""
    annotations = {RESTARTED_AT: format_timestamp(now)}
    return {
        "metadata": {"resourceVersion": version},
        "spec": {"template": {"metadata": {"annotations": annotations}}},
    }


def find_deployment(replica_set: Mapping[str, Any]) -> str:
    """Return the name of the Deployment that controls a ReplicaSet; empty if none does."""
    owners: list[Mapping[str, Any]] = replica_set["metadata"].get("ownerReferences") or []
    return next((str(one["name"]) for one in owners if one.get("controller") and one.get("kind") == "Deployment"), "")


def _refusal(spec: Mapping[str, Any]) -> str:
    """Return why the Deployment cannot replace its pod before it leaves, or an empty text."""
    replicas = int(spec.get("replicas", 1))
    if replicas != 1:
        return f"it has {replicas} replicas, and only a single one is replaced by a rollout"
    if spec.get("paused"):
        return "it is paused"
    strategy = spec.get("strategy") or {}
    if (strategy.get("type") or "RollingUpdate") != "RollingUpdate":
        return f"its strategy is {strategy['type']}"
    rolling = strategy.get("rollingUpdate") or {}
    surge = _amount(rolling.get("maxSurge", DEFAULT_SHARE), replicas, ceil)
    if not surge:
        return "its maxSurge is 0"
    if _amount(rolling.get("maxUnavailable", DEFAULT_SHARE), replicas, floor):
        return "its maxUnavailable lets the pod leave before the new one is available"
    return ""


def _amount(value: object, replicas: int, rounded: Any) -> int:
    text = str(value)
    return int(rounded(replicas * float(text[:-1]) / 100)) if text.endswith("%") else int(text)

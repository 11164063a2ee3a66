"""Whether the nodes that were last launched for a NodePool registered: the condition ``NodeRegistrationHealthy``.

The last four outcomes are in the pool's status. The condition is False if two of them are failures, True if one is a
success and at most one a failure, and otherwise Unknown. A change of the pool or of its class removes the outcomes. The
condition is for people: it is no part of ``Ready``. Source: Karpenter, core `pkg/state/nodepoolhealth`.

>>> judge_registrations(["Registered", "RegistrationTimeout"])[0], judge_registrations(["RegistrationTimeout"])[0]
('True', 'Unknown')
>>> judge_registrations(["RegistrationTimeout", "RegistrationTimeout", "Registered"])[:2]
('False', 'RegistrationTimeout')
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from joiner.pools.conditions import Conditions, Status

HEALTHY: Final = "NodeRegistrationHealthy"
FIELD: Final = "lastRegistrations"
REGISTERED: Final = "Registered"
"""The outcome of a node that registered; every other outcome is the reason of a failure."""

LAUNCH_FAILED: Final = "LaunchFailed"
"""EC2 refused the launch for a reason that another plan does not change."""

REMEMBERED: Final = 4
FAILURES_OF_UNHEALTHY: Final = 2

Manifest = Mapping[str, Any]


def judge_registrations(outcomes: Sequence[str]) -> tuple[Status, str, str]:
    """Return status, reason and message of the condition; `outcomes` are the last ones, oldest first."""
    if not outcomes:
        return "Unknown", "NoRegistrations", "no node was launched since the pool or its class was changed"
    failures = [outcome for outcome in outcomes if outcome != REGISTERED]
    if not failures:
        return "True", REGISTERED, f"the last {len(outcomes)} launched nodes registered"
    message = f"{len(failures)} of the last {len(outcomes)} launched nodes did not register: {', '.join(failures)}"
    if len(failures) >= FAILURES_OF_UNHEALTHY:
        remedy = "the events of their NodeClaims give the causes and the remedies"
        return "False", failures[-1], f"{message}; {remedy}"
    return ("True", REGISTERED, message) if len(failures) < len(outcomes) else ("Unknown", failures[-1], message)


def reset_registrations(status: Manifest, *, generation: int, class_generation: int | None) -> tuple[str, ...]:
    """Return the outcomes in a pool's status; none if the pool or its class changed since.

    `class_generation` is None if the class could not be resolved.
    """
    seen = Conditions.from_kube(status.get("conditions"))[HEALTHY].observed_generation
    changed = class_generation is not None and status.get("nodeClassObservedGeneration") != class_generation
    return () if changed or seen != generation else tuple(map(str, status.get(FIELD) or ()))


def with_registration_health(
    conditions: Conditions, outcomes: Sequence[str], *, generation: int, at: datetime
) -> Conditions:
    """Return the conditions with the one that these outcomes give."""
    status, reason, message = judge_registrations(outcomes)
    return conditions.set(HEALTHY, status, reason, message, at=at, generation=generation)


def add_registrations(manifest: Manifest, outcomes: Sequence[str], at: datetime) -> dict[str, Any] | None:
    """Return the merge patch for the status of a NodePool after more outcomes; None if nothing changes."""
    status: Manifest = manifest.get("status") or {}
    generation = int(manifest["metadata"].get("generation") or 0)
    before = reset_registrations(status, generation=generation, class_generation=None)
    after = (*before, *outcomes)[-REMEMBERED:]
    known = Conditions.from_kube(status.get("conditions"))
    conditions = with_registration_health(known, after, generation=generation, at=at)
    changes = {"conditions": conditions.to_kube(), FIELD: list(after)}
    if all(status.get(field) == value for field, value in changes.items()):
        return None
    return {"metadata": {"resourceVersion": manifest["metadata"]["resourceVersion"]}, "status": changes}

"""Whether the nodes that were last launched for a NodePool registered: the condition ``NodeRegistrationHealthy``.

The last four outcomes are in the pool's status. The condition is False if two of them are failures, True if one is a
success and at most one a failure, and otherwise Unknown. A change of the pool or of its class removes the outcomes. The
condition is for people: it is no part of ``Ready``. Source: Karpenter, core `pkg/state/nodepoolhealth`. A node that was
launched before that change does not count: an annotation of its claim has the generations of both.

>>> judge_registrations(["Registered", "RegistrationTimeout"])[0], judge_registrations(["RegistrationTimeout"])[0]
('True', 'Unknown')
>>> judge_registrations(["RegistrationTimeout", "RegistrationTimeout", "Registered"])[:2]
('False', 'RegistrationTimeout')
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from joiner.names import GENERATIONS
from joiner.pools.conditions import Conditions, Status
from joiner.pools.node_claim import NodeClaim

HEALTHY: Final = "NodeRegistrationHealthy"
FIELD: Final = "lastRegistrations"
REGISTERED: Final = "Registered"
"""The outcome of a node that registered; every other outcome is the reason of a failure."""

LAUNCH_FAILED: Final = "LaunchFailed"
"""EC2 refused the launch for a reason that another plan does not change."""

REMEMBERED: Final = 4
FAILURES_OF_UNHEALTHY: Final = 2

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RegistrationOutcome:
    """The outcome of one claim's launch. `generations` are those of its annotation, empty if it has none."""

    outcome: str
    generations: str = ""

    @classmethod
    def of(cls, claim: NodeClaim, outcome: str) -> "RegistrationOutcome":
        """Return the outcome of a claim."""
        return cls(outcome, claim.annotations.get(GENERATIONS, ""))


def format_generations(pool: int, node_class: int) -> str:
    """Return the value of the annotation.

    >>> format_generations(3, 1)
    '3/1'
    """
    return f"{pool}/{node_class}"


def judge_registrations(outcomes: Sequence[str]) -> tuple[Status, str, str]:
    """Return status, reason and message of the condition; `outcomes` are the last ones, oldest first."""
    if not outcomes:
        return "Unknown", "NoRegistrations", "no node was launched since the pool or its class was changed"
    failures = [outcome for outcome in outcomes if outcome != REGISTERED]
    if not failures:
        return "True", REGISTERED, f"{_nodes(outcomes)} registered"
    some = f"{len(failures)} of " if len(outcomes) > 1 else ""
    what = _launches(outcomes) if LAUNCH_FAILED in failures else _nodes(outcomes)
    verb = "gave no registered node" if LAUNCH_FAILED in failures else "did not register"
    message = f"{some}{what} {verb}: {', '.join(failures)}"
    if len(failures) >= FAILURES_OF_UNHEALTHY:
        remedy = "the events of their NodeClaims give the causes and the remedies"
        return "False", failures[-1], f"{message}; {remedy}"
    return ("True", REGISTERED, message) if len(failures) < len(outcomes) else ("Unknown", failures[-1], message)


def _nodes(outcomes: Sequence[str]) -> str:
    return "the last launched node" if len(outcomes) == 1 else f"the last {len(outcomes)} launched nodes"


def _launches(outcomes: Sequence[str]) -> str:
    """Return the same for outcomes of which one has no node: EC2 refused the launch."""
    return "the last launch" if len(outcomes) == 1 else f"the last {len(outcomes)} launches"


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


def add_registrations(
    manifest: Manifest, outcomes: Sequence[RegistrationOutcome], at: datetime
) -> dict[str, Any] | None:
    """Return the merge patch for the status of a NodePool after more outcomes; None if nothing changes.

    Outcomes of other generations of the pool and its class do not count.
    """
    status: Manifest = manifest.get("status") or {}
    generation = int(manifest["metadata"].get("generation") or 0)
    present = format_generations(generation, int(status.get("nodeClassObservedGeneration") or 0))
    of_present = [each.outcome for each in outcomes if each.generations in ("", present)]
    if not of_present:
        return None
    before = reset_registrations(status, generation=generation, class_generation=None)
    after = (*before, *of_present)[-REMEMBERED:]
    known = Conditions.from_kube(status.get("conditions"))
    conditions = with_registration_health(known, after, generation=generation, at=at)
    changes = {"conditions": conditions.to_kube(), FIELD: list(after)}
    if all(status.get(field) == value for field, value in changes.items()):
        return None
    return {"metadata": {"resourceVersion": manifest["metadata"]["resourceVersion"]}, "status": changes}

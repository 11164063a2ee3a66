"""Events of voluntary disruptions: on the node, on its claim, and, for failures, on its pool.

The reasons are Karpenter's. An event with the same news is written once in each slot of ten minutes, those of nodes
that stay (`Unconsolidatable`, `DisruptionBlocked`) once in each slot of 15 minutes, and `DisruptionBlocked` of a pool
once in each slot of two minutes.
"""

from collections.abc import Iterable
from typing import Final

from joiner.cluster import Node, Pod
from joiner.disruption.disruption_candidates import workload_of
from joiner.disruption.proposal import DisruptionAction, KeptNode
from joiner.pools import InvalidManifest, NodeClaim, NodePool
from joiner.reporting.events import Event, Subject

LAUNCHING: Final = "DisruptionLaunching"
INVALID_PROTECTION: Final = "InvalidDoNotDisruptAnnotation"
UNDONE: Final = "DisruptionFailed"

BLOCKED: Final = "DisruptionBlocked"

PODS_SHOWN: Final = 3

KEPT_SLOT_SECONDS: Final = 900
"""As long as Karpenter remembers that a node is `Unconsolidatable`. It remembers `DisruptionBlocked` for two minutes,
which leave out most of its looks every ten seconds, and would leave out none here: there are up to two events of each
node, and looks are minutes apart."""

BLOCKED_POOL_SLOT_SECONDS: Final = 120
"""As long as Karpenter remembers that it reported the pool."""


def report_disruption(claim: NodeClaim, node: Node, action: DisruptionAction) -> list[Event]:
    """Return the events of a node that was chosen for disruption: no more pods are scheduled to it."""
    note = action.message + _destinations(action)
    if action.replacements:
        note += "; its pods stay until the replacements are initialized"
    subjects = (Subject.claim(claim), Subject.node(node))
    reason = LAUNCHING if action.replacements else "DisruptionTerminating"
    return [Event(subject, reason, "Disrupt", note) for subject in subjects]


def _destinations(action: DisruptionAction) -> str:
    """Return where the first pods go; the stored proposal lists all of them."""
    new = {one.name for one in action.replacements}
    shown = [
        f"{pod} to {'a new node' if where in new else where}"
        for pod, where in sorted(action.moves.items())[:PODS_SHOWN]
    ]
    more = len(action.moves) - len(shown)
    return f" ({', '.join(shown)}{f' and {more} more' if more else ''})" if shown else ""


def report_paused(claim: NodeClaim, node: Node | None, reason: str) -> list[Event]:
    """Return the events of a node that takes no pods because its disruption was begun before Joiner was paused."""
    note = (
        f"{reason}: the disruption of this node has begun and waits while Joiner is paused; no pods are scheduled to it"
    )
    subjects = [Subject.claim(claim), *([Subject.node(node)] if node is not None else [])]
    return [Event(subject, "DisruptionPaused", "Disrupt", note, "Warning") for subject in subjects]


def report_undone(claim: NodeClaim, node: Node | None, reason: str, why: str) -> list[Event]:
    """Return the events of a node that stays after all."""
    note = f"{reason}: the node stays, because {why}"
    subjects = [Subject.claim(claim), *([Subject.node(node)] if node is not None else [])]
    return [Event(subject, UNDONE, "Disrupt", note, "Warning") for subject in subjects]


def report_kept(kept: KeptNode, claim: NodeClaim) -> list[Event]:
    """Return the events of a node that stays, on the node and on its claim."""
    subjects = (Subject.claim(claim), Subject("v1", "Node", kept.node, kept.node))
    return [
        Event(subject, kept.condition, "Consolidate", kept.message, news=kept.condition, slot_seconds=KEPT_SLOT_SECONDS)
        for subject in subjects
    ]


def report_blocked_pool(pool: NodePool, reason: str) -> Event:
    """Return the event of a pool whose budgets allow no node for a reason for which some could be disrupted."""
    note = f"The budgets of {pool.key} allow no disruption for the reason {reason} now"
    return Event(Subject.pool(pool), BLOCKED, "Disrupt", note, slot_seconds=BLOCKED_POOL_SLOT_SECONDS)


def report_meaningless_protections(problems: Iterable[InvalidManifest], pods: Iterable[Pod]) -> list[Event]:
    """Return the events of pods whose annotation against disruption has a value without meaning: one for each workload,
    on its first such pod."""
    of_object = {f"Pod/{pod.key}": pod for pod in pods}
    found: dict[str, Event] = {}
    for problem in sorted(problems, key=lambda each: each.object):
        if (pod := of_object.get(problem.object)) is not None:
            note = f"{problem.field} is {str(problem.value)[:64]!r}: {problem.remedy}"
            event = Event(Subject.pod(pod), INVALID_PROTECTION, "Consolidate", note, "Warning")
            found.setdefault(workload_of(pod), event)
    return list(found.values())

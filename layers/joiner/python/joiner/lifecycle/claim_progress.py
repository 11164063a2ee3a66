"""The progress of each claim from its creation to its node: in-flight claims, their pods, and claims that nothing
awaits.

A claim is *entering* while its launch is recorded in the ledger and not yet on the claim. It is *stale* when its lease
expired without a launch: it was never sent, so it may be deleted. It is *unwatched* when it was launched and no
execution awaits its node. A claim that was given up is none of these, unless its node joined late: an execution must
register that node.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from joiner.cluster import Node, Pod
from joiner.lifecycle.failed_claims import failure_reason, may_register_late
from joiner.lifecycle.pod_binding import count_open_slots
from joiner.pools import NodeClaim
from joiner.pools.retiring_nodes import find_marked_nodes, find_retiring_nodes


@dataclass(frozen=True, slots=True)
class Progress:
    """Claims by progress; each tuple is in the order of the claims."""

    on_their_way: tuple[NodeClaim, ...] = ()
    entering: tuple[NodeClaim, ...] = ()
    stale: tuple[NodeClaim, ...] = ()
    unwatched: tuple[NodeClaim, ...] = ()


def assess_progress(
    claims: Iterable[NodeClaim],
    *,
    launching: Collection[str],
    watched: Collection[str],
    lease: int,
    late: Collection[str] = (),
) -> Progress:
    """Return the progress of the claims.

    `launching` names the claims of unrecorded launches, `watched` those of waves that an execution awaits, `late` those
    whose nodes joined late. `lease` is the number under which claims may still be launched; claims that a person
    created (no number) are never stale.
    """
    living = [claim for claim in claims if not claim.deleting]
    mine = [claim for claim in living if not failure_reason(claim)]
    entering = tuple(claim for claim in mine if not claim.launched and claim.name in launching)
    waiting = tuple(claim for claim in mine if claim.launched and not claim.initialized)
    wanting = {claim.name for claim in waiting}.union(late).difference(watched)
    return Progress(
        on_their_way=(*entering, *waiting),
        entering=entering,
        stale=tuple(
            claim for claim in mine if not claim.launched and claim.name not in launching and 0 < claim.lease < lease
        ),
        unwatched=tuple(claim for claim in living if claim.name in wanting),
    )


def find_claims_to_await(
    claims: Collection[NodeClaim], *, own: Collection[str], watched: Collection[str], now: datetime
) -> set[str]:
    """Return the names of the claims whose nodes an execution awaits after its launches.

    These are every in-flight claim and every claim given up recently (a check soon finds those whose nodes exist) that
    no other running execution awaits (`watched`), and the claims that it awaits already (`own`).
    """
    late = {claim.name for claim in claims if may_register_late(claim, now)}
    unwatched = assess_progress(claims, launching=(), watched=watched, lease=0, late=late).unwatched
    return {claim.name for claim in unwatched} | {claim.name for claim in claims if claim.name in own}


def open_assignments(
    on_their_way: Iterable[NodeClaim],
    assignments: Mapping[str, Mapping[str, int]],
    nodes: Iterable[Node],
    pods: Collection[Pod],
) -> dict[str, dict[str, int]]:
    """Return the open slots of each in-flight claim: its assignment minus pods of its classes that run on its node."""
    node_of = {node.provider_id: node.name for node in nodes if node.provider_id}
    bound = [pod for pod in pods if pod.node_name]
    found = {}
    for claim in on_their_way:
        assigned = assignments.get(claim.name, {})
        node = node_of.get(claim.provider_id, "") if claim.provider_id else ""
        found[claim.name] = count_open_slots(node, assigned, bound) if node else dict(assigned)
    return found


def list_uncovered_pods(
    pods: Iterable[Pod],
    assignments: Iterable[Mapping[str, int]],
    *,
    leaving: Collection[str] = (),
    marked: Collection[str] = (),
) -> list[Pod]:
    """Return the pods for which no node is in flight, counted by class: a slot is for a class, not for a pod.

    These are pending pods, and pods that will soon have to leave their node: `leaving` names the nodes that are being
    drained. `marked` names those that wait for the replacements of a disruption. Their pods take the slots that pending
    pods leave, and are not returned: DISRUPT decides what is launched for them.
    """
    slots: dict[str, int] = {}
    for assigned in assignments:
        for key, count in assigned.items():
            slots[key] = slots.get(key, 0) + count
    queues: tuple[list[Pod], list[Pod], list[Pod]] = ([], [], [])
    for pod in pods:
        if pod.provisionable:
            queues[0].append(pod)
        elif pod.moves and pod.node_name in marked:
            queues[1].append(pod)
        elif pod.moves and pod.node_name in leaving:
            queues[2].append(pod)
    found = []
    for pod in chain.from_iterable(queues):
        if slots.get(pod.class_key, 0) > 0:
            slots[pod.class_key] -= 1
        elif pod.node_name not in marked:
            found.append(pod)
    return found


def find_uncovered_pods(
    pods: Iterable[Pod],
    assignments: Iterable[Mapping[str, int]],
    nodes: Collection[Node],
    claims: Collection[NodeClaim],
) -> list[Pod]:
    """Return the pods of `list_uncovered_pods` in a cluster with these nodes and claims."""
    leaving, marked = find_retiring_nodes(nodes, claims), find_marked_nodes(nodes, claims)
    return list_uncovered_pods(pods, assignments, leaving=leaving, marked=marked)

"""The cluster from which outdated nodes are removed on trial, beside other disruptions under way.

The pods of nodes that are marked already have slots on the replacements that boot, or places on nodes that stay. No pod
of a removed node gets these. Until they move, the rules of other pods count them where they run.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from joiner.cluster.taints import DISRUPTED_TAINT
from joiner.disruption.cluster_simulation import as_pending, find_promised_pods
from joiner.disruption.disruption_history import is_overdue
from joiner.disruption.outdated_nodes import OutdatedNode
from joiner.planning import Plan, Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims, with_known_slots

ON_TRIAL: Final = datetime.min.replace(tzinfo=UTC)


def reserve_places(
    snapshot: Snapshot, due: Iterable[OutdatedNode], plan: Callable[[Snapshot], Plan], now: datetime
) -> Snapshot:
    """Return the snapshot in which the pods of marked nodes, and pods that wait, have slots on the nodes where ``plan``
    places them. No place is on a node that is ``due``; a pod that would need a new node has none.

    Claims whose nodes are overdue have no further room: nobody knows when their nodes come.
    """
    known = with_known_slots(snapshot)
    overdue = frozenset(claim.name for claim in snapshot.claims if is_overdue(claim, now))
    promised = find_promised_pods(known)
    if not (promised or overdue):
        return known
    made = plan(_with_pending(_close(known, {one.node.name for one in due}), promised))
    joined = nodes_of_claims(snapshot)
    hosts = {joined[claim.key].name if claim.key in joined else claim.name: claim.key for claim in snapshot.claims}
    slots = {key: list(pods) for key, pods in (known.slots or {}).items()}
    for one in made.existing:
        host = one.node or one.claim
        slots.setdefault(hosts.get(host, host), []).extend(one.pods)
    return replace(known, slots=slots, unwritten=known.unwritten | overdue)


def _close(snapshot: Snapshot, names: Collection[str]) -> Snapshot:
    """Return the snapshot in which these nodes accept no pods."""
    nodes = (
        replace(node, taints=(*node.taints, DISRUPTED_TAINT)) if node.name in names else node for node in snapshot.nodes
    )
    return replace(snapshot, nodes=tuple(nodes))


def _with_pending(snapshot: Snapshot, moving: Collection[str]) -> Snapshot:
    """Return the snapshot in which these pods (by key) wait for a node."""
    return replace(snapshot, pods=tuple(as_pending(pod) if pod.key in moving else pod for pod in snapshot.pods))


def remove_on_trial(snapshot: Snapshot, removed: Collection[OutdatedNode]) -> Snapshot:
    """Return the snapshot with these nodes closed, their claims deleted, and their pods pending.

    The nodes still count against the limits of their pools, because they run until their replacements do. They are no
    replicas of static pools any more, as those would be that are only marked.
    """
    nodes, pods = {one.node.name for one in removed}, {pod.key for one in removed for pod in one.pods}
    claims = {one.claim.key for one in removed}
    return replace(
        _with_pending(_close(snapshot, nodes), pods),
        claims=tuple(
            replace(claim, deletion=claim.deletion or ON_TRIAL) if claim.key in claims else claim
            for claim in snapshot.claims
        ),
    )

"""DISRUPT over fakes, step by step: nodes are marked under the lease, and disruptions are settled."""

from collections.abc import Callable, Collection
from typing import Any

from functions.mark_nodes import handler as mark_nodes
from functions.settle_disruptions import handler as settle_disruptions
from joiner.adapters import documents
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.kube_errors import Unreachable
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.cluster import Requirements, Resources
from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.names import DISRUPTED
from joiner.planning import Offer, PlannedNode
from joiner.pools import read_node_claim
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLUSTER

NAME = "disrupt-20261121T120000-sweep"
ARN = f"arn:aws:states:us-east-1:123456789012:execution:joiner-disrupt-demo:{NAME}"
REMOVED = DisruptionAction("Underutilized", ("default-1",), moves={"default/web-1": "node-2"}, saving_per_hour=0.096)


def task(lease: int = 1) -> Task:
    return Task(Execution(NAME, ARN, ""), CLUSTER, lease, 2)


def records(cluster: SimulatedCluster) -> Disruptions:
    return Disruptions(cluster.ledger._client, cluster.ledger._table)


def hold_lease(cluster: SimulatedCluster) -> int:
    """Take the lease as the state machine does; return the number of rings."""
    values = {":me": ARN, ":until": int(cluster.now.timestamp()) + 120, ":one": 1, ":none": 0}
    update = "SET holder = :me, leaseUntil = :until ADD leaseNumber :one, rings :none"
    cluster.machine._update("LEASE", "scale-up", update, values)
    return cluster.machine.lease().rings


def planned(name: str = "n1") -> PlannedNode:
    offer, nothing = Offer(0.048, "m5.small", "us-east-1a", "on-demand"), Resources()
    return PlannedNode(
        name=name,
        pool="NodePool/default",
        offer=offer,
        alternatives=(offer,),
        labels={},
        taints=(),
        startup_taints=(),
        requirements=Requirements(),
        requests=nothing,
        daemon_overhead=nothing,
        capacity=nothing,
        allocatable=nothing,
        pods=(),
        classes={},
    )


def marked(
    cluster: SimulatedCluster, *actions: DisruptionAction, rings: int = 0, again: bool = False
) -> dict[str, Any]:
    """Mark the nodes of these actions under the lease; `again` under the same one, as a further attempt does."""
    key = documents.put_proposal(cluster.store, task(), Proposal(actions))
    if not again:
        hold_lease(cluster)
    parts = (cluster.kube, cluster.ledger, records(cluster), EmptyNodes(cluster.ledger._client, cluster.ledger._table))
    answer: dict[str, Any] = mark_nodes.NodeMarking(*parts, cluster.store).answer(
        task(), key, rings, cluster.now, int(cluster.now.timestamp()) + 90
    )
    return answer


def settled(
    cluster: SimulatedCluster, *, left: Collection[str] = ("",), written: bool = True, paused: bool = False
) -> dict[str, Any]:
    """Settle the disruptions of this execution, of those that ended (`left`), and unreadable ones; `written` if the
    execution has written the claims of the replacements, `paused` if Joiner was paused meanwhile."""
    retirements = Retirements(cluster.ledger._client, cluster.ledger._table)
    answer: dict[str, Any] = settle_disruptions.DisruptionSettling(
        cluster.kube, cluster.ledger, records(cluster), retirements
    ).answer(task(0), cluster.now, left=left, written=written, paused=paused)
    return answer


def is_tainted(cluster: SimulatedCluster, node: str) -> bool:
    taints = cluster.kube.objects["nodes", "", node]["spec"].get("taints") or []
    return any(taint["key"] == DISRUPTED for taint in taints)


def reason_of(cluster: SimulatedCluster, claim: str) -> str:
    return read_node_claim(cluster.kube.objects["nodeclaims", "", claim]).conditions["DisruptionReason"].reason


def failing_from(number: int) -> Callable[[str, str, Callable[[], dict[str, Any]]], dict[str, Any]]:
    """A fault: the answers to this call of the API server and to all that follow are lost; reads are not done."""
    calls = 0

    def fails(method: str, _path: str, answer: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls < number:
            return answer()
        if method == "PATCH":
            answer()
        raise Unreachable("as the test says")

    return fails


def event_reasons(cluster: SimulatedCluster) -> set[tuple[str, str]]:
    """Return the reason of each event, and the kind of its object."""
    return {(each["reason"], each["regarding"]["kind"]) for each in cluster.kube.all(kinds.EVENTS)}

"""Empty nodes in a proposal: which are removed, which stay and why, within the budgets."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from joiner.catalogue import Catalogue
from joiner.disruption import consolidation
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.disruption.wave_choice import confirm
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, daemon_pod
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json, node_pool, running

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANY_NUMBER = {"budgets": [{"nodes": "100%"}]}


def proposed(
    lists: Mapping[str, Sequence[Json]], history: DisruptionHistory | None = None, *, now: datetime = NOW
) -> Proposal:
    return consolidation.propose(
        Snapshot.from_lists(lists),
        Catalogue.from_json(CATALOGUE),
        classes=CLASSES,
        now=now,
        history=history or DisruptionHistory(),
    )


def cluster(*nodes: tuple[Json, Json], **more: Any) -> dict[str, Sequence[Json]]:
    return {
        "nodepools": [node_pool(disruption=ANY_NUMBER)],
        "nodeclaims": [claim for claim, _ in nodes],
        "nodes": [node for _, node in nodes],
        **more,
    }


def removed(proposal: Proposal) -> list[str]:
    return [" ".join(action.claims) for action in proposal.actions]


def kept(proposal: Proposal) -> list[str]:
    return [f"{one.node}: {one.condition}: {one.message}" for one in proposal.kept]


def test_nodes_with_daemon_pods_only_are_removed_the_most_expensive_first() -> None:
    small, large = claim_and_node("small", kind="s.large"), claim_and_node("large", kind="m.xlarge")
    proposal = proposed(cluster(small, large, pods=[daemon_pod("agent", "node-small")]))

    assert removed(proposal) == ["large", "small"]
    assert [action.message for action in proposal.actions] == [
        "Empty: removes 1 node, saves $0.19/h, moves 0 pods",
        "Empty: removes 1 node, saves $0.08/h, moves 0 pods",
    ]
    assert kept(proposal) == []


def test_the_budget_of_the_pool_postpones_empty_nodes() -> None:
    nodes = [claim_and_node(name) for name in ("a", "b", "c")]
    lists = cluster(*nodes, nodepools=[node_pool(disruption={"budgets": [{"nodes": "2", "reasons": ["Empty"]}]})])

    proposal = proposed(lists)

    assert removed(proposal) == ["a", "b"]
    assert proposal.remaining == 1


def test_a_leaving_node_counts_against_the_budget() -> None:
    nodes = [claim_and_node(name) for name in ("a", "b")]
    lists = cluster(*nodes, nodepools=[node_pool(disruption={"budgets": [{"nodes": "1"}]})])

    assert removed(proposed(lists, DisruptionHistory(disrupting={"b"}))) == []


def test_annotations_and_an_unfinished_start_keep_empty_nodes() -> None:
    lists = cluster(
        claim_and_node("annotated", annotations={"karpenter.sh/do-not-disrupt": "true"}),
        claim_and_node("starting", initialized=False),
        claim_and_node("nominated"),
        pods=[{**running("next", ""), "status": {"phase": "Pending", "nominatedNodeName": "node-nominated"}}],
    )

    proposal = proposed(lists)

    assert removed(proposal) == []
    assert kept(proposal) == [
        "node-annotated: DisruptionBlocked: the node has the annotation karpenter.sh/do-not-disrupt",
        "node-nominated: DisruptionBlocked: it is nominated for a pending pod",
        "node-starting: DisruptionBlocked: it is not initialized",
    ]


def test_nothing_is_removed_from_a_pool_that_cannot_launch_another_node() -> None:
    closed = DisruptionHistory(closed_pools={"NodePool/default": "its class EC2NodeClass/default is not ready"})

    proposal = proposed(cluster(claim_and_node("a")), closed)

    assert removed(proposal) == []
    assert kept(proposal) == [
        "node-a: DisruptionBlocked: NodePool/default cannot launch a node: its class EC2NodeClass/default is not ready"
    ]


def test_consolidate_after_counts_from_the_last_pod_event_or_from_the_initialization() -> None:
    pool = node_pool(disruption={**ANY_NUMBER, "consolidateAfter": "5m"})
    lists = cluster(claim_and_node("a", initialized_at="2026-11-21T11:50:00Z"), nodepools=[pool])
    minute = timedelta(minutes=1)

    assert removed(proposed(lists)) == ["a"]
    assert removed(proposed(lists, DisruptionHistory(pod_events={"NodeClaim/a": NOW - 4 * minute}))) == []
    assert removed(proposed(lists, DisruptionHistory(pod_events={"NodeClaim/a": NOW - 5 * minute}))) == ["a"]


def test_a_pool_that_never_consolidates_keeps_its_empty_nodes() -> None:
    lists = cluster(claim_and_node("a"), nodepools=[node_pool(disruption={"consolidateAfter": "Never"})])

    proposal = proposed(lists)

    assert removed(proposal) == []
    assert kept(proposal) == ["node-a: Unconsolidatable: consolidation of NodePool/default is disabled"]


def test_a_proposal_survives_its_json() -> None:
    odd = running("odd", "node-a")
    odd["metadata"] |= {"annotations": {"karpenter.sh/do-not-disrupt": "later"}}
    proposal = proposed(cluster(claim_and_node("a"), claim_and_node("b"), pods=[odd]))

    assert [str(one) for one in proposal.problems] == [
        "Pod/default/odd: metadata.annotations[karpenter.sh/do-not-disrupt] is later: "
        'write "true", or a duration from the start of the pod such as "1h30m"; it has no effect now'
    ]
    assert Proposal.from_json(proposal.to_json()) == proposal


def test_an_action_that_is_not_proposed_again_is_dropped() -> None:
    before = proposed(cluster(claim_and_node("a"), claim_and_node("b")))
    now_used = cluster(claim_and_node("a"), claim_and_node("b", annotations={"karpenter.sh/do-not-disrupt": "true"}))

    after = confirm(before, proposed(now_used))

    assert removed(before) == ["a", "b"]
    assert removed(after) == ["a"]

"""Drifted and expired nodes: which are replaced in a wave, by what, and why the others stay."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import Catalogue
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.proposal import Proposal
from joiner.disruption.replacements import propose_replacements
from joiner.planning import Snapshot
from joiner.pools import NodeClaim, NodeClassRef, NodePool
from joiner.pools.disruption_settings import DisruptionSettings, ExpirationSettings
from joiner.pools.expiration import expires_at, replaced_at
from joiner.pools.node_pool import Disruption
from joiner.pools.timestamps import format_timestamp
from tests.unit.disruption.initialized_nodes import claim_and_node, daemon_pod, replica
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, Json, node_pool

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANY_NUMBER = {"budgets": [{"nodes": "100%"}]}
AMD64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
KEPT_POD = {"karpenter.sh/do-not-disrupt": "true"}


def ago(hours: float) -> str:
    return format_timestamp(NOW - timedelta(hours=hours))


def machine(
    name: str, *, drifted: float | None = None, age: float = 24, spec: Mapping[str, Any] | None = None, **fields: Any
) -> tuple[Json, Json]:
    """Return claim and node; `drifted` and `age` in hours."""
    claim, node = claim_and_node(name, initialized_at=ago(age), **fields)
    conditions = list(claim["status"]["conditions"])
    if drifted is not None:
        drift = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": ago(drifted)}
        conditions.append(drift)
    return {
        **claim,
        "spec": {**claim["spec"], "expireAfter": "720h", **(spec or {})},
        "status": {**claim["status"], "conditions": conditions},
    }, node


def pool(annotations: Mapping[str, str] | None = None, **fields: Any) -> Json:
    made = node_pool(**{"disruption": ANY_NUMBER, "requirements": [AMD64, ON_DEMAND], **fields})
    return {**made, "metadata": {**made["metadata"], "annotations": dict(annotations or {})}}


def proposed(
    *nodes: tuple[Json, Json],
    pools: Sequence[Json] = (),
    history: DisruptionHistory | None = None,
    now: datetime = NOW,
    **more: Any,
) -> Proposal:
    reference = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}}
    lists = {
        "nodepools": pools or [pool()],
        "nodeclaims": [claim for claim, _ in nodes],
        "nodes": [node for _, node in nodes],
        "ec2nodeclasses": [reference],
        **more,
    }
    return propose_replacements(
        Snapshot.from_lists(lists),
        Catalogue.from_json(CATALOGUE),
        classes=CLASSES,
        now=now,
        history=history or DisruptionHistory(),
    )


def going(proposal: Proposal) -> list[tuple[str, str, int]]:
    """Return reason, claims and the number of replacements of each action."""
    return [(one.reason, " ".join(one.claims), len(one.replacements)) for one in proposal.actions]


def kept(proposal: Proposal) -> list[str]:
    return [f"{one.claim}: {one.message}" for one in proposal.kept]


def big(name: str, where: str, **fields: Any) -> Json:
    """Return a pod that needs a node for itself."""
    return replica(name, where, **{"cpu": "1700m", "memory": "3Gi", **fields})


def test_a_drifted_node_is_replaced_before_it_goes_and_its_pods_have_a_place_each() -> None:
    proposal = proposed(
        machine("old", drifted=2), machine("new"), pods=[big("web-0", "node-old"), big("db-0", "node-new")]
    )

    assert going(proposal) == [("Drifted", "old", 1)]
    action = proposal.actions[0]
    assert action.moves == {"default/web-0": action.replacements[0].name}
    assert action.replacements[0].pods == ("default/web-0",)
    assert action.message == "Drifted: removes 1 node, launches 1 first (s.large), saves $0.00/h, moves 1 pod"
    assert kept(proposal) == []


def test_pods_that_fit_on_other_nodes_need_no_replacement() -> None:
    proposal = proposed(machine("old", drifted=2), machine("new"), pods=[replica("web-0", "node-old", cpu="100m")])

    assert going(proposal) == [("Drifted", "old", 0)]
    assert proposal.actions[0].moves == {"default/web-0": "node-new"}


def test_nodes_without_pods_go_first_then_the_oldest_drift() -> None:
    proposal = proposed(
        machine("young", drifted=1),
        machine("old", drifted=3),
        machine("empty", drifted=0.5),
        pods=[big("a", "node-young"), big("b", "node-old"), daemon_pod("agent", "node-empty")],
    )

    assert going(proposal) == [("Drifted", "empty", 0), ("Drifted", "old", 1), ("Drifted", "young", 1)]


def test_the_budget_for_drift_limits_a_wave_and_the_rest_is_counted() -> None:
    budgets = {"budgets": [{"nodes": "2", "reasons": ["Drifted"]}, {"nodes": "0", "reasons": ["Empty"]}]}
    nodes = [machine(name, drifted=hours) for name, hours in (("a", 4), ("b", 3), ("c", 2), ("d", 1))]
    pods = [big(f"pod-{name}", f"node-{name}") for name in "abcd"]

    proposal = proposed(*nodes, pools=[pool(disruption=budgets)], pods=pods)
    assert (going(proposal), proposal.remaining) == ([("Drifted", "a", 1), ("Drifted", "b", 1)], 2)
    one_leaves = DisruptionHistory(disrupting={"a"})
    assert going(proposed(*nodes, pools=[pool(disruption=budgets)], pods=pods, history=one_leaves)) == [
        ("Drifted", "b", 1)
    ]
    none = proposed(*nodes, pools=[pool(disruption={"budgets": [{"nodes": "0"}]})], pods=pods)
    assert (going(none), none.remaining) == ([], 4)
    assert kept(none)[0] == "a: it is drifted (AMIDrift), and the budgets of NodePool/default allow no disruption now"


def test_a_drifted_node_of_a_static_pool_gets_a_replacement_also_without_pods() -> None:
    fixed = pool(replicas=2)

    proposal = proposed(machine("old", drifted=2), machine("new"), pools=[fixed])
    assert going(proposal) == [("Drifted", "old", 1)]
    assert proposal.actions[0].replacements[0].pool == "NodePool/default"


def test_a_static_pool_at_its_limit_loses_a_drifted_node_before_another_is_launched() -> None:
    proposal = proposed(machine("old", drifted=2), machine("new"), pools=[pool(replicas=2, limits={"nodes": "2"})])

    assert going(proposal) == [("Drifted", "old", 0)]


def test_a_node_whose_pod_fits_nowhere_starves_no_other_node() -> None:
    one = {"budgets": [{"nodes": "1"}]}
    stuck = big("stuck", "node-a", nodeSelector={"disk": "of-another-age"})

    proposal = proposed(
        machine("a", drifted=9),
        machine("b", drifted=1),
        pools=[pool(disruption=one)],
        pods=[stuck, big("web", "node-b")],
    )
    assert going(proposal) == [("Drifted", "b", 1)]
    assert [line.partition(" (default")[0] for line in kept(proposal)] == [
        "a: it is drifted (AMIDrift), and pod default/stuck fits nowhere else"
    ]


def test_pods_block_a_node_unless_its_claim_has_a_termination_grace_period() -> None:
    protected = big("job", "node-a")
    protected["metadata"]["annotations"] = KEPT_POD
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    limited = {"terminationGracePeriod": "1h"}

    def at(spec: Mapping[str, Any], **more: Any) -> Proposal:
        return proposed(machine("a", drifted=1, spec=spec), **more)

    assert kept(at({}, pods=[protected])) == [
        "a: it is drifted (AMIDrift), and pod default/job has the annotation karpenter.sh/do-not-disrupt"
    ]
    assert going(at(limited, pods=[protected])) == [("Drifted", "a", 1)]
    guarded = {"pods": [big("web-0", "node-a")], "poddisruptionbudgets": [budget]}
    assert kept(at({}, **guarded)) == [
        "a: it is drifted (AMIDrift), and PodDisruptionBudget default/web allows no eviction of pod default/web-0"
    ]
    assert going(at(limited, **guarded)) == [("Drifted", "a", 1)]


def test_an_annotation_on_the_node_blocks_in_any_case() -> None:
    node = machine("a", drifted=1, annotations=KEPT_POD, spec={"terminationGracePeriod": "1h"})

    assert kept(proposed(node)) == [
        "a: it is drifted (AMIDrift), and the node has the annotation karpenter.sh/do-not-disrupt"
    ]


def test_a_wave_stays_within_what_a_pod_disruption_budget_allows_together() -> None:
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1},
    }
    nodes, pods = [machine("a", drifted=2), machine("b", drifted=1)], [big("a", "node-a"), big("b", "node-b")]

    assert going(proposed(*nodes, pods=pods, poddisruptionbudgets=[budget])) == [("Drifted", "a", 1)]


def test_a_pool_may_only_detect_drift() -> None:
    detecting = pool({"joiner.dev/drift": "detect"})

    assert going(proposed(machine("a", drifted=1), pools=[detecting])) == []


def test_nodes_that_leave_and_nodes_that_are_not_drifted_are_left_alone() -> None:
    leaving, node = machine("a", drifted=1)
    gone = {**leaving, "metadata": {**leaving["metadata"], "deletionTimestamp": ago(0.1)}}

    assert proposed((gone, node), machine("b")) == Proposal(price_per_hour=0.08)
    assert going(proposed((leaving, node), history=DisruptionHistory(disrupting={"a"}))) == []


def test_nodes_that_share_a_replacement_are_one_action() -> None:
    small = [machine("a", drifted=2), machine("b", drifted=1)]
    pods = [replica(f"{name}{number}", f"node-{name}", cpu="800m", memory="1Gi") for name in "ab" for number in (1, 2)]

    proposal = proposed(*small, pods=pods)
    placed = [set(one.moves.values()) for one in proposal.actions]
    new = [{node.name for node in one.replacements} for one in proposal.actions]
    assert placed == new
    assert all(not (first & second) for first in new for second in new if first is not second)


# Canaries, failed joins and back-off


CAREFUL = {"joiner.dev/drift-canary": "1", "joiner.dev/drift-canary-time": "10m"}


def careful(*more: tuple[Json, Json], now: datetime = NOW, **fields: Any) -> Proposal:
    nodes = [machine(name, drifted=1) for name in "abc"]
    pods = [big(f"pod-{name}", f"node-{name}") for name in "abc"]
    return proposed(*nodes, *more, pools=[pool(CAREFUL)], pods=pods, now=now, **fields)


def test_only_the_canaries_are_replaced_until_they_have_been_healthy_for_the_pools_time() -> None:
    assert going(careful()) == [("Drifted", "a", 1)]

    canary = machine("canary", age=0.1)
    young = careful(canary)
    assert going(young) == []
    assert kept(young)[0].endswith("NodePool/default waits for its canaries: new nodes that stay healthy")
    assert len(going(careful(canary, now=NOW + timedelta(minutes=4)))) == 3
    assert going(careful(history=DisruptionHistory(disrupting={"a"}))) == []


def test_a_canary_that_is_not_ready_any_more_stops_the_rest() -> None:
    claim, node = machine("canary", age=0.5)
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": ago(0.2)}]
    sick = {**node, "status": {**node["status"], "conditions": conditions}}

    assert len(going(careful((claim, node)))) == 3
    assert going(careful((claim, sick))) == []


def test_a_node_from_before_the_drift_is_no_canary() -> None:
    full = machine("steady", age=24)
    nodes, pods = [machine(name, drifted=1) for name in "abc"], [big(f"pod-{name}", f"node-{name}") for name in "abc"]

    proposal = proposed(*nodes, full, pools=[pool(CAREFUL)], pods=[*pods, big("pod-s", "node-steady")])
    assert going(proposal) == [("Drifted", "a", 1)]


def test_a_failed_join_or_a_failed_replacement_pauses_the_pool_and_no_other() -> None:
    claim, _ = machine("failed", age=0.5)
    lost = {"type": "Registered", "status": "False", "reason": "RegistrationTimeout", "lastTransitionTime": ago(0.2)}
    failed = {**claim, "status": {"conditions": [claim["status"]["conditions"][0], lost]}}
    nodes = [machine("a", drifted=1), machine("b", drifted=1, pool="other")]
    pools = [pool(), pool(name="other")]

    stopped = proposed(*nodes, pools=pools, nodeclaims=[failed, nodes[0][0], nodes[1][0]])
    assert going(stopped) == [("Drifted", "b", 0)]
    assert kept(stopped) == [
        "a: it is drifted (AMIDrift), and the node of failed did not join, or did not become ready: NodePool/default "
        "waits until that claim is gone, or for an hour if its node joined"
    ]
    waiting = DisruptionHistory(back_off={"NodePool/default": NOW + timedelta(minutes=2)})
    rested = proposed(*nodes, pools=pools, history=waiting)
    assert going(rested) == [("Drifted", "b", 0)]
    assert kept(rested) == [
        "a: it is drifted (AMIDrift), and replacements failed: NodePool/default waits until 2026-11-21T12:02:00Z"
    ]


# Graceful expiration


GRACEFUL = {"joiner.dev/expiration": "graceful"}


def test_an_expired_node_of_a_graceful_pool_is_replaced_within_the_budget() -> None:
    budgets = {"budgets": [{"nodes": "1", "reasons": ["Drifted"]}]}
    nodes = [machine("a", age=721), machine("b", age=722), machine("c", age=600)]
    pods = [big(f"pod-{name}", f"node-{name}") for name in "abc"]

    graceful = proposed(*nodes, pools=[pool(GRACEFUL, disruption=budgets)], pods=pods)
    assert len(graceful.actions) == 1
    assert going(graceful)[0][0] == "Expired"
    assert going(graceful)[0][1] in "ab"
    assert going(graceful)[0][2] == 1
    assert going(proposed(*nodes, pods=pods)) == []


def graceful_pool(spread: int) -> NodePool:
    settings = DisruptionSettings(expiration=ExpirationSettings(graceful=True, spread=spread))
    return NodePool("default", NodeClassRef("EC2NodeClass", "default"), disruption=Disruption(settings=settings))


@given(hours=st.integers(1, 2000), spread=st.integers(0, 100), uid=st.text(min_size=1))
def test_a_node_is_due_within_the_spread_of_its_time_and_never_later(hours: int, spread: int, uid: str) -> None:
    claim = NodeClaim(
        "a", NodeClassRef("EC2NodeClass", "default"), pool="default", uid=uid, created=NOW, expire_after=hours * 3600
    )
    end, due = expires_at(claim, None), replaced_at(claim, graceful_pool(spread))

    assert end == NOW + timedelta(hours=hours)
    assert due is not None
    earliest = end - timedelta(hours=hours) * (spread / 100)
    assert earliest - timedelta(seconds=1) <= due <= end


def test_nodes_that_were_born_together_are_due_at_different_times() -> None:
    ref = NodeClassRef("EC2NodeClass", "default")
    born = [
        NodeClaim(f"n{number}", ref, uid=f"uid-{number}", created=NOW, expire_after=720 * 3600) for number in range(200)
    ]
    due = [replaced_at(each, graceful_pool(10)) for each in born]

    by_day = [
        sum(one is not None and (NOW + timedelta(hours=720) - one).days == day for one in due) for day in range(3)
    ]
    assert sum(by_day) == 200
    assert all(50 <= number <= 85 for number in by_day)
    assert {replaced_at(each, graceful_pool(0)) for each in born} == {NOW + timedelta(hours=720)}


def test_no_drifted_node_is_replaced_while_its_pool_cannot_launch() -> None:
    closed = DisruptionHistory(closed_pools={"NodePool/default": "its class EC2NodeClass/default is being deleted"})

    proposal = proposed(machine("old", drifted=2), history=closed)

    assert going(proposal) == []
    assert kept(proposal) == [
        "old: it is drifted (AMIDrift), and NodePool/default cannot launch a node: "
        "its class EC2NodeClass/default is being deleted"
    ]


def recommended(*claims: str) -> DisruptionHistory:
    return DisruptionHistory(recommended=dict.fromkeys(claims, int(NOW.timestamp())))


def test_a_recommended_node_is_replaced_first_in_another_offering_if_its_pool_asks_for_it() -> None:
    spot = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
    nodes = [machine("old", drifted=9), machine("risky", capacity_type="spot")]
    pods = [big("web-0", "node-old"), big("db-0", "node-risky")]

    def made(annotations: Mapping[str, str], history: DisruptionHistory) -> Proposal:
        pools = [pool(annotations, requirements=[AMD64, spot])]
        return proposed(*nodes, pools=pools, history=history, pods=pods)

    drift = ("Drifted", "old", 1)
    following = {"joiner.dev/rebalance": "replace"}
    assert going(made({}, recommended("risky"))) == [drift]
    assert going(made({"joiner.dev/rebalance": "drain"}, recommended("risky"))) == [drift]
    assert going(made(following, DisruptionHistory())) == [drift]
    proposal = made(following, recommended("risky"))
    assert going(proposal) == [("Rebalance", "risky", 1), drift]
    launched = [(one.offer.instance_type, one.zone) for action in proposal.actions for one in action.replacements]
    assert ("s.large", "us-test-1a") not in launched, "the offering of the instance at risk is not used"
    assert proposal.actions[0].message.startswith("Rebalance: removes 1 node, launches 1 first (")


def test_budgets_and_annotations_hold_for_recommended_nodes_as_for_drifted_ones() -> None:
    following = {"joiner.dev/rebalance": "replace"}
    none = {"budgets": [{"nodes": "0"}]}
    of_drift = {"budgets": [{"nodes": "0", "reasons": ["Drifted"]}]}
    risky = machine("risky", capacity_type="spot", annotations=KEPT_POD)

    def reasons(disruption: Json, node: tuple[Json, Json]) -> list[str]:
        pools = [pool(following, disruption=disruption)]
        return [one.reason for one in proposed(node, pools=pools, history=recommended("risky")).actions]

    free = machine("risky", capacity_type="spot")
    assert (reasons(none, free), reasons(of_drift, free), reasons(ANY_NUMBER, risky)) == ([], ["Rebalance"], [])
    assert reasons(ANY_NUMBER, free) == ["Rebalance"]

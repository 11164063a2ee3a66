"""When the cluster is surveyed for nodes to disrupt: after a change that matters, and otherwise less and less often."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from joiner.adapters.disruption_items import LastProposal
from joiner.cluster import Node, Pod, Taint
from joiner.disruption.selected_labels import find_selected_labels
from joiner.disruption.survey_digest import describe_nodes, digest_for_disruption, is_survey_due
from joiner.pools import NodeClaim, NodeClassRef, NodePool
from joiner.pools.consolidation_limits import ConsolidationLimits
from joiner.pools.disruption_settings import DisruptionSettings, DriftSettings, ExpirationSettings
from joiner.pools.node_pool import Disruption, DisruptionBudget

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POOL = NodePool(
    "default",
    NodeClassRef("EC2NodeClass", "default"),
    disruption=Disruption("WhenEmptyOrUnderutilized", 60, (DisruptionBudget("10%"),)),
)
CLAIM = NodeClaim("default-a", POOL.class_ref, pool="default").with_condition("Initialized", "True", at=NOON)
NODE = Node("node-a", ready=True)
WEB = Pod("shop", "web-0", node_name="node-a", owner_kind="ReplicaSet", owner_name="web")
LATER = NOON + timedelta(minutes=5)


def digest(
    *,
    claim: NodeClaim = CLAIM,
    node: Node = NODE,
    pods: Sequence[Pod] = (WEB,),
    pool: NodePool = POOL,
    budgets: Sequence[Mapping[str, Any]] = (),
    declared: Mapping[str, Sequence[Mapping[str, Any]]] = MappingProxyType({}),
    unmanaged: Sequence[Node] = (),
    events: Mapping[str, datetime] = MappingProxyType({}),
    recommended: Sequence[str] = (),
    closed: Sequence[str] = (),
    buffers: str = "",
    addresses: str = "",
    now: datetime = LATER,
) -> str:
    lists = {"poddisruptionbudgets": budgets, **declared}
    selected = find_selected_labels(pods, lists)
    nodes, pools = {claim.key: node}, {pool.key: pool}
    return digest_for_disruption(
        lists,
        [claim],
        nodes,
        {node.name: pods},
        pools,
        events=events,
        recommended=recommended,
        selected=selected,
        parts_beside=(",".join(closed), buffers, addresses, describe_nodes(unmanaged, selected)),
        now=now,
    )


def budget(allowed: int) -> Mapping[str, Any]:
    return {"metadata": {"name": "web", "namespace": "shop"}, "status": {"disruptionsAllowed": allowed}}


def generation(number: int, **status: Any) -> Mapping[str, Any]:
    return {"metadata": {"name": "agent", "namespace": "infra", "generation": number}, "status": status}


@pytest.mark.parametrize("plural", ["nodeoverlays", "daemonsets"])
def test_what_users_declare_changes_the_digest_by_its_generation(plural: str) -> None:
    first, reported, second = (
        digest(declared={plural: (each,)}) for each in (generation(1), generation(1, numberReady=3), generation(2))
    )

    assert first == reported != second


def test_the_end_of_a_limit_of_the_last_survey_starts_a_survey_although_nothing_changes() -> None:
    due = [is_survey_due("a", "a", 900, 1, now, limits_end=960) for now in (931, 959, 960, 1000)]

    assert due == [False, False, True, True]
    assert not is_survey_due("a", "a", 900, 9, 1000, limits_end=960), "busy clusters are surveyed each five minutes"
    assert not is_survey_due("", "a", 900, 1, 1000, limits_end=960)


def test_after_the_end_of_a_limit_the_same_digest_waits_no_longer_than_after_a_change() -> None:
    last = LastProposal("a", 0, 9, repeated=3, limits_end=600)

    before, ended, again = (last.followed_by("a", now, reason="") for now in (599, 600, 660))
    later = ended.followed_by("a", 1200, reason="")

    assert [one.repeated for one in (before, ended, again, later)] == [4, 0, 0, 1]
    assert [one.idle for one in (before, ended)] == [10, 10]


@pytest.mark.parametrize("key", ["karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-consolidate"])
def test_an_annotation_that_protects_a_node_changes_the_digest(key: str) -> None:
    assert digest(node=replace(NODE, annotations={key: "true"})) != digest()
    assert digest(claim=replace(CLAIM, annotations={key: "true"})) != digest()


def test_a_cluster_at_rest_has_the_same_digest_at_any_time() -> None:
    assert digest() == digest(now=LATER + timedelta(days=1)) != ""


def test_no_node_that_may_be_disrupted_means_no_survey() -> None:
    assert digest(now=NOON + timedelta(seconds=59)) == ""
    assert digest(claim=replace(CLAIM, deletion=NOON)) == ""
    assert digest(node=replace(NODE, taints=(Taint("karpenter.sh/disrupted", "NoSchedule"),))) == ""


@pytest.mark.parametrize(
    "changed",
    [
        {"pods": ()},
        {"pods": (WEB, replace(WEB, name="web-1"))},
        {"pods": (replace(WEB, protection="true"),)},
        {"node": replace(NODE, ready=False)},
        {"node": replace(NODE, annotations={"karpenter.sh/do-not-disrupt": "true"})},
        {"budgets": (budget(1),)},
        {"pool": replace(POOL, disruption=replace(POOL.disruption, budgets=(DisruptionBudget("0"),)))},
        {"claim": CLAIM.with_condition("Drifted", "True", at=NOON)},
        {"buffers": "of other buffers"},
        {"addresses": "EC2NodeClass/default/us-east-1a/8"},
        {"declared": {"nodeoverlays": (generation(2),)}},
        {"declared": {"daemonsets": (generation(2),)}},
        {"declared": {"ec2nodeclasses": (generation(2),)}},
        {"node": replace(NODE, labels={"topology.kubernetes.io/zone": "us-east-1b"})},
        {"node": replace(NODE, taints=(Taint("dedicated", "NoSchedule", "db"),))},
        {"unmanaged": (Node("system-1", ready=True),)},
    ],
    ids=[
        "pod gone",
        "pod more",
        "pod protected",
        "not ready",
        "do-not-disrupt",
        "PDB",
        "budget",
        "drifted",
        "buffers",
        "free addresses",
        "NodeOverlay",
        "DaemonSet",
        "node class",
        "labels of a node",
        "taints of a node",
        "node without a claim",
    ],
)
def test_what_decides_changes_the_digest(changed: dict[str, Any]) -> None:
    assert digest(**changed) not in ("", digest())


EXPRESSION = {"key": "example.com/disk", "operator": "In", "values": ["ssd"]}
NODE_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}
    }
}
PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [EXPRESSION]}}
        ]
    }
}
SPREAD = {"topologyKey": "example.com/disk", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
NEAR = {"topologyKey": "example.com/disk", "labelSelector": {}}


def described(**spec: Any) -> Mapping[str, Any]:
    return {"metadata": {"name": "one", "namespace": "infra"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "declared"),
    [
        ({"nodeSelector": {"example.com/disk": "ssd"}}, {}),
        ({"affinity": NODE_AFFINITY}, {}),
        ({"affinity": PREFERRED}, {}),
        ({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR]}}}, {}),
        ({"topologySpreadConstraints": [SPREAD]}, {}),
        ({}, {"daemonsets": [described(template={"spec": {"nodeSelector": {"example.com/disk": "ssd"}}})]}),
        ({}, {"nodepools": [described(template={"spec": {"requirements": [EXPRESSION]}})]}),
        ({}, {"nodeoverlays": [described(requirements=[EXPRESSION])]}),
        (
            {},
            {
                "storageclasses": [
                    {"metadata": {"name": "a"}, "allowedTopologies": [{"matchLabelExpressions": [EXPRESSION]}]}
                ]
            },
        ),
    ],
    ids=[
        "node selector",
        "node affinity",
        "preference",
        "anti-affinity",
        "spread",
        "DaemonSet",
        "pool",
        "NodeOverlay",
        "storage class",
    ],
)
def test_a_label_of_a_node_changes_the_digest_if_something_selects_it(
    spec: dict[str, Any], declared: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    pod = Pod.from_kube({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": {**spec, "nodeName": "node-a"}})

    def of(value: str) -> str:
        labels = {"example.com/disk": value}
        return digest(pods=[pod], declared=declared, node=replace(NODE, labels=labels))

    assert of("ssd") != of("hdd")


def test_a_label_that_nothing_selects_changes_no_digest() -> None:
    """Agents write such labels again and again: the time of a scan, the health of a device."""

    def of(value: str) -> list[str]:
        labels = {"nvidia.com/gfd.timestamp": value, "scanned": value}
        return [digest(node=replace(NODE, labels=labels)), digest(unmanaged=[Node("b", ready=True, labels=labels)])]

    assert of("1") == of("2")


def test_a_disruption_budget_matters_by_whether_it_allows_an_eviction() -> None:
    assert digest(budgets=[budget(1)]) == digest(budgets=[budget(2)]) != digest(budgets=[budget(0)])


def test_a_pod_event_restarts_the_time_without_surveys() -> None:
    left = {CLAIM.key: NOON + timedelta(minutes=4, seconds=30)}

    assert digest(events=left) == ""
    assert digest(events=left, now=LATER + timedelta(seconds=30)) == digest()


def test_a_recommendation_starts_a_survey_at_once_if_the_pool_replaces_such_nodes() -> None:
    settings = replace(POOL.disruption.settings, rebalance="replace")
    following = replace(POOL, disruption=replace(POOL.disruption, settings=settings))
    within = NOON + timedelta(seconds=30)

    assert digest(recommended=["default-a"]) == digest()
    assert digest(recommended=["default-a"], pool=following) not in ("", digest(pool=following))
    assert digest(recommended=["default-a"], pool=following, now=within) != "" == digest(pool=following, now=within)
    assert [is_survey_due("b", "a", 900, 9, 931, urgent=urgent) for urgent in (False, True)] == [False, True]
    assert not is_survey_due("a", "a", 900, 9, 931, urgent=True), "a survey with the same digest found nothing"


def test_after_its_last_change_a_cluster_that_changed_for_hours_waits_no_longer_than_another() -> None:
    waits = [
        next(seconds for seconds in range(0, 7200, 60) if is_survey_due("a", "a", 0, idle, seconds, repeated=repeated))
        for idle, repeated in ((1, 0), (50, 0), (51, 1), (52, 2), (53, 3), (60, 10))
    ]

    assert waits == [600, 600, 1200, 2400, 3600, 3600]


def surveys(digest_of_sweep: str, *, reason: str) -> list[int]:
    """Return in which minute each survey follows if the sweeps see this digest after the proposal \"a\".

    Sweeps start each minute, and each proposal is recorded 8 s later."""
    last, found = LastProposal().followed_by("a", 8, reason=reason), []
    for minute in range(1, 16):
        if is_survey_due(digest_of_sweep, last.digest, last.at, last.idle, 60 * minute, repeated=last.repeated):
            found.append(minute)
            last = last.followed_by(digest_of_sweep, 60 * minute + 8, reason=reason)
    return found


def test_actions_that_changed_nothing_are_proposed_again_by_the_next_sweep_and_then_less_often() -> None:
    """The lease was not free, or the second look differed."""
    assert surveys("a", reason="Drifted") == [1, 3, 8, 13]
    assert surveys("a", reason="") == [10]


def test_a_change_after_one_look_without_actions_is_seen_by_the_next_sweep() -> None:
    """The first sweep may see a workload in the middle of its change."""
    assert surveys("b", reason="")[:1] == [1]


def with_settings(**fields: Any) -> NodePool:
    return replace(POOL, disruption=replace(POOL.disruption, settings=replace(POOL.disruption.settings, **fields)))


def test_the_end_of_a_pods_protection_changes_the_digest() -> None:
    job = replace(WEB, protection="1h", started="2026-11-21T12:00:00Z")
    last, over = NOON + timedelta(minutes=59), NOON + timedelta(hours=1)

    assert digest(pods=[job]) == digest(pods=[job], now=last) != digest(pods=[job], now=over)


def test_a_graceful_expiration_changes_the_digest_when_it_is_due_although_the_pool_is_never_consolidated() -> None:
    old = replace(CLAIM, created=NOON - timedelta(days=2), expire_after=2 * 86400 + 3600)
    forceful = replace(POOL, disruption=replace(POOL.disruption, consolidate_after=None))
    graceful = replace(forceful, disruption=replace(with_settings(expiration=ExpirationSettings(True, 0)).disruption))
    end = NOON + timedelta(hours=1)

    assert digest(claim=old, pool=graceful, now=end - timedelta(seconds=1)) != digest(claim=old, pool=graceful, now=end)
    assert digest(claim=old, pool=forceful, now=end - timedelta(seconds=1)) == digest(claim=old, pool=forceful, now=end)


def test_a_canary_that_has_proved_itself_changes_the_digest() -> None:
    pool = with_settings(drift=DriftSettings(canary="1", canary_seconds=600))
    drifted = CLAIM.with_condition("Drifted", "True", "AMIDrift", at=NOON - timedelta(hours=1))
    canary = replace(CLAIM, name="default-b", created=NOON - timedelta(minutes=5))
    nodes = {drifted.key: NODE, canary.key: Node("node-b", ready=True)}

    def at(minutes: int) -> str:
        return digest_for_disruption(
            {},
            [drifted, canary],
            nodes,
            {},
            {pool.key: pool},
            events={},
            recommended=(),
            now=NOON + timedelta(minutes=minutes),
        )

    assert at(5) == at(9) != at(10) == at(11)


def test_a_pool_that_cannot_launch_and_the_least_age_of_a_node_matter() -> None:
    aging = replace(POOL, disruption=replace(POOL.disruption, limits=ConsolidationLimits(least_node_age=1800)))
    young = replace(CLAIM, created=NOON)
    launched = replace(young, annotations={"joiner.dev/execution": "disrupt-20261121T120000-sweep"})

    assert digest(closed=[POOL.key]) != digest()
    assert digest(claim=launched) != digest(claim=launched, now=NOON + timedelta(minutes=10))
    assert digest(claim=young, pool=aging) != digest(claim=young, pool=aging, now=NOON + timedelta(minutes=30))


def test_a_window_of_a_budget_in_the_time_zone_of_the_pool_changes_the_digest() -> None:
    """The budget closes the pool at two o'clock in Oslo, which is one hour after noon in UTC."""
    closed = DisruptionBudget("0", schedule="0 14 * * *", duration=3600)
    local = replace(DisruptionSettings(), time_zone=ZoneInfo("Europe/Oslo"))
    pool = replace(POOL, disruption=replace(POOL.disruption, budgets=(closed,), settings=local))

    before, during, late, after = (
        digest(pool=pool, now=NOON + timedelta(minutes=minutes)) for minutes in (59, 61, 119, 121)
    )

    assert before == after != during == late


def test_the_end_of_consolidate_after_starts_a_survey_although_nothing_else_changes() -> None:
    young = digest(now=NOON + timedelta(seconds=59))
    settled = digest(now=NOON + timedelta(seconds=60))

    assert (young, settled) == ("", digest())


def test_a_pod_replaced_by_an_equal_one_changes_nothing() -> None:
    assert digest(pods=(replace(WEB, name="web-1"),)) == digest()

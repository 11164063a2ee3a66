"""The findings of a sweep: each check by itself, over small surveys."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from joiner.cluster import Node, Pod
from joiner.lifecycle.checks.check_registry import RETIREMENTS
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey, DueRetirement, find_obscured_nodes
from joiner.lifecycle.checks.deleted_claims import DELETED
from joiner.lifecycle.checks.empty_claims import EMPTY, count_waiting_claims, empty_claims
from joiner.lifecycle.checks.expired_claims import EXPIRED
from joiner.lifecycle.checks.surplus_claims import SURPLUS
from joiner.lifecycle.checks.unregistered_claims import NEVER_JOINED
from joiner.lifecycle.checks.unwatched_claims import UNWATCHED_CLAIMS
from joiner.lifecycle.emptiness import SETTLING, SHORTEST
from joiner.lifecycle.retirement import RetirementReason, RetirementRequest
from joiner.pools import Disruption, DisruptionBudget, InvalidManifest, NodeClaim, NodeClassRef, NodePool
from tests.unit.lifecycle.joining_nodes import NOON, claim, daemon_pod, node, pod

AGO = NOON - timedelta(hours=1)
AT = int(NOON.timestamp())
AFTER_30 = Disruption("WhenEmpty", 30, (DisruptionBudget("100%"),))


def pool(name: str = "default", **fields: Any) -> NodePool:
    return NodePool(name, NodeClassRef("EC2NodeClass", "default"), **{"disruption": AFTER_30, **fields})


def running(name: str = "a", **fields: Any) -> NodeClaim:
    """Return a claim that was initialized an hour ago, of instance i-<name> and node node-<name>."""
    made = claim(name, provider_id=f"aws:///us-east-1a/i-{name}", created=AGO, **fields).with_condition(
        "Launched", "True", at=AGO
    )
    return made.as_registered(f"node-{name}", at=AGO).as_initialized(at=AGO)


def its_node(name: str = "a", **fields: Any) -> Node:
    return node(f"node-{name}", **{"provider_id": f"aws:///us-east-1a/i-{name}", "taints": [], **fields})


def survey(*claims: NodeClaim, pods: tuple[Pod, ...] = (), **fields: Any) -> ClusterSurvey:
    """Return a survey with these claims and their nodes, in the pool `default`."""
    nodes = fields.pop("nodes", tuple(its_node(each.name) for each in claims))
    return ClusterSurvey(now=NOON, claims=claims, pods=pods, **{"pools": (pool(),), "nodes": nodes, **fields})


def summarise(found: list[DueRetirement]) -> list[tuple[str, str, int]]:
    return [(due.claim.name, due.reason, due.not_before) for due in found]


# Deleted


def test_a_claim_that_was_deleted_goes() -> None:
    assert summarise(DELETED.find(survey(running("a", deletion=NOON), running("b")))) == [("a", "deleted", 0)]


def test_a_claim_whose_node_was_deleted_goes() -> None:
    nodes = (replace(its_node("a"), deletion="2026-11-21T11:59:00Z"), its_node("b"))

    assert summarise(DELETED.find(survey(running("a"), running("b"), nodes=nodes))) == [("a", "deleted", 0)]


def test_a_deleted_claim_that_may_still_be_launched_is_left_until_its_launch_is_recorded() -> None:
    written = claim("a", provider_id="", deletion=NOON, annotations={"joiner.dev/lease": "3"})

    assert DELETED.find(survey(written, nodes=(), lease=3)) == []
    assert DELETED.find(survey(written, nodes=(), lease=4, launching=frozenset({"a"}))) == []
    assert summarise(DELETED.find(survey(written, nodes=(), lease=4))) == [("a", "deleted", 0)]


# Expired


def test_a_node_claim_goes_at_its_own_age_limit() -> None:
    assert summarise(
        EXPIRED.find(survey(running("a", expire_after=3600), running("b", expire_after=3601), running("c")))
    ) == [("a", "expired", 0)]


@pytest.mark.parametrize("kind", ["NodeClaim", "Machine"])
def test_the_nodes_of_an_invalid_pool_do_not_expire(kind: str) -> None:
    """Whether the expiration of the pool is graceful is not known while it cannot be read."""
    old = running("a", kind=kind, expire_after=60)
    wrong = InvalidManifest(old.pool_key, "spec.limits", "-5", "give at least 0")

    assert EXPIRED.find(survey(old, pools=(), problems=(wrong,))) == []
    assert summarise(EXPIRED.find(survey(old, pools=()))) == ([("a", "expired", 0)] if kind == "NodeClaim" else [])


def test_a_machine_goes_at_the_age_that_its_provisioner_now_has() -> None:
    machine = running("a", kind="Machine")
    provisioners = [(pool(kind="Provisioner", expire_after=seconds),) for seconds in (3600, 3601, None)]

    assert [summarise(EXPIRED.find(survey(machine, pools=pools))) for pools in provisioners] == [
        [("a", "expired", 0)],
        [],
        [],
    ]


def test_an_expired_machine_stays_while_its_node_must_not_be_disrupted_and_a_node_claim_goes() -> None:
    stays = (replace(its_node("a"), annotations={"karpenter.sh/do-not-disrupt": "true"}),)
    pools = (pool(), pool(kind="Provisioner", expire_after=60))

    assert EXPIRED.find(survey(running("a", kind="Machine"), nodes=stays, pools=pools)) == []
    assert summarise(EXPIRED.find(survey(running("a", expire_after=60), nodes=stays, pools=pools))) == [
        ("a", "expired", 0)
    ]


def test_an_expired_machine_stays_for_a_pod_that_must_not_be_disrupted_and_for_pods_on_their_way() -> None:
    machine, pools = running("a", kind="Machine"), (pool(kind="Provisioner", expire_after=60),)
    protected = replace(pod("job", on="node-a"), protection="true")

    assert EXPIRED.find(survey(machine, pools=pools, pods=(protected,))) == []
    coming = claim("a", kind="Machine", provider_id="aws:///us-east-1a/i-a", created=AGO).as_registered(
        "node-a", at=AGO
    )
    assert EXPIRED.find(survey(coming, pools=pools, assignments={"a": {"class": 1}})) == []
    assert summarise(EXPIRED.find(survey(machine, pools=pools, pods=(replace(protected, phase="Succeeded"),)))) == [
        ("a", "expired", 0)
    ]


def test_an_expired_machine_stays_while_its_provisioner_cannot_launch_and_a_node_claim_goes() -> None:
    pools = (pool(), pool(kind="Provisioner", expire_after=60))
    closed = dict.fromkeys(("NodePool/default", "Provisioner/default"), "its class is being deleted")

    assert EXPIRED.find(survey(running("a", kind="Machine"), pools=pools, closed_pools=closed)) == []
    assert summarise(EXPIRED.find(survey(running("a", expire_after=60), pools=pools, closed_pools=closed))) == [
        ("a", "expired", 0)
    ]
    assert summarise(EXPIRED.find(survey(running("a", kind="Machine"), pools=pools))) == [("a", "expired", 0)]


# Never joined


def test_a_claim_whose_node_has_not_come_for_fifteen_minutes_goes() -> None:
    def launched(minutes: int) -> NodeClaim:
        return claim("a").with_condition("Launched", "True", at=NOON - timedelta(minutes=minutes))

    assert NEVER_JOINED.find(survey(launched(15), nodes=())) == []
    assert summarise(NEVER_JOINED.find(survey(launched(16), nodes=()))) == [("a", "never-joined", 0)]


def test_a_claim_that_was_given_up_goes() -> None:
    given_up = claim("a").with_condition("Registered", "False", "RegistrationTimeout", at=NOON)

    assert summarise(NEVER_JOINED.find(survey(given_up, nodes=()))) == [("a", "never-joined", 0)]


@pytest.mark.parametrize("reason", ["RegistrationTimeout", "NodeGone"])
def test_a_late_node_is_kept_and_is_removed_if_it_is_not_registered_for_long(
    reason: str,
) -> None:
    def found(minutes: int, *nodes: Node) -> tuple[list[tuple[str, str, int]], list[str]]:
        late = claim("a", provider_id="aws:///us-east-1a/i-a").with_condition("Launched", "True", at=AGO)
        given_up = late.with_condition("Registered", "False", reason, at=NOON - timedelta(minutes=minutes))
        seen = survey(given_up, nodes=nodes)
        return summarise(NEVER_JOINED.find(seen)), UNWATCHED_CLAIMS.find(seen)

    goes = [("a", "never-joined", 0)]
    assert found(15, its_node("a")) == ([], ["no running execution awaits the node of NodeClaim/a"])
    assert found(16, its_node("a")) == (goes, [])
    assert found(0) == (goes, [])
    assert found(0, replace(its_node("a"), deletion="2026-11-21T11:59:00Z"))[1] == []


def test_a_node_that_never_became_ready_goes_unless_something_runs_on_it_all_the_same() -> None:
    given_up = running("a").with_condition("Initialized", "False", "InitializationTimeout", at=NOON)

    assert summarise(NEVER_JOINED.find(survey(given_up))) == [("a", "never-joined", 0)]
    assert NEVER_JOINED.find(survey(given_up, pods=(pod("web", on="node-a"),))) == []
    assert NEVER_JOINED.find(survey(given_up, obscured=frozenset({"node-a"}))) == []


# Empty


def test_a_node_that_is_empty_for_as_long_as_its_pool_requires_goes_now() -> None:
    assert summarise(EMPTY.find(survey(running("a"), empty_since={"a": AT - 30}))) == [("a", "empty", 0)]


def test_one_whose_time_comes_before_the_next_sweep_is_asked_for_now_for_that_time() -> None:
    assert summarise(EMPTY.find(survey(running("a")))) == [("a", "empty", AT + 30)]
    assert summarise(EMPTY.find(survey(running("a"), empty_since={"a": AT - 10}))) == [("a", "empty", AT + 20)]


def test_however_seldom_sweeps_are_nothing_is_asked_for_longer_ahead_than_a_retirement_waits() -> None:
    def found(seconds: int) -> list[tuple[str, str, int]]:
        return summarise(
            EMPTY.find(survey(running("a"), pools=(pool(disruption=Disruption("WhenEmpty", seconds)),), interval=300))
        )

    assert (found(90), found(91)) == ([("a", "empty", AT + 90)], [])


def test_one_whose_time_comes_later_waits_for_a_later_sweep() -> None:
    patient = (pool(disruption=Disruption("WhenEmpty", 61)),)

    assert EMPTY.find(survey(running("a"), pools=patient)) == []


def test_a_node_that_is_empty_the_moment_its_pool_takes_it_still_has_to_be_empty_for_a_while() -> None:
    at_once = (pool(disruption=Disruption("WhenEmptyOrUnderutilized", 0)),)

    assert summarise(EMPTY.find(survey(running("a"), pools=at_once))) == [("a", "empty", AT + SHORTEST)]


def test_a_node_that_has_just_opened_is_left_to_the_scheduler_for_a_while() -> None:
    opened = replace(running("a"), conditions=claim("a").conditions).as_initialized(at=NOON)
    at_once = (pool(disruption=Disruption("WhenEmpty", 0)),)

    assert summarise(EMPTY.find(survey(opened, pools=at_once))) == [("a", "empty", AT + int(SETTLING.total_seconds()))]


def test_pods_of_daemon_sets_ended_pods_and_ending_ones_leave_a_node_empty() -> None:
    ended = replace(pod("job", on="node-a"), phase="Succeeded")
    ending = replace(pod("web", on="node-a"), deletion="2026-11-21T12:00:00Z")
    there = (daemon_pod("agent", "node-a", on="node-a"), pod("static", on="node-a", owner="Node"), ended, ending)

    assert empty_claims(survey(running("a"), pods=there)) == [running("a")]


def test_any_other_pod_keeps_a_node_and_so_does_one_that_the_scheduler_promised_it() -> None:
    ending = replace(pod("db-0", on="node-a", owner="StatefulSet"), deletion="2026-11-21T12:00:00Z")
    promised = replace(pod("web"), nominated_node="node-a")

    for holding in (pod("web", on="node-a"), pod("alone", on="node-a", owner=""), ending, promised):
        assert empty_claims(survey(running("a"), pods=(holding,))) == []


def test_the_annotation_of_a_daemons_pod_keeps_no_node() -> None:
    agent = replace(daemon_pod("agent", "node-a", on="node-a"), protection="true")

    assert empty_claims(survey(running("a"), pods=(agent,))) == [running("a")]


def test_a_pod_that_cannot_be_read_keeps_its_node() -> None:
    assert empty_claims(survey(running("a"), obscured=frozenset({"node-a"}))) == []


def test_slots_that_a_node_got_while_it_opened_keep_it_from_nothing() -> None:
    """A plan may use a node that another execution opens at this moment: the scheduler binds its pods."""
    assert empty_claims(survey(running("a"), assignments={"a": {"class": 1}})) == [running("a")]


def test_nodes_that_are_not_open_on_their_way_out_or_not_to_be_disrupted_are_none_of_this_checks_business() -> None:
    annotated = {"karpenter.sh/do-not-disrupt": "true"}
    tainted = its_node("a", taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])
    given_up = running("a").with_condition("Initialized", "False", "InitializationTimeout", at=NOON)
    others = [
        survey(claim("a", provider_id="aws:///us-east-1a/i-a").with_condition("Launched", "True", at=AGO)),
        survey(running("a", deletion=NOON)),
        survey(running("a"), nodes=(replace(its_node("a"), deletion="2026-11-21T12:00:00Z"),)),
        survey(running("a"), nodes=(tainted,)),
        survey(running("a"), nodes=(replace(its_node("a"), annotations=annotated),)),
        survey(running("a", annotations=annotated)),
        survey(given_up),
        survey(running("a"), nodes=()),
        survey(running("a"), pools=()),
    ]

    assert [empty_claims(each) for each in others] == [[]] * len(others)


def test_a_pool_with_never_or_of_a_fixed_size_keeps_its_empty_nodes() -> None:
    for fields in ({"disruption": Disruption("WhenEmpty", None)}, {"replicas": 3}):
        assert empty_claims(survey(running("a"), pools=(pool(**fields),))) == []


def test_budgets_let_only_so_many_go_those_first_that_are_empty_for_longest() -> None:
    three = tuple(running(name) for name in "abc")
    since = {"a": AT - 40, "b": AT - 60, "c": AT - 50}

    def going(*budgets: DisruptionBudget, **fields: Any) -> list[str]:
        pools = (pool(disruption=Disruption("WhenEmpty", 30, budgets)),)
        return [due.claim.name for due in EMPTY.find(survey(*three, pools=pools, empty_since=since, **fields))]

    assert going(DisruptionBudget("100%")) == ["b", "c", "a"]
    assert going(DisruptionBudget("2")) == ["b", "c"]
    assert going(DisruptionBudget("10%")) == ["b"]
    assert going(DisruptionBudget("0")) == []
    assert going(DisruptionBudget("0", reasons=("Drifted",))) == ["b", "c", "a"]
    # one that was requested and has not begun, one that is not ready: both count
    assert going(DisruptionBudget("2"), requested_until={"b": AT + 1}) == ["c"]
    not_ready = (its_node("a"), its_node("b"), its_node("c", ready=False))
    assert going(DisruptionBudget("2"), nodes=not_ready) == ["b"]


def test_nodes_that_wait_for_the_budget_are_counted_while_others_make_place_for_them() -> None:
    four = tuple(running(name) for name in "abcd")
    since = dict.fromkeys("abcd", AT - 60)

    def waiting(*claims: NodeClaim, going: str = "", budget: str = "1", **fields: Any) -> int:
        pools = (pool(disruption=Disruption("WhenEmpty", 30, (DisruptionBudget(budget),))),)
        return count_waiting_claims(survey(*claims, pools=pools, empty_since=since, **fields), set(going))

    assert waiting(*four, going="a") == 3
    assert waiting(*four, going="abcd", budget="100%") == 0
    assert waiting(*four, budget="0") == 0, "nothing makes place for them"
    leaving = running("a", deletion=NOON - timedelta(seconds=5))
    assert waiting(leaving, *four[1:]) == 3
    assert waiting(*four, requested_until={"a": AT + 1}) == 3, "its retirement is about to begin"
    held = running("a", deletion=NOON - timedelta(minutes=2))
    assert waiting(held, *four[1:]) == 0, "something keeps the node that leaves: the next sweep looks"
    gone = leaving.with_condition("InstanceTerminating", "True", at=NOON)
    assert waiting(gone, *four[1:], going="b") == 2
    assert waiting(gone, *four[1:]) == 0, "its place is free already"
    assert waiting(*four, going="a", budget="1") == 3
    since["d"] = AT - 10
    assert waiting(*four, going="a") == 2, "one is not due yet"


@pytest.mark.parametrize(("nodes", "steps"), [(100, 28), (584, 45)])
def test_empty_nodes_leave_under_a_budget_of_10_percent_in_few_sweeps_each_started_by_the_last(
    nodes: int, steps: int
) -> None:
    pools = (pool(disruption=Disruption("WhenEmpty", 30, (DisruptionBudget("10%"),))),)
    there = {name: running(name) for name in (f"n{number:03d}" for number in range(nodes))}
    sweeps, followed = 0, []
    while there:
        seen = survey(*there.values(), pools=pools, empty_since=dict.fromkeys(there, AT - 60))
        going = {due.claim.name for due in EMPTY.find(seen)}
        followed.append(count_waiting_claims(seen, going) > 0)
        sweeps += 1
        for name in going:
            del there[name]

    assert (sweeps, followed) == (steps, [True] * (steps - 1) + [False])


def test_what_was_asked_for_is_not_asked_for_again_before_its_time_is_over() -> None:
    assert EMPTY.find(survey(running("a"), empty_since={"a": AT - 40}, requested_until={"a": AT + 1})) == []
    assert summarise(EMPTY.find(survey(running("a"), empty_since={"a": AT - 40}, requested_until={"a": AT}))) == [
        ("a", "empty", 0)
    ]


def test_the_checks_have_names_of_their_own() -> None:
    assert len({check.name for check in RETIREMENTS}) == len(RETIREMENTS)


# Surplus


def test_no_running_node_of_a_static_pool_goes_in_place_of_a_claim_whose_launch_is_not_recorded() -> None:
    launching = claim("c", provider_id="")
    there: dict[str, Any] = {"nodes": (its_node("a"), its_node("b")), "launching": frozenset({"c"})}

    def surplus(replicas: int) -> int:
        found = survey(running("a"), running("b"), launching, pools=(pool(replicas=replicas),), **there)
        return len(SURPLUS.find(found))

    assert [surplus(replicas) for replicas in (3, 2, 1, 0)] == [0, 0, 1, 2]


def test_a_node_is_obscured_if_it_runs_a_pod_that_cannot_be_read() -> None:
    manifests = [
        {"metadata": {"name": "web", "namespace": "default"}, "spec": {"nodeName": "node-1"}},
        {"metadata": {"name": "wrong", "namespace": "default"}, "spec": {"nodeName": "node-2"}},
        {"metadata": {"name": "pending", "namespace": "default"}, "spec": {}},
    ]
    read = [pod("web", on="node-1")]

    assert find_obscured_nodes(manifests, read) == {"node-2"}
    assert find_obscured_nodes(manifests[:1], read) == frozenset()


def test_a_due_retirement_is_requested_with_its_earliest_time() -> None:
    due = DueRetirement(claim(), RetirementReason.EMPTY, "it is empty", not_before=7)

    assert due.request.to_json() == {
        "claim": "default-a",
        "reason": "empty",
        "instance": "i-1",
        "notBefore": 7,
    }
    assert RetirementRequest.from_json(due.request.to_json()) == due.request


def test_a_replacement_that_waits_for_others_is_not_empty() -> None:
    assert empty_claims(survey(running("a"), running("b"), replacing=frozenset({"a"}))) == [running("b")]

"""Which pods are evicted from a draining node, in which order, and until when."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.lifecycle.drain_blockers import describe_blocker
from joiner.lifecycle.draining import Drain, DrainingPod, drain, drain_order, must_move, pause

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def pod(name: str, **fields: Any) -> DrainingPod:
    return DrainingPod(**{"namespace": "shop", "name": name, "owner_kind": "ReplicaSet", **fields})


def at(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def names(pods: tuple[DrainingPod, ...]) -> list[str]:
    return [each.name for each in pods]


def looked(*pods: DrainingPod, deadline: datetime | None = None, now: datetime = NOON) -> Drain:
    return drain(pods, now=now, deadline=deadline)


@pytest.mark.parametrize(
    "staying",
    [
        pod("agent", owner_kind="DaemonSet", tolerates=True),
        pod("static", owner_kind="Node"),
        pod("mirror", mirror=True),
        pod("done", phase="Succeeded"),
        pod("failed", phase="Failed"),
        pod("tolerant", tolerates=True),
        pod("stuck", ends=at(-61)),
    ],
    ids=lambda each: each.name,
)
def test_a_node_is_drained_although_these_stay(staying: DrainingPod) -> None:
    assert looked(staying).done


def test_all_others_are_asked_the_unimportant_first() -> None:
    plan = looked(pod("web", priority=10), pod("batch", priority=-5), pod("static", owner_kind="Node"))

    assert names(plan.evict) == ["batch", "web"]
    assert names(plan.waiting) == ["web", "batch"]
    assert not plan.done


def test_of_equal_priority_the_larger_pods_are_evicted_first() -> None:
    def asking(name: str, cpu: str, memory: str, priority: int = 0) -> DrainingPod:
        requests = {"resources": {"requests": {"cpu": cpu, "memory": memory}}}
        metadata = {"name": name, "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": True}]}
        return DrainingPod.from_kube({"metadata": metadata, "spec": {"containers": [requests], "priority": priority}})

    small, memory, cpu = asking("a", "500m", "1Gi"), asking("b", "500m", "28Gi"), asking("c", "4", "1Gi")
    low = asking("d", "100m", "64Mi", priority=-1)

    assert names(looked(small, cpu, memory, low).evict) == ["d", "b", "c", "a"]


def test_a_pod_whose_requests_cannot_be_read_is_evicted_last() -> None:
    broken = DrainingPod.from_kube(
        {"metadata": {"name": "a"}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1 core"}}}]}}
    )

    assert names(looked(broken, pod("b", size=0.1)).evict) == ["b", "a"]


def test_nodes_are_drained_by_deadline_then_by_the_pods_that_are_evicted_first() -> None:
    daemons = [pod("logs", owner_kind="DaemonSet", size=9.0), pod("static", owner_kind="Node", size=9.0)]
    nodes: dict[str, tuple[int, list[DrainingPod]]] = {
        "empty": (0, []),
        "important": (0, [pod("a", priority=10, size=8.0)]),
        "leaving": (0, [pod("b", ends=at(5), size=16.0), pod("c", size=0.1)]),
        "small": (0, [pod("d", size=0.5), *daemons]),
        "large": (0, [pod("e", size=0.2), pod("f", size=4.0)]),
        "late": (int(at(120).timestamp()), []),
        "soon": (int(at(60).timestamp()), [pod("g", size=0.1)]),
    }

    ordered = sorted(nodes, key=lambda node: drain_order(nodes[node][1], nodes[node][0]))

    assert ordered == ["soon", "late", "large", "small", "leaving", "important", "empty"]


def test_pods_are_evicted_in_four_tiers_and_each_tier_waits_for_the_end_of_the_one_before() -> None:
    tiers = [
        pod("web"),
        pod("logs", owner_kind="DaemonSet"),
        pod("dns", critical=True),
        pod("network", owner_kind="DaemonSet", critical=True),
    ]
    for first in range(len(tiers)):
        left = tiers[first:]
        ending = [replace(left[0], ends=at(20)), *left[1:]]

        assert names(looked(*left).evict) == [left[0].name]
        assert (names(looked(*ending).evict), len(looked(*ending).waiting)) == ([], len(left))


def test_a_protected_pod_of_an_earlier_tier_keeps_the_later_ones_until_the_deadline_is_near() -> None:
    job, agent = pod("job", protection="true", grace=30), pod("agent", owner_kind="DaemonSet", grace=5)

    waiting, late = looked(job, agent, deadline=at(31)), looked(job, agent, deadline=at(30))

    assert (names(waiting.evict), waiting.delete) == ([], ())
    assert (names(late.evict), [each.pod.name for each in late.delete]) == (["agent"], ["job"])


@pytest.mark.parametrize(
    ("value", "invalid"), [("", ""), ("true", ""), ("false", ""), ("2h30m", ""), ("Never", "Never"), ("ever", "ever")]
)
def test_a_value_of_the_annotation_without_meaning_is_named(value: str, invalid: str) -> None:
    assert pod("job", protection=value).invalid_protection == invalid


def test_a_pod_that_ends_is_not_asked_again_and_is_waited_for() -> None:
    plan = looked(pod("web", ends=at(30)))

    assert (plan.evict, names(plan.waiting)) == ((), ["web"])
    assert not looked(pod("web", ends=at(-30))).done
    assert looked(pod("web", ends=at(-60))).done


@pytest.mark.parametrize(
    ("protected", "started", "evicted"),
    [
        ("true", at(-9999), False),
        ("10m", at(-599), False),
        ("10m", at(-601), True),
        ("10m", None, False),
        ("false", at(-1), True),
        ("for ever", at(-1), True),
        ("Never", at(-1), True),
    ],
)
def test_a_pod_that_asks_not_to_be_disrupted_is_left_alone_for_so_long(
    protected: str, started: datetime | None, *, evicted: bool
) -> None:
    plan = looked(pod("job", protection=protected, started=started))

    assert (names(plan.evict) == ["job"]) is evicted
    assert plan.blockers == (() if evicted else ("pod shop/job asks not to be disrupted",))
    assert not plan.done


def test_a_deadline_ends_what_protects_a_pod_early_enough_for_it_to_end_by_itself() -> None:
    job = pod("job", protection="true", grace=30)

    early, late = looked(job, deadline=at(31)), looked(job, deadline=at(30))

    assert (early.delete, early.next_at) == ((), at(1))
    assert [(each.pod.name, each.grace) for each in late.delete] == [("job", 30)]


def test_a_pod_with_more_grace_than_there_is_time_gets_what_is_left() -> None:
    slow, quick = pod("slow", grace=3600), pod("quick", grace=5)

    plan = looked(slow, quick, deadline=at(120))

    assert [(each.pod.name, each.grace) for each in plan.delete] == [("slow", 120)]
    assert names(plan.evict) == ["quick"]


def test_critical_pods_that_would_outlive_the_deadline_do_not_wait_for_others() -> None:
    plan = looked(pod("dns", critical=True, grace=60), pod("web", grace=5), deadline=at(50))

    assert [each.pod.name for each in plan.delete] == ["dns"]
    assert names(plan.evict) == ["web"]


def test_a_pod_that_will_have_ended_in_time_is_not_deleted_once_more() -> None:
    assert looked(pod("web", grace=3600, ends=at(100)), deadline=at(120)).delete == ()
    assert [each.grace for each in looked(pod("web", grace=3600, ends=at(130)), deadline=at(120)).delete] == [120]


def test_past_the_deadline_a_pod_gets_a_second_and_then_holds_nothing_up() -> None:
    assert [each.grace for each in looked(pod("web"), deadline=at(-1)).delete] == [1]
    assert looked(pod("web", ends=NOON), deadline=at(-1)).done


def test_the_next_pass_is_soon_after_progress_and_else_late_but_never_after_the_next_deadline() -> None:
    assert pause(1, progress=False, now=NOON, next_at=None) == 2
    assert pause(16, progress=False, now=NOON, next_at=None) == 16
    assert pause(90, progress=False, now=NOON, next_at=None) == 60
    assert pause(60, progress=True, now=NOON, next_at=None) == 2
    assert pause(60, progress=False, now=NOON, next_at=at(7)) == 7
    assert looked(pod("job", protection="10m", started=NOON)).next_at == at(600)


def test_pods_with_a_controller_need_another_node() -> None:
    leaving = [
        pod("web"),
        pod("job", protection="true"),
        pod("alone", owner_kind=""),
        pod("agent", owner_kind="DaemonSet"),
        pod("ends", ends=at(9)),
    ]

    assert must_move(leaving, now=NOON, deadline=None) == 1
    assert must_move(leaving, now=NOON, deadline=at(120)) == 2


def test_a_pod_is_read_whatever_is_strange_about_it() -> None:
    manifest = {
        "metadata": {
            "name": "db-0",
            "namespace": "shop",
            "uid": "u",
            "deletionTimestamp": "2026-11-21T12:00:30Z",
            "annotations": {"karpenter.sh/do-not-evict": "true", "joiner.dev/drain": "rollout"},
            "creationTimestamp": "2026-11-21T10:59:00Z",
            "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": True}],
        },
        "spec": {
            "priorityClassName": "system-node-critical",
            "priority": 2000001000,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Sometimes"}, {"key": "other", "operator": "Exists"}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "cache", "emptyDir": {}},
            ],
        },
        "status": {"phase": "Running", "startTime": "2026-11-21T11:00:00Z"},
    }

    read = DrainingPod.from_kube(manifest)

    assert read == DrainingPod(
        namespace="shop",
        name="db-0",
        uid="u",
        owner_kind="StatefulSet",
        phase="Running",
        ends=at(30),
        started=at(-3600),
        grace=0,
        priority=2000001000,
        critical=True,
        protection="true",
        volume_claims=("data-db-0", "db-0-scratch"),
        owner_name="db",
        created=at(-3660),
        drained_by="rollout",
    )


@pytest.mark.parametrize(
    "toleration",
    [{"operator": "Exists"}, {"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule"}],
)
def test_a_pod_that_tolerates_the_taint_of_a_disrupted_node_stays(toleration: dict[str, str]) -> None:
    assert DrainingPod.from_kube({"metadata": {"name": "a"}, "spec": {"tolerations": [toleration]}}).stays


def test_a_blocked_eviction_names_the_pod_and_what_keeps_it() -> None:
    several = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."

    assert describe_blocker("shop/db", 429, "", by_budget=True) == "pod shop/db is held by its disruption budget"
    assert describe_blocker(
        "shop/db", 429, "The disruption budget db needs 2 healthy pods and has 1 currently", by_budget=True
    ) == ("pod shop/db is held by its disruption budget db, which needs 2 healthy pods and has 1 currently")
    assert describe_blocker(
        "shop/db", 429, "The disruption budget db is still being processed by the server.", by_budget=True
    ) == ("pod shop/db is held by its disruption budget db, which is still being processed by the server")
    assert describe_blocker("shop/db", 500, several, by_budget=False) == (
        "pod shop/db is selected by several PodDisruptionBudgets, and the eviction API accepts only one"
    )
    assert describe_blocker("shop/db", 403, several, by_budget=False) == f"pod shop/db: {several}"

"""When to plan again for pods that no plan helped: at once if anything changed, otherwise after longer and longer
intervals.
"""

from itertools import pairwise
from typing import Any

import pytest

from joiner.cluster import Pod
from joiner.lifecycle.planning_back_off import (
    BACK_OFF_SECONDS,
    CLASSES_KEPT,
    PendingPodClass,
    PlanningBackOff,
    back_off_after_plan,
    back_off_after_refusal,
    describe_pending_classes,
    find_classes_to_plan,
    find_pools_short_of_nodes,
    keys_of_refused_claims,
    replicas_key,
)
from joiner.pools import NodeClaim, NodeClassRef

POOL = {"metadata": {"name": "default", "uid": "pool-1", "generation": 1}}
LISTS: dict[str, list[dict[str, Any]]] = {
    "nodepools": [POOL],
    "nodes": [{"metadata": {"name": "node-1"}}],
    "nodeclaims": [{"metadata": {"name": "default-a"}}],
    "daemonsets": [{"metadata": {"name": "proxy", "namespace": "kube-system", "uid": "ds-1", "generation": 3}}],
    "persistentvolumeclaims": [
        {"metadata": {"name": "data", "namespace": "default", "uid": "pvc-1"}, "status": {"phase": "Pending"}}
    ],
}
SHORT = ("spot#m5.large#us-east-1a",)


def waiting(
    name: str,
    *,
    cpu: str = "64",
    created: str = "2026-11-21T12:00:00Z",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    """Return a pod that is unschedulable."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return Pod.from_kube(
        {
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": created, "labels": labels or {}},
            "spec": {"containers": [container], **spec},
        }
    )


def running(name: str, node: str, labels: dict[str, str], **spec: Any) -> Pod:
    return waiting(name, cpu="1", labels=labels, nodeName=node, **spec)


def asked(
    *pods: Pod, bound: tuple[Pod, ...] = (), short: tuple[str, ...] = SHORT, **lists: Any
) -> dict[str, PendingPodClass]:
    return describe_pending_classes(pods, bound=bound, lists={**LISTS, **lists}, unavailable=short)


def asking(first: dict[str, PendingPodClass], then: dict[str, PendingPodClass]) -> bool:
    """Return whether pods that requested `first`, and were refused, are planned again a second later when they request
    `then`.
    """
    answers = back_off_after_plan(first, set(first), {}, at=1000)
    return bool(find_classes_to_plan(then, answers, at=1001))


def test_a_question_that_was_answered_is_asked_again_after_one_two_four_eight_and_ever_again_ten_minutes() -> None:
    question = asked(waiting("web"))
    answers: dict[str, PlanningBackOff] = {}
    looked_at = []

    for second in range(0, 60 * 60, 10):
        if find_classes_to_plan(question, answers, second):
            looked_at.append(second // 60)
            answers = back_off_after_plan(question, set(question), answers, second)

    assert [later - sooner for sooner, later in pairwise(looked_at)] == [1, 2, 4, 8, 10, 10, 10, 10]
    assert [seconds // 60 for seconds in BACK_OFF_SECONDS] == [1, 2, 4, 8, 10]


CHANGES: dict[str, dict[str, Any]] = {
    "a pool was edited": {"nodepools": [{"metadata": {**POOL["metadata"], "generation": 2}}]},
    "a pool was made anew": {"nodepools": [{"metadata": {**POOL["metadata"], "uid": "pool-2"}}]},
    "a pool is deleted": {"nodepools": [{"metadata": {**POOL["metadata"], "deletionTimestamp": "now"}}]},
    "a class was made": {"ec2nodeclasses": [{"metadata": {"name": "default", "uid": "class-1", "generation": 1}}]},
    "a node joined": {"nodes": [*LISTS["nodes"], {"metadata": {"name": "node-2"}}]},
    "a node is gone": {"nodes": []},
    "a claim is gone": {"nodeclaims": []},
    "a claim goes": {"nodeclaims": [{"metadata": {"name": "default-a", "deletionTimestamp": "now"}}]},
    "daemons became fewer": {"daemonsets": []},
    "a storage class was made": {"storageclasses": [{"metadata": {"name": "gp3", "uid": "sc-1"}}]},
    "an offering is available again": {"short": ()},
    "another offering is short": {"short": (*SHORT, "spot#m5.xlarge#us-east-1a")},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_an_answer_depends_on_makes_it_asked_at_once(change: dict[str, Any]) -> None:
    assert asking(asked(waiting("web")), asked(waiting("web"), **change))


def test_what_joiner_writes_itself_and_the_order_of_lists_change_nothing() -> None:
    reported = {"metadata": POOL["metadata"], "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    two = [{"metadata": {"name": "node-2"}}, {"metadata": {"name": "node-1"}}]

    assert not asking(asked(waiting("web")), asked(waiting("web"), nodepools=[reported]))
    assert not asking(asked(waiting("web"), nodes=two), asked(waiting("web"), nodes=two[::-1]))


def test_a_new_pod_or_one_more_is_answered_at_once_and_one_less_is_not() -> None:
    old, new = waiting("web-1"), waiting("web-2", created="2026-11-21T12:00:01Z")

    assert asking(asked(old), asked(old, waiting("web-2")))
    assert asking(asked(old), asked(new))
    assert asking(asked(old), asked(old, waiting("other", cpu="65")))
    assert not asking(asked(old, new), asked(old))


def test_neighbours_count_only_for_those_whose_rules_are_about_them() -> None:
    near_db = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "db"}}}
            ]
        }
    }
    db, other = running("db", "node-1", {"app": "db"}), running("other", "node-1", {"app": "other"})

    assert asking(asked(waiting("web", affinity=near_db)), asked(waiting("web", affinity=near_db), bound=(db,)))
    assert not asking(asked(waiting("web", affinity=near_db)), asked(waiting("web", affinity=near_db), bound=(other,)))
    assert not asking(asked(waiting("web")), asked(waiting("web"), bound=(db, other)))


def test_a_pod_that_others_keep_away_from_asks_when_they_are_gone() -> None:
    alone = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    loner = running("loner", "node-1", {"app": "loner"}, affinity=alone)

    assert asking(
        asked(waiting("web", labels={"app": "web"}), bound=(loner,)), asked(waiting("web", labels={"app": "web"}))
    )
    assert not asking(
        asked(waiting("api", labels={"app": "api"}), bound=(loner,)), asked(waiting("api", labels={"app": "api"}))
    )


def test_a_volume_that_is_bound_makes_those_ask_who_mount_it() -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    bound = [{**LISTS["persistentvolumeclaims"][0], "spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}]

    assert asking(
        asked(waiting("db", volumes=volumes)), asked(waiting("db", volumes=volumes), persistentvolumeclaims=bound)
    )
    assert not asking(asked(waiting("web")), asked(waiting("web"), persistentvolumeclaims=bound))


def test_a_plan_for_other_pods_extends_no_back_off() -> None:
    question = asked(waiting("web"))
    first = back_off_after_plan(question, set(question), {}, at=0)

    assert back_off_after_plan(question, set(question), first, at=30) == first


def test_a_launch_that_is_refused_again_and_again_is_tried_less_and_less_though_each_plan_finds_a_node() -> None:
    question = asked(waiting("web"))
    answers: dict[str, PlanningBackOff] = {}
    tried = []

    for second in range(0, 30 * 60, 60):
        if find_classes_to_plan(question, answers, second):
            tried.append(second // 60)
            answers = back_off_after_plan(question, (), answers, second)
            answers = back_off_after_refusal(question, set(question), answers, second)

    assert tried == [0, 1, 3, 7, 15, 25]


def test_a_class_that_a_plan_helps_may_ask_at_once_whatever_becomes_of_the_plan() -> None:
    question = asked(waiting("web"))
    unplaceable = back_off_after_plan(question, set(question), {}, at=0)

    assert find_classes_to_plan(question, back_off_after_plan(question, (), unplaceable, at=10), at=11) == set(question)


def test_pods_that_are_gone_are_forgotten() -> None:
    question = asked(waiting("web"))

    assert back_off_after_plan({}, (), back_off_after_plan(question, set(question), {}, at=0), at=1) == {}


def test_the_back_offs_of_buffers_and_static_pools_are_stored_however_many_classes_wait() -> None:
    others = {key: PendingPodClass(1, "", "d") for key in ("capacity buffers", "replicas of NodePool/fixed")}
    asking = {**{f"{number:06}": PendingPodClass(1, "", "d") for number in range(CLASSES_KEPT)}, **others}

    after = back_off_after_plan(asking, asking, {}, 0)

    assert len(after) == len(back_off_after_refusal(asking, asking, {}, 0)) == CLASSES_KEPT
    assert set(others) <= set(after)


def test_a_static_pool_is_short_if_the_plan_has_fewer_nodes_than_it_lacks() -> None:
    lacking = {replicas_key(f"NodePool/{name}"): PendingPodClass(2, "", "d") for name in ("a", "b", "c", "gone")}
    planned = {"NodePool/a": 2, "NodePool/b": 1}
    pools = ["NodePool/a", "NodePool/b", "NodePool/c", "NodePool/whole"]

    short = find_pools_short_of_nodes({**lacking, "pod class": PendingPodClass(9, "", "d")}, pools, planned)

    assert short == {"replicas of NodePool/b", "replicas of NodePool/c"}


def test_a_refused_launch_concerns_the_pods_of_its_claims_their_static_pool_and_standalone_claims() -> None:
    ref = NodeClassRef("EC2NodeClass", "default")
    claims = [NodeClaim("default-1", ref, pool="default"), NodeClaim("mine", ref), NodeClaim("launched", ref)]
    assigned = {"default-1": {"small": 2, "large": 1}, "launched": {"other": 1}}

    assert keys_of_refused_claims(claims, {"default-1", "mine"}, assigned) == {
        "small",
        "large",
        *(replicas_key(key) for each in claims[:2] for key in (each.key, each.pool_key)),
    }

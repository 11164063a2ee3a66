"""In-flight capacity counts: the planner does not request it twice, and uses what is free on it."""

from typing import Any

from joiner.cluster import Pod
from joiner.planning import Plan, Snapshot
from joiner.planning.model.pending_pods import select_pods
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    HOST,
    ZONES,
    Json,
    affinity,
    near,
    node_pool,
    planned,
    pod,
    pods,
    running,
)

TYPE = "m.xlarge"
LABELS = {
    "karpenter.sh/nodepool": "default",
    "node.kubernetes.io/instance-type": TYPE,
    "topology.kubernetes.io/zone": ZONES[0],
    "karpenter.sh/capacity-type": "on-demand",
}
FILLING = {"key": "joiner.dev/filling", "effect": "NoSchedule"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}


def claim(name: str = "default-1", *, launched: bool = True, initialized: bool = False, **more: Any) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": "True" if true else "False", "reason": kind, "message": ""}
        for kind, true in (("Launched", launched), ("Registered", initialized), ("Initialized", initialized))
    ]
    status: dict[str, Any] = {"conditions": conditions}
    if launched:
        known = CATALOGUE[TYPE]
        status |= {
            "providerID": f"aws:///{ZONES[0]}/i-1",
            "capacity": known["capacity"],
            "allocatable": known["allocatable"],
        }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "labels": LABELS if launched else {"karpenter.sh/nodepool": "default"},
            **more.pop("metadata", {}),
        },
        "spec": {"nodeClassRef": reference, "requirements": [], "resources": {"requests": {"cpu": "3"}}, **more},
        "status": status,
    }


def joined(*taints: Json, ready: bool = True) -> dict[str, Any]:
    """Return the node of the claim."""
    known = CATALOGUE[TYPE]
    return {
        "metadata": {"name": "ip-10-0-0-1", "labels": {**known["labels"], **LABELS, HOST: "ip-10-0-0-1"}},
        "spec": {"providerID": f"aws:///{ZONES[0]}/i-1", "taints": list(taints)},
        "status": {
            **{name: known[name] for name in ("capacity", "allocatable")},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def cluster(waiting_pods: list[dict[str, Any]], *claims: Json, **more: Any) -> dict[str, Any]:
    return {
        "pods": waiting_pods,
        "nodepools": [node_pool(limits=more.pop("limits", {}))],
        "nodeclaims": list(claims),
        **more,
    }


def assigned(plan_pods: list[dict[str, Any]], count: int, name: str = "default-1") -> dict[str, dict[str, int]]:
    return {name: {Pod.from_kube(plan_pods[0]).class_key: count}}


def summary(plan: Plan) -> tuple[int, list[tuple[str, str, int]]]:
    return len(plan.nodes), [(one.node, one.claim, len(one.pods)) for one in plan.existing]


def test_pods_that_a_claim_was_made_for_are_not_planned_for_again() -> None:
    mine = pods(3, cpu="1")

    assert summary(planned_with(cluster(mine, claim()), assigned(mine, 3))) == (0, [])


def test_new_pods_use_the_capacity_that_a_claim_has_left() -> None:
    mine = pods(3, cpu="1")
    more = [*mine, pod("late", app="late", cpu="500m")]

    assert summary(planned_with(cluster(more, claim()), assigned(mine, 3))) == (0, [("", "default-1", 1)])


def test_what_does_not_fit_beside_them_gets_its_own_node() -> None:
    mine = pods(3, cpu="1")
    more = [*mine, pod("late", app="late", cpu="1500m")]

    assert summary(planned_with(cluster(more, claim()), assigned(mine, 3))) == (1, [])


def test_a_slot_is_for_any_pod_of_the_class() -> None:
    before, after = pods(3, cpu="1"), [pod(f"web-{number}", cpu="1") for number in (7, 8, 9)]

    assert summary(planned_with(cluster(after, claim()), assigned(before, 3))) == (0, [])


def drained() -> dict[str, Any]:
    """Return a node of Joiner that is being drained."""
    node = joined({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"})
    node["metadata"]["name"] = node["metadata"]["labels"][HOST] = "ip-10-0-0-9"
    node["spec"]["providerID"] = f"aws:///{ZONES[0]}/i-9"
    return node


def leaving_pod(name: str) -> dict[str, Any]:
    """Return a pod of a ReplicaSet that runs on the drained node."""
    one = running(name, "ip-10-0-0-9", cpu="1")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    return {**one, "metadata": {**one["metadata"], "ownerReferences": [owner]}}


def test_pods_that_still_run_on_a_drained_node_have_their_slots_on_its_replacement() -> None:
    leaving = [leaving_pod(f"web-{number}") for number in range(3)]
    late = pod("late", app="late", cpu="1500m")
    without: dict[str, dict[str, int]] = {"default-1": {}}
    slots = assigned(leaving, 3)

    assert summary(planned_with(cluster([*leaving, late], claim(), nodes=[drained()]), without))[0] == 1
    assert summary(planned_with(cluster(leaving, claim(), nodes=[drained()]), slots)) == (0, [])
    assert summary(planned_with(cluster([*leaving, late], claim(), nodes=[drained()]), slots)) == (1, [])


def test_a_pod_that_leaves_by_a_rollout_needs_no_slot_beside_the_pod_that_replaces_it() -> None:
    old, replacing = leaving_pod("web-0"), pod("web-1", cpu="1")
    old["metadata"] = {**old["metadata"], "annotations": {"joiner.dev/drain": "rollout"}}
    there = cluster([old, replacing], claim(), nodes=[drained()])

    found = select_pods(Snapshot.from_lists(there, assignments=assigned([old], 1)))

    assert [one.name for one in found.reserved["NodeClaim/default-1"]] == ["web-1"]
    assert found.pending == ()


def test_a_pod_without_a_node_has_a_slot_before_one_that_still_runs() -> None:
    leaving, waiting = leaving_pod("web-0"), pod("web-1", cpu="1")
    there = cluster([leaving, waiting], claim(), nodes=[drained()])

    found = select_pods(Snapshot.from_lists(there, assignments=assigned([leaving], 1)))

    assert [one.name for one in found.reserved["NodeClaim/default-1"]] == ["web-1"]
    assert [one.name for one in found.pending] == ["web-0"]


def test_slots_go_to_the_most_important_pods_first() -> None:
    mine = [pod("young", cpu="1"), pod("old", cpu="1")]
    mine[0]["metadata"]["creationTimestamp"], mine[1]["metadata"]["creationTimestamp"] = (
        "2026-11-21T05:00:02Z",
        "2026-11-21T05:00:01Z",
    )
    who = select_pods(Snapshot.from_lists(cluster(mine, claim()), assignments=assigned(mine, 1)))

    assert [one.name for one in who.reserved["NodeClaim/default-1"]] == ["old"]
    assert [one.name for one in who.pending] == ["young"]


def test_a_launch_without_an_answer_keeps_its_pods_and_takes_no_others() -> None:
    mine = pods(3, cpu="1")
    more = [*mine, pod("late", app="late", cpu="100m")]
    plan = planned_with(cluster(more, claim(launched=False)), assigned(mine, 3), in_flight=["default-1"])

    assert summary(plan) == (1, [])
    assert plan.nodes[0].pods == ("default/late",)


def test_a_claim_that_never_entered_a_launch_is_nothing() -> None:
    mine = pods(3, cpu="1")

    assert summary(planned_with(cluster(mine, claim(launched=False)), assigned(mine, 3))) == summary(
        planned_with(cluster(mine), {})
    )


def test_a_claim_that_is_going_is_nothing() -> None:
    mine = pods(3, cpu="1")
    going = claim(metadata={"deletionTimestamp": "2026-11-21T05:17:28Z"})

    assert summary(planned_with(cluster(mine, going), assigned(mine, 3))) == summary(planned_with(cluster(mine), {}))


def test_taints_that_are_removed_automatically_do_not_count_on_a_joining_node() -> None:
    mine = pods(1, cpu="1")
    starting = {"key": "cilium", "effect": "NoExecute"}
    lists = cluster(mine, claim(startupTaints=[starting]), nodes=[joined(FILLING, UNREGISTERED, starting)])

    assert summary(planned_with(lists, {})) == (0, [("ip-10-0-0-1", "default-1", 1)])


def test_a_node_that_has_joined_is_closed_by_every_taint_but_filling() -> None:
    mine = pods(1, cpu="1")
    closed = cluster(
        mine, claim(initialized=True), nodes=[joined({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})]
    )
    open_soon = cluster(mine, claim(initialized=True), nodes=[joined(FILLING)])

    assert summary(planned_with(closed, {}))[0] == 1
    assert summary(planned_with(open_soon, {})) == (0, [("ip-10-0-0-1", "default-1", 1)])


def test_a_device_that_a_claim_requests_comes_with_its_node_although_its_type_has_none() -> None:
    device = "smarter-devices/fuse"
    requests = {"requests": {"cpu": "1", device: "1"}}
    mine = pods(1, containers=[{"name": "main", "resources": requests}])
    booting = cluster(mine, claim(resources=requests))
    unknown = claim(resources=requests)
    del unknown["status"]["allocatable"]
    starting = cluster(mine, claim(resources=requests), nodes=[joined(FILLING)])
    complete = cluster(mine, claim(resources=requests, initialized=True), nodes=[joined()])

    for lists in (booting, cluster(mine, unknown)):
        assert summary(planned_with(lists, {})) == (0, [("", "default-1", 1)])
    assert summary(planned_with(starting, {})) == (0, [("ip-10-0-0-1", "default-1", 1)])
    assert [one.pod for one in planned_with(complete, {}).pending] == ["default/web-0"]


def test_running_pods_use_capacity_beside_the_slots_that_are_left() -> None:
    mine = pods(2, cpu="1")
    lists = cluster(
        [running("web-9", "ip-10-0-0-1", cpu="1"), *mine, pod("late", app="late", cpu="1500m")],
        claim(),
        nodes=[joined(FILLING)],
    )

    assert summary(planned_with(lists, assigned(mine, 2))) == (1, [])


def test_rules_between_pods_count_those_that_will_come() -> None:
    mine = pods(1, cpu="100m", **affinity(podAntiAffinity=[near(HOST, "web")]))
    second = pod("web-1", cpu="100m", **affinity(podAntiAffinity=[near(HOST, "web")]))

    assert summary(planned_with(cluster([*mine, second], claim()), assigned(mine, 1))) == (1, [])


def test_limits_count_claims_on_their_way() -> None:
    mine = pods(1, cpu="3")
    plan = planned_with(
        cluster([*mine, pod("late", app="late", cpu="3")], claim(), limits={"cpu": "6"}), assigned(mine, 1)
    )

    assert summary(plan) == (0, [])
    assert "limit cpu 6 of NodePool/default: 4 used, the pod needs 3 " in str(plan.pending[0].reasons[0])


def planned_with(
    lists: dict[str, Any], assignments: dict[str, dict[str, int]], in_flight: list[str] | None = None
) -> Plan:
    return planned(lists, assignments=assignments, in_flight=in_flight or [])

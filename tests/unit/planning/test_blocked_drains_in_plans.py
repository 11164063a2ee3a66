"""Pods of a node that cannot be drained: rules of other pods hold for where they run, not for where they would move."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.cluster import Pod, Volumes
from joiner.planning import Plan, Snapshot
from joiner.planning.model.pending_pods import select_pods
from joiner.planning.model.pod_stages import PodStage
from joiner.planning.model.volume_constraints import find_volume_constraints
from joiner.planning.output.unplanned_classes import find_moving_classes
from joiner.planning.planner import Planner
from joiner.planning.state.domain_assignment import assign_domains, assign_quotas
from joiner.planning.state.plan_state import PlanState
from tests.unit.planning.blocked_drains import AT, draining_node, on_draining_node
from tests.unit.planning.checked_plans import checked
from tests.unit.planning.drawn_clusters import (
    CATALOGUE,
    CLASSES,
    HOST,
    ZONE,
    ZONES,
    Json,
    affinity,
    near,
    node,
    node_pool,
    planned,
    pod,
    spread,
)
from tests.unit.planning.volume_manifests import LATER, csi_node, volume
from tests.unit.planning.volume_manifests import claim as volume_claim

OWN_SPREAD: dict[str, Any] = {"topologySpreadConstraints": [spread()]}


def web(number: int = 0, *, app: str = "web", where: str = "going", metadata: Json | None = None, **spec: Any) -> Any:
    """Return a pod that runs on the node that is being drained."""
    return on_draining_node(pod(f"{app}-{number}", app=app, cpu="1", **spec), where, **(metadata or {}))


def cluster(*listed: Json, **drain: Any) -> dict[str, Any]:
    """Return a cluster with a node in the second zone that is being drained, and a free one in the first."""
    leaving, claim = draining_node(**drain)
    return {
        "pods": list(listed),
        "nodepools": [node_pool()],
        "nodes": [leaving, node("free", zone=ZONES[0])],
        "nodeclaims": [claim],
    }


def launched_claim(zone: str) -> Json:
    """Return a claim whose node has not joined."""
    _, claim = draining_node("launched", zone=zone)
    labels = {**claim["metadata"]["labels"], ZONE: zone, "node.kubernetes.io/instance-type": "m.xlarge"}
    launched = [{"type": "Launched", "status": "True", "reason": "Launched", "message": ""}]
    status = {"providerID": "aws:///a/i-1", "conditions": launched, "allocatable": CATALOGUE["m.xlarge"]["allocatable"]}
    return {**claim, "metadata": {"name": "launched", "labels": labels}, "status": status}


def placed(plan: Plan) -> dict[str, str]:
    """Return the zone of each pod that the plan places, by its name; that of existing nodes is the first."""
    found = {key[8:]: ZONES[0] for one in plan.existing for key in one.pods}
    return found | {key[8:]: one.zone for one in plan.nodes for key in one.pods}


BESIDE_WEB = affinity(podAffinity=[near(ZONE, "web")])


def test_a_pod_that_must_run_beside_a_pod_that_cannot_leave_gets_a_node_in_its_zone() -> None:
    plan = checked(cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB)))

    assert placed(plan) == {"cache": ZONES[1], "web-0": ZONES[0]}


def test_a_pod_beside_one_that_leaves_now_follows_it() -> None:
    plan = checked(cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB), blockers=()))

    assert plan.nodes == ()
    assert placed(plan) == {"cache": ZONES[0], "web-0": ZONES[0]}


def test_anti_affinity_and_spreads_count_a_pod_where_it_cannot_leave() -> None:
    apart = pod("apart", app="apart", cpu="1", **affinity(podAntiAffinity=[near(ZONE, "web")]))
    shy = web(**affinity(podAntiAffinity=[near(ZONE, "loud")]))
    own = pod("web-1", cpu="1", **OWN_SPREAD)

    for world in (cluster(web(), apart), cluster(shy, pod("loud", app="loud", cpu="1")), cluster(web(), own)):
        found = placed(checked(world))
        assert len(found) == 2
        assert found[next(name for name in found if name != "web-0")] != ZONES[1]


def test_a_pod_that_asks_not_to_be_disrupted_is_counted_where_it_runs() -> None:
    protected = web(metadata={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
    plan = checked(cluster(protected, pod("cache", app="cache", cpu="1", **BESIDE_WEB)))

    assert placed(plan) == {"cache": ZONES[1]}


def test_no_pod_is_planned_on_the_node_that_is_drained() -> None:
    tolerant: dict[str, Any] = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {ZONE: ZONES[1]}}
    plan = checked(cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB, **tolerant)))

    assert [one.node for one in plan.existing] == ["free"]
    assert placed(plan) == {"cache": ZONES[1], "web-0": ZONES[0]}


def test_pods_that_fit_elsewhere_are_not_planned_again_until_something_changes() -> None:
    world = cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB))
    snapshot = Snapshot.from_lists(world)

    assert select_pods(snapshot).blocked == {"default/web-0"}
    assert find_moving_classes(planned(world), snapshot) == {Pod.from_kube(web()).class_key}


@pytest.mark.parametrize(
    "rules",
    [OWN_SPREAD, affinity(podAntiAffinity=[near(HOST, "web")]), affinity(podAffinity=[near(ZONE, "web")])],
    ids=["spread", "anti-affinity", "affinity"],
)
def test_all_replicas_of_a_blocked_drain_get_room_in_one_plan(rules: dict[str, Any]) -> None:
    replicas = [*(web(number, **rules) for number in range(6)), pod("web-6", cpu="1", **rules)]
    held, free = checked(cluster(*replicas)), checked(cluster(*replicas, blockers=()))

    assert placed(held).keys() == placed(free).keys()
    assert len(held.nodes) <= len(free.nodes) + 1


def test_a_drain_that_evicts_one_pod_at_a_time_needs_no_node_beyond_the_first_plan() -> None:
    replicas = [web(number, **OWN_SPREAD) for number in range(12)]
    world = cluster(*replicas)
    first = checked(world)
    joined = [node(one.name, zone=one.zone, cpu=one.capacity["cpu"] // 1000) for one in first.nodes]
    world["nodes"] = [*world["nodes"], *joined]
    zones = {one["metadata"]["name"]: one["metadata"]["labels"][ZONE] for one in world["nodes"]}
    evicted_to: Counter[str] = Counter()
    for number in range(12):
        world["pods"][number] = pod(f"web-{number}", cpu="1", **OWN_SPREAD)
        plan = checked(world)
        assert plan.nodes == ()
        [where] = [one.node for one in plan.existing if f"default/web-{number}" in one.pods]
        world["pods"][number] = on_draining_node(world["pods"][number], where)
        evicted_to[zones[where]] += 1

    assert sorted(evicted_to.values()) == [4, 4, 4]


def test_a_replacement_starts_where_its_affinity_is_met_while_the_others_still_run() -> None:
    beside = affinity(podAffinity=[near(ZONE, "web")])
    world = cluster(web(0, **beside), web(1, **beside))
    closed = {**world, "nodepools": [node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [ZONES[2]]}])]}

    assert set(placed(checked(world)).values()) == {ZONES[1]}
    assert len(placed(checked(closed))) == 2  # no new node can be in the zone where they run


def test_a_replacement_keeps_apart_from_pods_of_another_blocked_drain() -> None:
    there = [
        web(**affinity(podAntiAffinity=[near(ZONE, "api")])),
        web(app="api", where="other", **affinity(podAntiAffinity=[near(ZONE, "api")])),
    ]
    other, claim = draining_node("other", zone=ZONES[2])
    world = cluster(*there)
    world["nodes"] = [world["nodes"][0], other, node("free", zone=ZONES[2])]
    world["nodeclaims"].append(claim)
    plan = checked(world)

    assert [(one.node, one.pods) for one in plan.existing] == [("free", ("default/api-0",))]
    assert placed(plan)["web-0"] != ZONES[2]


def test_replacements_spread_as_if_the_node_that_is_drained_were_gone() -> None:
    elsewhere = node_pool(requirements=[{"key": ZONE, "operator": "In", "values": [ZONES[0], ZONES[2]]}])
    plan = checked({**cluster(*(web(number, **OWN_SPREAD) for number in range(4))), "nodepools": [elsewhere]})

    assert sorted(placed(plan).values()) == [ZONES[0], ZONES[0], ZONES[2], ZONES[2]]


def test_a_pod_that_must_run_beside_one_that_stays_has_a_place() -> None:
    follower = web(app="follower", **affinity(podAffinity=[near(HOST, "web")]))
    apart = pod("apart", app="apart", cpu="1", **affinity(podAntiAffinity=[near(ZONE, "web")]))
    plan = checked(cluster(follower, web(), apart))
    node_of = {key: one for one in plan.nodes for key in one.pods}

    assert plan.pending == ()
    assert node_of["default/follower-0"] is node_of["default/web-0"]


def test_pods_that_wait_come_before_pods_that_still_run() -> None:
    world = cluster(web(priority=1000), pod("late", app="late", cpu="1", priority=0))
    world |= {"nodes": world["nodes"][:1], "nodepools": [node_pool(limits={"nodes": "2"})]}
    plan = checked(world, catalogue={"s.large": CATALOGUE["s.large"]})

    assert [one.pods for one in plan.nodes] == [("default/late",)]
    assert [one.pod for one in plan.pending] == ["default/web-0"]


def test_a_slot_reserves_room_for_a_pod_and_its_rules_hold_where_it_still_runs() -> None:
    replaced = web(**OWN_SPREAD)
    world = cluster(replaced, pod("cache", app="cache", cpu="100m", **BESIDE_WEB))
    world["nodeclaims"].append(launched_claim(ZONES[2]))
    slots = {"launched": {Pod.from_kube(replaced).class_key: 1}}

    assert placed(planned(world, assignments=slots)) == {"cache": ZONES[1]}
    assert placed(planned(world)) == {"cache": ZONES[1], "web-0": ZONES[0]}


def test_a_pod_takes_its_claim_for_one_pod_along() -> None:
    mounted = web(volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}])
    disk = {
        "persistentvolumeclaims": [volume_claim("disk", volume="disk", modes="ReadWriteOncePod")],
        "persistentvolumes": [volume("disk", ZONES[1])],
    }
    plan = checked(cluster(mounted, pod("other", app="other")) | disk)

    assert placed(plan) == {"web-0": ZONES[1], "other": ZONES[0]}


@pytest.mark.parametrize(
    "drain",
    [
        {
            "metadata": {
                "deletionTimestamp": "2026-11-28T12:00:00Z",
                "annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2026-11-28T12:01:00Z"},
            }
        },
        {"metadata": {"deletionTimestamp": "2026-11-28T12:00:00Z"}, "terminationGracePeriod": "10m"},
        {"until": AT + timedelta(minutes=2)},
    ],
    ids=["annotation", "grace period", "interruption"],
)
def test_the_pods_of_a_drain_that_ends_soon_leave_although_it_is_blocked(drain: dict[str, Any]) -> None:
    world = cluster(web(), pod("cache", app="cache", cpu="1", **BESIDE_WEB), **drain)

    assert select_pods(Snapshot.from_lists(world)).blocked == frozenset()
    assert placed(checked(world)) == {"web-0": ZONES[0], "cache": ZONES[0]}


def test_a_deadline_far_away_keeps_the_rules_where_the_pods_run_and_gives_them_room() -> None:
    tomorrow = {"until": AT + timedelta(days=1), "terminationGracePeriod": "24h"}
    world = cluster(
        web(),
        pod("cache", app="cache", cpu="1", **BESIDE_WEB),
        metadata={"deletionTimestamp": "2026-11-28T12:00:00Z"},
        **tomorrow,
    )

    assert placed(checked(world)) == {"web-0": ZONES[0], "cache": ZONES[1]}


def stated(world: Any, **more: Any) -> PlanState:
    """Return the state before the search."""
    return Planner().state(Snapshot.from_lists(world, **more), Catalogue.from_json(CATALOGUE), classes=CLASSES)


def test_zones_are_assigned_first_to_the_pods_that_wait() -> None:
    there = [web(number, **OWN_SPREAD) for number in range(6)]
    state = stated(cluster(*there, *(pod(f"web-{number}", cpu="1", **OWN_SPREAD) for number in range(6, 9))))
    waiting, running = state.groups.pending
    shares = assign_domains(state, state.groups.pending, dict.fromkeys(state.groups.pending, 1.0)).shares_of
    assign_quotas(state, state.groups.pending)

    assert (waiting.stage, running.stage) == (PodStage.CURRENT, PodStage.EVICTED)
    assert shares[waiting][1][ZONES[1]] == 0
    assert {zone: shares[waiting][1][zone] + shares[running][1][zone] for zone in ZONES} == dict.fromkeys(ZONES, 3)
    assert state.quotas[running.index] == dict.fromkeys(ZONES, 2)


def test_preferences_count_a_pod_where_it_runs_and_its_replacement_where_it_will_run() -> None:
    soft: dict[str, Any] = {"topologySpreadConstraints": [{**spread(), "whenUnsatisfiable": "ScheduleAnyway"}]}
    state = stated(cluster(web(**soft), pod("web-9", cpu="1", **soft)))
    seen = {
        group.stage: dict(counts.by_domain)
        for group in state.groups.pending
        for _, counts in state.rules[group.index].preferred
    }

    assert seen == {PodStage.CURRENT: {ZONES[1]: 1}, PodStage.EVICTED: {}}


def test_a_slot_is_for_a_pod_that_leaves_now_before_one_whose_drain_is_blocked() -> None:
    world = cluster(web(), web(1, where="leaving"))
    leaving, claim = draining_node("leaving", blockers=())
    world["nodes"].append(leaving)
    world["nodeclaims"] += [claim, launched_claim(ZONES[2])]
    slots = {"launched": {Pod.from_kube(web()).class_key: 1}}
    found = select_pods(Snapshot.from_lists(world, assignments=slots))

    assert [[one.name for one in taken] for taken in found.reserved.values()] == [["web-1"]]
    assert [one.name for one in found.pending] == ["web-0"]


def test_a_volume_of_a_pod_and_of_its_replacement_is_not_shared() -> None:
    mounted = Pod.from_kube(web(volumes=[{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]))
    limited = Volumes.from_lists(
        [volume_claim("disk", volume="disk")], [volume("disk", ZONES[1])], [LATER], [csi_node("going", 5)], []
    )

    assert find_volume_constraints([mounted], [mounted], limited)[mounted.key].common == ()


class CountedLabels(dict[str, str]):
    """Labels that count how often they are read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        type(self).reads += 1
        return super().get(key, default)

    def items(self) -> Any:
        type(self).reads += 1
        return super().items()


def count_reads(number: int) -> int:
    """Return how often the labels of pods are read until a plan of this many pods of each kind begins."""
    there = [web(each) for each in range(number)]
    waiting = [pod(f"job-{each}", app=f"job-{each}", **BESIDE_WEB) for each in range(number)]
    snapshot = Snapshot.from_lists(cluster(*there, *waiting))
    counted = tuple(replace(one, labels=CountedLabels({**one.labels, "pod": one.name})) for one in snapshot.pods)
    CountedLabels.reads = 0
    state = Planner().state(replace(snapshot, pods=counted), Catalogue.from_json(CATALOGUE), classes=CLASSES)
    assert state.pods_left == 2 * number
    return CountedLabels.reads


def test_pods_of_blocked_drains_are_not_compared_with_every_other_pod() -> None:
    assert 100 < count_reads(200) <= 2.2 * count_reads(100)

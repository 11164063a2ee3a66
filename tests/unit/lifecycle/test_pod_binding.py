"""Which pods are bound to a node while it is closed, and which are left to the scheduler."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import Node, Pod, sum_resources
from joiner.lifecycle.pod_binding import BindingInput, choose_bindings, count_open_slots
from joiner.planning.inputs.default_spreads import DefaultSpreads
from tests.unit.lifecycle.joining_nodes import FILLING, LINGERING, daemon_pod, node, pod

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
WEB = {"app": "web"}


def bound(target: Node, slots: Mapping[str, int], pods: Sequence[Pod], *others: Node) -> list[str]:
    """Return the pods bound to one node, in the order of the bindings."""
    binding_input = BindingInput({each.name: each for each in (target, *others)}, pods)
    return [binding.pod for binding in choose_bindings([(target, slots)], binding_input)[target.name].bindings]


def refusal(target: Node, waiting: Pod, *others: Any) -> str:
    """Return why the one pending pod is left to the scheduler."""
    nodes = [each for each in others if isinstance(each, Node)]
    pods = [waiting, *(each for each in others if isinstance(each, Pod))]
    placement = choose_bindings(
        [(target, {waiting.class_key: 1})], BindingInput({each.name: each for each in (target, *nodes)}, pods)
    )[target.name]
    return "" if placement.bindings else placement.left[waiting.class_key]


def rule(kind: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": WEB}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str) -> dict[str, Any]:
    selector = {"matchLabels": WEB}
    return {
        "topologySpreadConstraints": [
            {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        ]
    }


def test_a_slot_is_for_any_pod_of_the_class_the_oldest_first() -> None:
    pods = [pod("new", created="2026-11-21T11:59:30Z"), pod("old"), pod("other", cpu="500m")]

    assert bound(node(), {pods[0].class_key: 1}, pods) == ["old"]


def test_equal_pods_of_two_workloads_share_the_nodes() -> None:
    pods = [replace(pod(f"{name}-{number}", cpu="100m"), owner_name=name) for name in ("a", "b") for number in range(4)]
    targets = [node("node-1"), node("node-2")]

    placements = choose_bindings(
        [(target, {pods[0].class_key: 4}) for target in targets],
        BindingInput({each.name: each for each in targets}, pods),
    )

    for target in targets:
        names = [binding.pod[0] for binding in placements[target.name].bindings]
        assert sorted(names) == ["a", "a", "b", "b"]


def test_a_pod_that_the_scheduler_has_not_tried_yet_may_take_a_slot() -> None:
    fresh = pod("fresh", unschedulable=False)

    assert bound(node(), {fresh.class_key: 1}, [fresh]) == ["fresh"]


def test_the_highest_priority_goes_first_when_the_room_is_not_enough() -> None:
    low, high = pod("low", cpu="1500m"), pod("high", cpu="1500m", spec={"priority": 1000})

    assert bound(node(), {low.class_key: 1, high.class_key: 1}, [low, high]) == ["high"]


def test_daemon_pods_that_the_taint_kept_out_come_before_all_others() -> None:
    big, daemon, elsewhere = pod("big", cpu="2"), daemon_pod("logs-1", "node-1"), daemon_pod("logs-2", "node-2")

    assert bound(node(), {big.class_key: 1}, [big, daemon, elsewhere]) == ["logs-1"]


def test_a_daemon_pod_that_another_taint_keeps_out_is_not_bound() -> None:
    closed = node(taints=[FILLING, {"key": "team", "effect": "NoSchedule"}])

    assert bound(closed, {}, [daemon_pod("logs", "node-1")]) == []
    assert bound(closed, {}, [daemon_pod("logs", "node-1", tolerations=[{"key": "team", "operator": "Exists"}])]) == [
        "logs"
    ]


@pytest.mark.parametrize(
    ("seconds", "names"), [({}, ["web"]), ({"tolerationSeconds": 300}, ["web"]), ({"tolerationSeconds": 5}, [])]
)
def test_a_taint_that_lingers_keeps_out_only_whom_it_would_drive_off(seconds: dict[str, int], names: list[str]) -> None:
    waiting = pod("web", spec={"tolerations": [{**LINGERING, "operator": "Exists", **seconds}]})

    assert bound(node(taints=[FILLING, LINGERING]), {waiting.class_key: 1}, [waiting]) == names


def test_no_more_pods_are_bound_than_the_claim_has_slots() -> None:
    pods = [pod(f"p-{number}", cpu="100m") for number in range(5)]

    assert bound(node(), {pods[0].class_key: 2}, pods) == ["p-0", "p-1"]


def test_a_second_pass_counts_the_pods_that_the_first_one_bound() -> None:
    there, waiting = pod("there", on="node-1", cpu="500m"), pod("waiting", cpu="500m")

    assert bound(node(), {waiting.class_key: 1}, [there, waiting]) == []
    assert bound(node(), {waiting.class_key: 2}, [there, waiting]) == ["waiting"]
    assert count_open_slots("node-1", {waiting.class_key: 3}, [there]) == {waiting.class_key: 2}


def test_the_live_node_decides_what_fits() -> None:
    small = node(allocatable={"cpu": "900m"})

    assert refusal(small, pod("web")) == "the node lacks 100m cpu"


def test_bindings_name_the_pod_that_was_looked_at() -> None:
    waiting = pod("web")
    (binding,) = choose_bindings([(node(), {waiting.class_key: 1})], BindingInput({"node-1": node()}, [waiting]))[
        "node-1"
    ].bindings

    assert (binding.namespace, binding.uid, binding.node) == (
        "default",
        "uid-of-web",
        "node-1",
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"schedulerName": "volcano"}, "it belongs to the scheduler volcano"),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "volumes"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
        ({"nodeSelector": {"disk": "ssd"}}, "its node selector, affinity or operating system does not suit the node"),
        ({"os": {"name": "windows"}}, "its node selector, affinity or operating system does not suit the node"),
        (rule("podAffinity", HOSTNAME), "affinity to other pods"),
        (rule("podAntiAffinity", ZONE), "affinity to other pods"),
    ],
    ids=[
        "another scheduler",
        "a volume",
        "a resource claim",
        "a selector",
        "another system",
        "affinity",
        "anti-affinity by zone",
    ],
)
def test_what_is_not_exact_here_is_left_to_the_scheduler(spec: dict[str, Any], why: str) -> None:
    assert why in refusal(node(), pod("web", labels=WEB, spec=spec))


def test_a_gated_pod_is_not_bound() -> None:
    gated = pod("gated", spec={"schedulingGates": [{"name": "quota"}]})

    assert refusal(node(), gated) == "no pod of the class waits"


def test_a_pod_does_not_come_to_a_host_that_it_stays_away_from() -> None:
    picky = pod("picky", labels=WEB, spec=rule("podAntiAffinity", HOSTNAME))

    assert refusal(node(), picky) == ""
    assert (
        refusal(node(), picky, pod("there", on="node-1", labels=WEB, cpu="100m"))
        == "a pod on the node matches its anti-affinity"
    )


def test_a_pod_does_not_come_where_another_one_keeps_it_away() -> None:
    guard = pod("guard", on="node-2", cpu="100m", spec=rule("podAntiAffinity", ZONE))
    far = node("node-2", labels={ZONE: "us-east-1b"})

    found = refusal(node(), pod("web", labels=WEB), node("node-2"), guard)
    assert found == "the anti-affinity of default/guard matches it"
    assert refusal(node(), pod("web", labels=WEB), far, guard) == ""


def test_a_host_port_is_taken_once() -> None:
    port = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}

    other = pod("there", on="node-1", spec={**port, "priority": 5})

    assert refusal(node(), pod("web", spec=port), other) == "a host port that it needs is taken"


def test_a_spread_is_kept_by_the_live_skew() -> None:
    waiting = pod("web", labels=WEB, spec=spread(ZONE), cpu="100m")
    there = pod("there", on="node-1", labels=WEB, cpu="100m")
    far = node("node-2", labels={ZONE: "us-east-1b"})

    assert refusal(node(), waiting, far) == ""
    assert refusal(node(), waiting, far, there) == f"it would be spread unevenly over {ZONE}"
    assert refusal(node(), waiting, far, there, pod("over-there", on="node-2", labels=WEB)) == ""


@pytest.mark.parametrize(("hard", "why"), [(True, ""), (False, f"it would be spread unevenly over {ZONE}")])
def test_a_node_counts_for_a_spread_if_it_has_the_keys_of_all_hard_spreads_of_the_pod(hard: bool, why: str) -> None:
    """The node in the other zone, which has none of these pods, has no rack."""
    racks = spread("rack")["topologySpreadConstraints"][0] | {"maxSkew": 9}
    racks |= {} if hard else {"whenUnsatisfiable": "ScheduleAnyway"}
    both = {"topologySpreadConstraints": [*spread(ZONE)["topologySpreadConstraints"], racks]}
    waiting = pod("web", labels=WEB, spec=both, cpu="100m")
    here = node(labels={ZONE: "us-east-1a", "rack": "r1"})
    there = pod("there", on="node-1", labels=WEB, cpu="100m")
    elsewhere = node("node-2", labels={ZONE: "us-east-1b"})

    assert refusal(here, waiting, elsewhere, there) == why


@pytest.mark.parametrize("key", [ZONE, HOSTNAME])
@pytest.mark.parametrize("declared", [{}, {"os": {"name": "linux"}}], ids=["no system", "linux"])
def test_a_node_of_windows_counts_for_the_spread_of_pods_that_declare_linux(key: str, declared: dict[str, Any]) -> None:
    """kube-scheduler reads their node selector and affinity, not `spec.os`."""
    waiting = pod("web", labels=WEB, spec={**spread(key), **declared}, cpu="100m")
    there = pod("there", on="node-1", labels=WEB, cpu="100m")
    windows = node("node-2", labels={ZONE: "us-east-1c", "kubernetes.io/os": "windows"})

    assert refusal(node(), waiting, windows) == ""
    assert refusal(node(), waiting, windows, there) == f"it would be spread unevenly over {key}"


def test_pods_bound_in_this_pass_count_for_the_nodes_after_it() -> None:
    one, two = node("node-1"), node("node-2", provider_id="aws:///us-east-1a/i-2")
    pods = [
        pod("web-1", labels=WEB, spec=rule("podAntiAffinity", HOSTNAME)),
        pod("web-2", labels=WEB, spec=rule("podAntiAffinity", HOSTNAME)),
    ]
    slots = {pods[0].class_key: 2}

    placements = choose_bindings([(one, slots), (two, slots)], BindingInput({"node-1": one, "node-2": two}, pods))

    assert {name: [each.pod for each in placement.bindings] for name, placement in placements.items()} == {
        "node-1": ["web-1"],
        "node-2": ["web-2"],
    }


def test_pods_that_are_spread_over_zones_are_dealt_out_to_their_nodes_in_turns() -> None:
    nodes = [node(f"node-{zone}", labels={ZONE: f"us-east-1{zone}"}) for zone in "abc"]
    pods = [pod(f"web-{number}", labels=WEB, cpu="100m", spec=spread(ZONE)) for number in range(9)]
    slots = {pods[0].class_key: 3}

    placements = choose_bindings(
        [(each, slots) for each in nodes], BindingInput({each.name: each for each in nodes}, pods)
    )

    assert {name: len(placement.bindings) for name, placement in placements.items()} == {
        "node-a": 3,
        "node-b": 3,
        "node-c": 3,
    }
    assert all(not placement.left for placement in placements.values())


def test_a_spread_that_waits_for_another_zone_is_not_the_scheduler_s_to_end() -> None:
    here, booting = node(), node("node-2", labels={ZONE: "us-east-1b"})
    pods = [pod(f"web-{number}", labels=WEB, cpu="100m", spec=spread(ZONE)) for number in range(4)]

    placed = choose_bindings([(here, {pods[0].class_key: 2})], BindingInput({"node-1": here, "node-2": booting}, pods))[
        "node-1"
    ]

    assert [binding.pod for binding in placed.bindings] == ["web-0"]
    assert (placed.uneven, placed.for_the_scheduler) == (True, False)


@given(
    cpus=st.lists(st.integers(50, 1900), min_size=1, max_size=12),
    counts=st.lists(st.integers(0, 4), min_size=12, max_size=12),
    running=st.lists(st.integers(50, 900), max_size=2),
)
def test_nothing_is_ever_bound_over_capacity_nor_twice(cpus: list[int], counts: list[int], running: list[int]) -> None:
    nodes = [node("node-1"), node("node-2", provider_id="aws:///us-east-1a/i-2")]
    there = [pod(f"there-{index}", on="node-1", cpu=f"{cpu}m") for index, cpu in enumerate(running)]
    waiting = [pod(f"p-{index}", cpu=f"{cpu}m") for index, cpu in enumerate(cpus)]
    slots = {each.class_key: count for each, count in zip(waiting, counts, strict=False)}

    placements = choose_bindings(
        [(each, slots) for each in nodes], BindingInput({each.name: each for each in nodes}, [*there, *waiting])
    )

    by_name = {each.name: each for each in (*there, *waiting)}
    names = [binding.pod for placement in placements.values() for binding in placement.bindings]
    assert len(names) == len(set(names))
    for each in nodes:
        new = [by_name[binding.pod] for binding in placements[each.name].bindings]
        old = [other for other in there if other.node_name == each.name]
        assert not new or sum_resources(other.requests for other in (*old, *new)).fits(each.allocatable)
        for key, count in slots.items():
            assert sum(other.class_key == key for other in new) <= count


def by_default(one: Pod, key: str) -> Pod:
    """Return the pod as the scheduler's default constraint spreads the pods with its label `app`."""
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": one.labels["app"]}}}
    hard = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return DefaultSpreads([hard], {"services": [service]}).given_to(one)


def test_default_spreads_of_two_workloads_of_one_class_are_counted_apart() -> None:
    here, far = node(), node("node-2", labels={ZONE: "us-east-1b"})
    web = [by_default(pod(f"a-{n}", labels=WEB, cpu="100m"), ZONE) for n in range(3)]
    api = [by_default(pod(f"b-{n}", labels={"app": "api"}, cpu="100m"), ZONE) for n in range(3)]
    there = by_default(pod("there", labels=WEB, on="node-1", cpu="100m"), ZONE)
    assert len({one.class_key for one in (*web, *api)}) == 1

    assert bound(here, {web[0].class_key: 6}, [there, *web, *api], far) == ["b-0"]
    assert bound(far, {web[0].class_key: 6}, [there, *web, *api], here) == ["a-0", "a-1", "b-0"]

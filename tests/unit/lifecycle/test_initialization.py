"""When a node may take pods, how it is opened, and how long it may stay closed."""

from datetime import timedelta

import pytest

from joiner.lifecycle import node_deadlines
from joiner.lifecycle.initialization import (
    initialization_patch,
    may_be_filled,
    missing_for_initialization,
    opening_patch,
)
from tests.unit.lifecycle.joining_nodes import (
    FILLING,
    GPUS,
    LINGERING,
    NOON,
    NOT_READY,
    STARTUP,
    UNREGISTERED,
    claim,
    node,
)


def test_a_ready_node_may_take_pods_although_it_is_closed_for_filling() -> None:
    assert missing_for_initialization(claim(), node(taints=[FILLING])) == ""


def test_a_node_that_is_not_ready_waits() -> None:
    assert missing_for_initialization(claim(), node(ready=False)) == "the node is not Ready"


@pytest.mark.parametrize(
    "taint",
    [
        NOT_READY,
        LINGERING,
        UNREGISTERED,
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        {"key": "readiness.k8s.io/network", "effect": "NoSchedule"},
    ],
    ids=lambda taint: f"{taint['key']}:{taint['effect']}",
)
def test_a_node_that_still_starts_waits(taint: dict[str, str]) -> None:
    assert taint["key"] in missing_for_initialization(claim(), node(taints=[taint, FILLING]))


def test_a_ready_node_is_filled_while_the_node_controllers_taint_lingers() -> None:
    assert may_be_filled(claim(), node(taints=[LINGERING, FILLING]))


@pytest.mark.parametrize("other", [NOT_READY, UNREGISTERED])
def test_a_node_that_still_starts_is_not_filled(other: dict[str, str]) -> None:
    assert not may_be_filled(claim(), node(taints=[LINGERING, other, FILLING]))
    assert not may_be_filled(claim(), node(taints=[LINGERING, FILLING], ready=False))


def test_the_pools_startup_taints_are_waited_for_and_its_other_taints_are_not() -> None:
    on = [{"key": STARTUP.key, "effect": STARTUP.effect}]

    assert "startup taint" in missing_for_initialization(claim(startup_taints=(STARTUP,)), node(taints=on))
    assert missing_for_initialization(claim(taints=(STARTUP,)), node(taints=on)) == ""


def test_a_device_that_was_asked_for_must_be_allocatable() -> None:
    wants = claim(requests=GPUS)

    assert missing_for_initialization(wants, node()) == "nvidia.com/gpu is not allocatable yet"
    assert missing_for_initialization(wants, node(allocatable={"nvidia.com/gpu": "1"})) == ""


def test_opening_takes_off_the_filling_taint_alone_at_the_version_that_was_read() -> None:
    team = {"key": "team", "value": "a", "effect": "NoSchedule"}
    patch = initialization_patch(node(taints=[team, FILLING]))

    assert patch == {
        "metadata": {"resourceVersion": "7", "labels": {"karpenter.sh/initialized": "true"}},
        "spec": {"taints": [team]},
    }
    assert "labels" not in opening_patch(node())["metadata"]


def test_no_node_is_closed_for_more_than_five_minutes() -> None:
    assert not node_deadlines.closed_too_long("2026-11-21T11:56:00Z", NOON)
    assert node_deadlines.closed_too_long("2026-11-21T11:54:00Z", NOON)
    assert not node_deadlines.closed_too_long("", NOON)


def test_bindings_that_fail_keep_a_ready_node_closed_for_ten_seconds_at_most() -> None:
    assert not node_deadlines.binding_timed_out(NOON - timedelta(seconds=9), NOON)
    assert node_deadlines.binding_timed_out(NOON - timedelta(seconds=11), NOON)


def test_a_node_that_takes_no_pods_in_a_quarter_of_an_hour_is_given_up() -> None:
    joined = claim().as_registered("node-1", at=NOON)

    assert not node_deadlines.initialization_timed_out(joined, NOON + timedelta(minutes=14))
    assert node_deadlines.initialization_timed_out(joined, NOON + timedelta(minutes=16))
    assert not node_deadlines.initialization_timed_out(joined.as_initialized(at=NOON), NOON + timedelta(minutes=16))
    assert not node_deadlines.initialization_timed_out(claim(), NOON + timedelta(minutes=16))


def test_a_node_that_has_not_joined_in_a_quarter_of_an_hour_is_given_up() -> None:
    launched = claim().with_condition("Launched", "True", at=NOON)

    assert not node_deadlines.registration_timed_out(launched, NOON + timedelta(minutes=14))
    assert node_deadlines.registration_timed_out(launched, NOON + timedelta(minutes=16))
    registered = launched.as_registered("node-1", at=NOON)
    assert not node_deadlines.registration_timed_out(registered, NOON + timedelta(minutes=16))
    assert not node_deadlines.registration_timed_out(claim(), NOON + timedelta(minutes=16))

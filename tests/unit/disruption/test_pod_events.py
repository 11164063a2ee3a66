"""Pod events: a pod that comes to a node, leaves it or ends on it starts the pool's consolidateAfter again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import Node, Pod
from joiner.disruption.disruption_history import SeenPods
from joiner.disruption.last_pod_events import digest_pods, find_pod_events, note_pod_events

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NODE = Node("node-a")
WEB = Pod("shop", "web-0", uid="1", node_name="node-a", phase="Running", owner_kind="ReplicaSet")
DIGESTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (WEB, replace(WEB, uid="2", name="web-1")),
        (replace(WEB, uid="2"),),
        (replace(WEB, phase="Succeeded"),),
        (replace(WEB, deletion="2026-11-21T12:00:00Z"),),
        (replace(WEB, node_name="node-b"),),
    ],
    ids=["gone", "one more", "another of this name", "finished", "terminating", "on another node"],
)
def test_a_pod_that_comes_leaves_or_ends_is_an_event(pods: Sequence[Pod]) -> None:
    assert digest_pods(pods, NODE) != digest_pods([WEB], NODE)


@pytest.mark.parametrize(
    "pods",
    [
        (WEB, Pod("kube-system", "agent", uid="9", node_name="node-a", owner_kind="DaemonSet")),
        (WEB, Pod("shop", "next", uid="9", nominated_node="node-a")),
        (replace(WEB, labels={"version": "2"}, ready=False),),
    ],
    ids=["pod of a daemon set", "nominated pod", "changed pod"],
)
def test_what_is_no_event(pods: Sequence[Pod]) -> None:
    assert digest_pods(pods, NODE) == digest_pods([WEB], NODE)


def test_the_time_of_an_event_is_that_of_the_sweep_that_finds_it() -> None:
    first = note_pod_events({}, {"a": "x", "b": "y"}, 100)
    second = note_pod_events(first, {"a": "z", "b": "y"}, 160)
    third = note_pod_events(second, {"a": "z"}, 220)

    assert first == {"a": SeenPods("x"), "b": SeenPods("y")}
    assert second == {"a": SeenPods("z", 160), "b": SeenPods("y")}
    assert third == {"a": SeenPods("z", 160)}


def test_an_event_since_the_last_sweep_is_one_of_now() -> None:
    seen = {"a": SeenPods("x", int(NOON.timestamp())), "b": SeenPods("y")}
    later = NOON + timedelta(seconds=40)

    assert find_pod_events(seen, {"a": "x", "b": "y"}, later) == {"a": NOON}
    assert find_pod_events(seen, {"a": "z", "b": "y", "c": "w"}, later) == {"a": later}


@given(st.lists(DIGESTS, max_size=8))
def test_a_survey_that_finds_the_same_changes_nothing_and_times_never_go_back(surveys: list[dict[str, str]]) -> None:
    seen: dict[str, SeenPods] = {}
    for at, digests in enumerate(surveys, start=1):
        after = dict(note_pod_events(seen, digests, at))
        assert after == note_pod_events(after, digests, at + 1)
        assert all(after[key].at >= seen[key].at for key in after.keys() & seen.keys())
        seen = after

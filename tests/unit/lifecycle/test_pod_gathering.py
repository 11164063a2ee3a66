"""A batch ends when the controllers of its pods have created them all, or when no new pod comes."""

from collections.abc import Sequence

import pytest

from joiner.cluster import Pod
from joiner.lifecycle.pod_gathering import Batch, BatchTimes, Gathering, missing_pods, must_wait

TIMES = BatchTimes()


def pods(count: int, *, owner: str = "rs-1", message: str | None = "0/0 nodes are available") -> tuple[Pod, ...]:
    return tuple(
        Pod("default", f"{owner or 'bare'}-{n}", owner_uid=owner, owner_kind="ReplicaSet", unschedulable=message)
        for n in range(count)
    )


def batch(*groups: Sequence[Pod]) -> Batch:
    return Batch.of([pod for group in groups for pod in group])


def seconds_of(
    counts: Sequence[int], *missing: int | None, untried: int = 0, times: BatchTimes = TIMES, pause: float = 1
) -> float:
    """Return how many seconds a batch waits that has these numbers of pods, one for each second; the last number
    remains. It is listed again after each `pause`.
    """
    so_far = Gathering()
    while True:
        count = counts[min(int(so_far.waited), len(counts) - 1)]
        if not must_wait(so_far, batch(pods(count), pods(untried, owner="rs-2", message=None)), lambda: missing, times):
            return so_far.waited
        so_far = so_far.after_another(pause, count)


def test_a_batch_is_planned_at_once_if_its_controllers_have_created_all_their_pods() -> None:
    assert seconds_of([500], 0, 0) == 0


def test_a_batch_waits_while_its_controller_creates_pods() -> None:
    created = [44, 303, 620, 940, 1000]
    so_far = Gathering()
    for waited, count in enumerate(created):
        assert so_far.waited == waited
        found = batch(pods(count))
        left = [1000 - count]
        assert must_wait(so_far, found, lambda left=left: left, TIMES) is (count < 1000)  # type: ignore[misc]
        so_far = so_far.after_another(1, count)


def test_a_batch_without_known_controllers_ends_after_a_second_without_new_pods() -> None:
    assert seconds_of([1], None) == 1
    assert seconds_of([1, 2, 3], None) == 3
    assert seconds_of([1, 2, 3], None, pause=0.5) == 3
    assert seconds_of([1], None, pause=0.5) == 1


def test_pods_that_are_listed_before_their_controller_counts_them_are_created() -> None:
    growing = batch(pods(3), pods(2, owner="rs-2"), pods(1, owner="rs-2", message=None))
    status = {"kind": "ReplicaSet", "spec": {"replicas": 3}, "status": {"replicas": 1}}

    assert [missing_pods(status, growing.pods_of(owner)) for owner in ("rs-1", "rs-2", "rs-3")] == [0, 1, 2]
    job = {"kind": "Job", "spec": {"parallelism": 3}, "status": {"active": 1}}
    assert missing_pods(job, growing.pods_of("rs-1")) == 0


def test_a_single_pod_without_a_controller_is_planned_at_once_and_several_wait_for_more() -> None:
    bare = [Pod("default", f"bare-{n}", unschedulable="0/0 nodes are available") for n in range(2)]
    untried = Pod("default", "untried")
    owned = Pod("default", "owned", owner_kind="Workflow", unschedulable="0/0 nodes are available")

    assert not must_wait(Gathering(), batch(bare[:1]), lambda: [None], TIMES)
    for several in (batch(bare), batch(bare[:1], [untried]), batch([owned])):
        assert must_wait(Gathering(), several, lambda: [None], TIMES)


def test_a_controller_that_creates_no_more_pods_holds_a_batch_for_two_seconds() -> None:
    """A quota may keep it from creating them."""
    assert seconds_of([3], 2) == 2


def test_no_batch_waits_longer_than_its_longest_time() -> None:
    assert seconds_of(range(1, 99), None) == 10
    assert seconds_of(range(1, 99), 5, times=BatchTimes(idle=1, longest=3)) == 3


def test_pods_that_the_scheduler_has_not_tried_hold_a_batch_for_a_second() -> None:
    assert seconds_of([3], 0, untried=2) == 1


def test_an_event_may_arrive_before_the_condition_of_its_pod() -> None:
    assert must_wait(Gathering(), batch(), list, TIMES)
    assert not must_wait(Gathering().after_another(1, 0), batch(), list, TIMES)


def test_the_next_round_goes_on_if_no_pod_has_come_in_the_meantime() -> None:
    assert not must_wait(Gathering.of_next_batch(5), batch(pods(5)), lambda: [None], TIMES)
    assert must_wait(Gathering.of_next_batch(5), batch(pods(6)), lambda: [None], TIMES)


def test_gated_bound_ended_leaving_and_daemon_pods_belong_to_no_batch() -> None:
    others = (
        Pod("default", "gated", gates=("wait",)),
        Pod("default", "bound", node_name="n1"),
        Pod("default", "ended", phase="Failed"),
        Pod("default", "leaving", deletion="2026-11-21T12:00:00Z"),
        Pod("default", "daemon", owner_kind="DaemonSet"),
    )
    assert Batch.of(others) == Batch((), ())


@pytest.mark.parametrize(
    ("owner", "missing"),
    [
        ({"kind": "ReplicaSet", "spec": {"replicas": 3}, "status": {"replicas": 3}}, 0),
        ({"kind": "ReplicaSet", "spec": {}, "status": {}}, 1),
        ({"kind": "ReplicaSet", "spec": {"replicas": 0}, "status": {"replicas": 2}}, 0),
        ({"kind": "StatefulSet", "spec": {"replicas": 3, "podManagementPolicy": "Parallel"}, "status": {}}, 3),
        ({"kind": "StatefulSet", "spec": {"replicas": 3}, "status": {}}, 0),
        ({"kind": "Job", "spec": {"parallelism": 4}, "status": {"active": 1}}, 3),
        ({"kind": "Job", "spec": {"parallelism": 4, "completions": 5}, "status": {"active": 1, "succeeded": 4}}, 0),
        ({"kind": "Rollout", "spec": {"replicas": 3}, "status": {}}, None),
    ],
)
def test_a_controller_shows_how_many_pods_it_still_creates(owner: dict[str, object], missing: int | None) -> None:
    assert missing_pods(owner) == missing


def test_the_state_of_a_batch_survives_its_journey_through_the_state_machine() -> None:
    state = Gathering(3, 40, 1)
    assert Gathering.from_json(state.to_json()) == state
    unrecordable = Gathering(3, 40, 1, unrecordable=True)
    assert Gathering.from_json(unrecordable.to_json()) == unrecordable
    slow = unrecordable.after_another(4.5, 41)
    assert Gathering.from_json(slow.to_json()) == slow
    assert slow.unrecordable
    assert not Gathering.of_next_batch(41).unrecordable

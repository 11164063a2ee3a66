"""The number of events has a limit, however many objects have one, and every object is counted."""

import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

from hypothesis import example, given
from hypothesis import strategies as st

from joiner.cluster import Pod
from joiner.reporting.event_limits import EVENTS_AT_ONCE, limit_events
from joiner.reporting.events import Event, Subject

WEB = Subject("apps/v1", "ReplicaSet", "web-5f6d", "rs-1", "shop")


def news(number: int, reason: str = "NotTriggerScaleUp", owner: Subject | None = WEB) -> Event:
    pod = Pod("shop", f"web-{number}", uid=f"uid-{number}")
    return Event(
        Subject.pod(pod), reason, "ScaleUp", "No node can be made for it. default: too large", "Warning", owner=owner
    )


def test_few_events_stay_as_they_are() -> None:
    few = [news(number) for number in range(EVENTS_AT_ONCE)]

    assert limit_events(few) == few


def test_many_pods_of_one_owner_are_one_event_on_it_and_some_examples() -> None:
    limited = limit_events(news(number) for number in range(24_000))

    assert len(limited) == EVENTS_AT_ONCE
    assert limited[0].subject == WEB
    assert limited[0].note == "24,000 Pods, for example web-0: No node can be made for it. default: too large"
    assert [event.subject.name for event in limited[1:]] == [f"web-{number}" for number in range(1, EVENTS_AT_ONCE)]


def test_a_long_text_leaves_room_for_the_number_of_others() -> None:
    pods = [replace(news(number, owner=None), note="too large " * 200) for number in range(500)]

    [first, *_] = [event.to_kube(datetime(2026, 11, 29, tzinfo=UTC), "joiner") for event in limit_events(pods, most=5)]

    assert len(first["message"].encode()) <= 1024
    assert first["message"].endswith("… (the same for 499 other Pods, for example web-1)")


def test_each_owner_and_each_reason_has_its_own_count() -> None:
    jobs = [Subject("batch/v1", "Job", f"job-{number}", f"job-{number}", "shop") for number in range(3)]
    limited = limit_events(
        [news(100 * n + m, owner=job) for n, job in enumerate(jobs) for m in range(100)] + [news(900, "Nominated")], 4
    )

    assert [(event.subject.name, event.note.split(":")[0]) for event in limited] == [
        ("job-0", "100 Pods, for example web-0"),
        ("job-1", "100 Pods, for example web-100"),
        ("job-2", "100 Pods, for example web-200"),
        ("web-900", "No node can be made for it. default"),
    ]


def test_more_owners_than_events_are_counted_together() -> None:
    jobs = (Subject("batch/v1", "Job", f"job-{number}", f"job-{number}", "shop") for number in range(5_000))
    limited = limit_events(news(number, owner=job) for number, job in enumerate(jobs))

    assert len(limited) == EVENTS_AT_ONCE
    assert limited[EVENTS_AT_ONCE - 1].subject.name == "web-199"
    assert limited[EVENTS_AT_ONCE - 1].note == (
        f"No node can be made for it. default: too large (the same for {5_000 - EVENTS_AT_ONCE:,} other Pods, for "
        "example web-200)"
    )


def test_nodes_are_counted_on_the_first_of_them() -> None:
    nodes = [
        Event(Subject("v1", "Node", f"node-{n}", f"node-{n}"), "Registered", "Register", f"Joined to claim {n}")
        for n in range(900)
    ]

    assert limit_events(nodes, 1) == [
        Event(
            Subject("v1", "Node", "node-0", "node-0"),
            "Registered",
            "Register",
            "Joined to claim 0 (another text for 899 other Nodes, for example node-1)",
            news="Joined to claim 0",
        )
    ]


def about_pool(pool: str, note: str) -> Event:
    return Event(Subject("karpenter.sh/v1", "NodePool", pool, pool), "ValidationFailed", "Validate", note, "Warning")


def test_the_mistake_of_one_pool_is_not_reported_as_that_of_another() -> None:
    missing = about_pool("missing-class", "spec.template.spec.nodeClassRef: there is no such EC2NodeClass")
    typos = about_pool("typos", "spec.limits.cpu is 1O: this is no quantity")

    limited = limit_events([*(news(number) for number in range(60)), missing, typos], 40)

    assert len(limited) == 40
    assert [event for event in limited if event.subject.kind == "NodePool"] == [missing, typos]


def test_an_event_that_counts_others_has_the_text_and_the_identity_of_its_own_object() -> None:
    static = [about_pool("static", f"spec.{field} has no effect") for field in ("a", "b", "c")]
    other = about_pool("other", "spec.weight is 101: at most 100")

    (limited,) = limit_events([*static, other], 1)

    assert limited.note == "spec.a has no effect (2 more texts; another text for 1 other NodePool, other)"
    at = datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert limited.to_kube(at, "up-1")["metadata"] == static[0].to_kube(at, "up-1")["metadata"]


def test_objects_are_counted_by_their_texts_and_single_texts_say_that_they_differ() -> None:
    shared, other = (
        "spec.template.spec.nodeClassRef: there is no such EC2NodeClass",
        "spec.replicas is 5: 2 are missing",
    )
    pools = [about_pool(f"same-{n}", shared) for n in range(3)] + [about_pool(f"pair-{n}", other) for n in range(2)]
    single = [about_pool(f"own-{n}", f"spec.weight is {n + 101}: at most 100") for n in range(4)]

    assert [event.note for event in limit_events([*single, *pools], 3)] == [
        "spec.weight is 101: at most 100 (another text for 3 other NodePools, for example own-1)",
        f"{shared} (the same for 2 other NodePools, for example same-1)",
        f"{other} (the same for 1 other NodePool, pair-1)",
    ]


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", "c"])), max_size=200), st.integers(9, 40))
@example([(0, "a"), (0, "b"), (0, "c"), (1, "a"), (1, "b"), (1, "c"), (2, "a"), (2, "b"), (3, "a"), (3, "b")], 9)
def test_no_object_is_left_out(pods: list[tuple[int, str]], most: int) -> None:
    events = [
        news(number, reason, Subject("batch/v1", "Job", f"job-{owner}", f"job-{owner}", "shop"))
        for number, (owner, reason) in enumerate(pods)
    ]
    limited = limit_events(events, most)

    assert len(limited) <= most
    counts: dict[tuple[Subject | None, str], int] = {
        (event.subject, event.reason): int((count[1] or count[2]).replace(",", "")) + bool(count[2])
        for event in limited
        if (count := re.search(r"^([\d,]+) Pods, for example |the same for ([\d,]+) other Pods?, ", event.note))
    }
    written = {(event.subject, event.reason) for event in limited}
    uncounted: Counter[str] = Counter()
    for owner, of_owner in groupby(sorted(events, key=_owner_and_reason), key=_owner_and_reason):
        group = list(of_owner)
        if (group[0].owner, group[0].reason) in counts:
            assert counts[group[0].owner, group[0].reason] == len(group), owner
        else:
            uncounted[group[0].reason] += sum((event.subject, event.reason) not in written for event in group)
    together = {reason: number for (subject, reason), number in counts.items() if subject and subject.kind == "Pod"}
    assert all(left <= together.get(reason, 0) for reason, left in uncounted.items())
    assert sum(counts.values()) <= len(events)


def _owner_and_reason(event: Event) -> tuple[str, str]:
    return (event.owner.name if event.owner else "", event.reason)

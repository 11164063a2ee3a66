"""What the races of scale-ups and sweeps call a node that was launched in vain, and what explains an unused one."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from tests.e2e.needless_nodes import NodeNames, PodPlaces, RetiredNode, needless

LAUNCHED: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
UNUSED: Final = "although no pod ran on it, and its pods neither ended nor found other room"


def after(seconds: float) -> datetime:
    return LAUNCHED + timedelta(seconds=seconds)


def retired(reason: str = "empty", *, at: float = 40) -> RetiredNode:
    """Return the retirement of node `new`, so many seconds after its launch."""
    return RetiredNode("claim", "i-new", "new", reason, LAUNCHED, after(at))


def found(places: PodPlaces, reason: str = "empty", *, at: float = 40, hit: tuple[str, ...] = ()) -> list[str]:
    """Return the objections to the retirement."""
    return [each.partition("old, ")[2] for each in needless([retired(reason, at=at)], places, hit=hit)]


PLANNED: Final = {"i-new": ["web-1"]}


def test_a_node_that_no_pod_was_planned_for_is_needless() -> None:
    assert found(PodPlaces()) == [UNUSED]
    assert list(needless([retired()], PodPlaces(), hit=())) == [
        f"claim (i-new) was retired because it was empty, 40 s old, {UNUSED}"
    ]


def test_an_unused_node_is_explained_by_the_end_of_its_pods_before_its_retirement() -> None:
    assert found(PodPlaces(PLANNED, ended={"web-1": after(20)})) == []
    assert found(PodPlaces(PLANNED, ended={"web-1": after(50)})) == [UNUSED]
    assert found(PodPlaces({"i-new": ["web-1", "web-2"]}, ended={"web-1": after(20)})) == [UNUSED]


def test_a_pod_that_runs_elsewhere_explains_nothing_without_room_that_became_free_there() -> None:
    elsewhere = {"web-1": ("old", after(5))}
    assert found(PodPlaces(PLANNED, elsewhere)) == [UNUSED]
    assert found(PodPlaces(PLANNED, elsewhere, left={"old": [after(2)]})) == []


@pytest.mark.parametrize(
    "left",
    [
        pytest.param({"other": [2]}, id="of another node"),
        pytest.param({"old": [6]}, id="after the pod was bound"),
        pytest.param({"old": [-30]}, id="long before the launch"),
    ],
)
def test_room_elsewhere_later_or_long_before_explains_nothing(left: dict[str, list[float]]) -> None:
    times = {node: [after(each) for each in seconds] for node, seconds in left.items()}
    assert found(PodPlaces(PLANNED, {"web-1": ("old", after(5))}, left=times)) == [UNUSED]


def test_a_pod_may_take_the_place_of_one_that_was_planned_and_never_came() -> None:
    planned = {"i-new": ["web-1"], "second": ["web-2"]}
    taken = {"web-1": ("second", after(20))}
    assert found(PodPlaces(planned, taken, ended={"web-2": after(10)})) == []
    assert found(PodPlaces(planned, taken)) == [UNUSED], "web-2 has no place now"
    moved = {**taken, "web-2": ("old", after(8))}
    assert found(PodPlaces(planned, moved, left={"old": [after(3)]})) == []
    assert found(PodPlaces(planned, moved)) == [UNUSED]


def test_two_pods_in_each_others_places_explain_nothing() -> None:
    planned = {"i-new": ["web-1"], "second": ["web-2"], "third": ["web-3"]}
    swapped = {"web-1": ("second", after(20)), "web-2": ("third", after(20)), "web-3": ("second", after(20))}
    assert found(PodPlaces(planned, swapped)) == [UNUSED]


def test_a_lost_node_is_needless_unless_something_hit_it() -> None:
    used = PodPlaces(PLANNED, {"web-1": ("i-new", after(5))})
    assert found(used, "lost") == ["although nothing ended it"]
    assert found(used, "lost", hit=("i-other",)) == ["although nothing ended it"]
    for name in ("i-new", "claim", "i-new"):
        assert found(used, "lost", hit=(name,)) == []


def test_a_used_node_is_empty_only_after_the_end_of_its_pods() -> None:
    bound = {"web-1": ("i-new", after(5))}
    assert found(PodPlaces(PLANNED, bound)) == ["although pods ran on it"]
    assert found(PodPlaces(PLANNED, bound, ended={"web-1": after(30)})) == []


def test_a_used_node_is_not_retired_in_its_first_minute_without_a_reason() -> None:
    used = PodPlaces(PLANNED, {"web-1": ("i-new", after(5))})
    assert found(used, "deleted", at=50) == ["although it was young"]
    assert found(used, "deleted", at=70) == []


def test_pods_of_the_next_instance_of_a_name_are_not_those_of_the_one_before() -> None:
    names = NodeNames([("i-new", "ip-10-0-0-4", LAUNCHED), ("i-next", "ip-10-0-0-4", after(60))])
    bound = {
        pod: (names.find("ip-10-0-0-4", after(seconds)), after(seconds))
        for pod, seconds in (("web-1", 8), ("web-2", 70))
    }

    assert bound == {"web-1": ("i-new", after(8)), "web-2": ("i-next", after(70))}
    assert found(PodPlaces(bound=bound, ended={"web-1": after(20)})) == []
    assert found(PodPlaces(bound=bound)) == ["although pods ran on it"]

"""When the first limit ends that a proposal was made under."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.ending_limits import find_first_end
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, cluster, pool

HOUR = timedelta(hours=1)
COOL_DOWN = {"joiner.dev/consolidation-workload-cool-down": "2h"}
RATION = {"joiner.dev/consolidation-evictions-per-day": "20"}


def world(annotations: Mapping[str, str] | None = None) -> Snapshot:
    return Snapshot.from_lists(
        cluster(claim_and_node("a"), pods=[replica("web", "node-a")], nodepools=[pool(annotations)])
    )


def first_end(
    history: DisruptionHistory, annotations: Mapping[str, str] | None = None, unavailable: tuple[datetime, ...] = ()
) -> datetime | None:
    return find_first_end(world(annotations), history, unavailable, NOW)


def test_without_a_limit_nothing_ends() -> None:
    assert first_end(DisruptionHistory()) is None


def test_the_back_off_of_a_pool_ends() -> None:
    waiting = DisruptionHistory(back_off={"NodePool/default": NOW + HOUR, "NodePool/gone": NOW + HOUR / 2})

    assert first_end(waiting) == NOW + HOUR


def test_the_cool_down_of_a_workload_on_a_node_of_the_pool_ends() -> None:
    web = DisruptionHistory(moves={"default/ReplicaSet/web": NOW - HOUR})
    over = DisruptionHistory(moves={"default/ReplicaSet/web": NOW - 2 * HOUR})
    other = DisruptionHistory(moves={"default/ReplicaSet/gone": NOW - HOUR})

    assert first_end(web, COOL_DOWN) == NOW + HOUR
    assert (first_end(web), first_end(over, COOL_DOWN), first_end(other, COOL_DOWN)) == (None, None, None)


def test_evictions_of_a_pool_with_a_ration_are_free_again_after_a_day() -> None:
    moved = DisruptionHistory(
        evictions={"NodePool/default": 20}, oldest_evictions={"NodePool/default": NOW - 23 * HOUR}
    )

    assert first_end(moved, RATION) == NOW + HOUR
    assert first_end(moved) is None


def test_the_first_of_all_ends_counts_and_none_that_is_over() -> None:
    waiting = DisruptionHistory(
        back_off={"NodePool/default": NOW + HOUR}, moves={"default/ReplicaSet/web": NOW - 1.5 * HOUR}
    )
    marks = (NOW - timedelta(minutes=1), NOW + timedelta(minutes=3))

    assert first_end(waiting, COOL_DOWN) == NOW + HOUR / 2
    assert first_end(waiting, COOL_DOWN, marks) == NOW + timedelta(minutes=3)

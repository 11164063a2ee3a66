"""What the crash table calls wrong: a double launch that was collected, a broken budget, an item about nothing."""

from joiner import item_keys
from tests.e2e.crash.expectations import Item, disrupted_wrongly, left_in_memory, too_many_launches, wanted_counts
from tests.e2e.crash.fault_scenarios import CONSOLIDATION, FAULT_SCENARIOS, RETIRE, SCALE_UP
from tests.e2e.eviction_checker import EvictionRecord

REPLACEMENT = next(scenario for scenario in FAULT_SCENARIOS if scenario.name == "consolidation with a replacement")


def test_a_double_launch_counts_though_its_instance_has_ended() -> None:
    assert too_many_launches(SCALE_UP, {"i-1", "i-2", "i-3"}) == []
    assert too_many_launches(SCALE_UP, {"i-1", "i-2", "i-3", "i-4"}) == ["4 instances were launched, not 3"]
    assert too_many_launches(RETIRE, {"i-1"}) == ["1 instances were launched, not 0"]
    assert too_many_launches(CONSOLIDATION, {"i-1"}) == ["1 instances were launched, not 0"]
    assert too_many_launches(REPLACEMENT, {"i-1"}) == []


def test_a_budget_that_was_broken_at_any_time_counts() -> None:
    violation = "2 of 2 nodes of pool dense are disrupted, and its budgets allow 1"
    broken = EvictionRecord(violations={violation}, evicted={"web-1"})

    assert disrupted_wrongly(CONSOLIDATION, broken) == [violation]
    assert disrupted_wrongly(CONSOLIDATION, EvictionRecord(evicted={"web-1", "web-2"})) == [
        "2 pods were evicted, not 1"
    ]
    assert disrupted_wrongly(RETIRE, EvictionRecord(evicted={"web-1", "web-2", "db"})) == []


def test_a_disruption_ends_with_the_nodes_of_before_or_of_after() -> None:
    assert wanted_counts(CONSOLIDATION)["nodes"] == (1, 2)
    assert wanted_counts(REPLACEMENT)["nodes"] == (1, 2)
    assert wanted_counts(CONSOLIDATION)["running"] == (2, 2)


def test_an_item_goes_with_what_it_is_about() -> None:
    kinds = [value for name, value in vars(item_keys).items() if name == value and isinstance(value, str)]
    items = [Item(kind, "gone") for kind in kinds]

    assert len(kinds) > 15
    assert left_in_memory(items, {"claim"}, {"i-1"}, RETIRE) == [
        f"{kind} gone is left"
        for kind in kinds
        if kind
        in (
            "INSTANCE",
            "ASSIGNMENT",
            "WAVE",
            "AWAITED",
            "RETIREMENT",
            "DISRUPTION",
            "EMPTY",
            "ABSENT",
            "IMPAIRED",
            "RECOMMENDED",
            "UNUSED",
        )
    ]
    there = [Item("RETIREMENT", "claim"), Item("IMPAIRED", "i-1")]
    assert left_in_memory(there, {"claim"}, {"i-1"}, RETIRE) == []
    assert left_in_memory([Item("LAUNCH", "a", recorded=False)], (), (), SCALE_UP) == ["launch a is not recorded"]

"""Spot placement scores: which families are asked for, what a score stands for, and when the history outweighs it."""

import pytest

from joiner.catalogue import InstanceType, Offering
from joiner.catalogue.interruption_history import DAY, Interruptions, SpotHours, interruption_rates
from joiner.catalogue.placement_scores import FAMILIES_ASKED, choose_families, expect_warnings

NOW = 100 * DAY
ZONES = ("z-1a", "z-1b", "z-1c")
SIZES = ("large", "xlarge", "2xlarge")


def spot_type(name: str, capacity_type: str = "spot") -> InstanceType:
    return InstanceType(name, offerings=(Offering("z-1a", capacity_type, 0.03),))


def offered(name: str) -> InstanceType:
    return InstanceType(name, offerings=tuple(Offering(zone, "spot", 0.03) for zone in ZONES))


def family(name: str) -> list[InstanceType]:
    return [spot_type(f"{name}.{size}") for size in SIZES]


def hours(**used: float) -> SpotHours:
    return SpotHours({f"{name}.large": {"z-1a": spent} for name, spent in used.items()}, NOW)


def test_the_families_of_the_clusters_spot_nodes_are_asked_for_with_all_their_spot_types() -> None:
    types = [*family("m5"), *family("c5"), spot_type("m5.metal", "on-demand")]

    assert choose_families(types, hours(m5=10), NOW) == {"m5": ("m5.2xlarge", "m5.large", "m5.xlarge")}
    assert choose_families(types, SpotHours(), NOW) == {}


def test_a_family_with_fewer_than_three_spot_types_has_no_meaningful_score() -> None:
    assert choose_families([spot_type("p5.48xlarge"), *family("c5")], hours(p5=90, c5=1), NOW).keys() == {"c5"}


def test_only_the_most_used_families_are_asked_for() -> None:
    used = {f"m{number}": float(number) for number in range(1, FAMILIES_ASKED + 3)}
    types = [each for name in used for each in family(name)]

    chosen = choose_families(types, hours(**used), NOW)

    assert len(chosen) == FAMILIES_ASKED
    assert {"m1", "m2"} & chosen.keys() == set()


def test_the_best_score_expects_nothing_and_the_worst_one_warning_in_a_hundred_hours() -> None:
    expected = expect_warnings({"m5": {"z-1a": 10, "z-1b": 1, "z-1c": 4}}, [offered("m5.large")])

    assert expected == {("m5.large", "z-1b"): 1.0, ("m5.large", "z-1c"): 0.6667}
    assert interruption_rates((), SpotHours(), NOW, expected) == {
        ("m5.large", "z-1b"): 0.01,
        ("m5.large", "z-1c"): pytest.approx(0.006667),
    }


def test_a_type_without_a_score_counts_as_the_mean_of_the_known_scores() -> None:
    scores = {"m5": {"z-1a": 10, "z-1b": 1}, "r5": {}}

    expected = expect_warnings(scores, [offered("m5.large"), offered("c5.large"), spot_type("r5.large")])

    assert expected == {
        ("m5.large", "z-1b"): 1.0,
        ("m5.large", "z-1c"): 0.5,
        **{("c5.large", zone): 0.5 for zone in ZONES},
        ("r5.large", "z-1a"): 0.5,
    }


def test_without_any_score_and_for_on_demand_nodes_nothing_is_expected() -> None:
    assert expect_warnings({}, [offered("m5.large")]) == {}
    assert expect_warnings({"m5": {}}, [offered("m5.large")]) == {}
    assert expect_warnings({"m5": {"z-1a": 1}}, [spot_type("m5.large", "on-demand")]) == {}


def test_the_history_outweighs_the_score() -> None:
    bad = {("m5.large", "z-1a"): 1.0}
    calm = SpotHours({"m5.large": {"z-1a": 9900.0}}, NOW)
    warned = (Interruptions("c5.large", "z-1a", NOW, 5),)

    rates = interruption_rates(warned, calm, NOW, bad)

    assert rates[("m5.large", "z-1a")] == 0.0001
    assert rates[("c5.large", "z-1a")] == 0.05

"""Which values a pool is shown instead of one that the catalogue does not have."""

import pytest

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, find_unknown_values
from joiner.cluster import Requirements
from joiner.pools import NodeClassRef, NodePool

FAMILY = f"{names.INSTANCE_PREFIX}family"
CATALOGUE = Catalogue.of(
    InstanceType(f"{family}.large", labels={names.INSTANCE_TYPE: f"{family}.large", FAMILY: family})
    for family in ("a1", "c5", "m5", "m6gd", "m6i", "m6a")
)


@pytest.mark.parametrize(
    ("key", "value", "near"),
    [
        (FAMILY, "m6zz", "m6a or m6i"),
        (names.INSTANCE_TYPE, "m6zz.large", "m6a.large or m6i.large"),
        (FAMILY, "M5", "m5"),
    ],
)
def test_an_unknown_family_is_shown_those_of_its_series_and_generation(key: str, value: str, near: str) -> None:
    requirements = Requirements.from_labels({key: value})
    pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=requirements)

    (problem,) = find_unknown_values([pool], CATALOGUE)

    assert problem.message.endswith(f"; did you mean {near}?")


@pytest.mark.parametrize(
    ("key", "values", "near"),
    [
        (names.CAPACITY_TYPE, ("reserved", "on-demnd"), "on-demand"),
        (names.CAPACITY_TYPE, ("on-demand", "spott"), "spot"),
        (names.OS, ("linux", "widnows"), "windows"),
    ],
)
def test_a_misspelt_value_beside_a_right_one_is_reported(key: str, values: tuple[str, ...], near: str) -> None:
    requirements = Requirements.from_kube([{"key": key, "operator": "In", "values": list(values)}])
    pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=requirements)

    (problem,) = find_unknown_values([pool], CATALOGUE)

    assert (problem.value, problem.message.rpartition("; ")[2]) == (values[1], f"did you mean {near}?")


@pytest.mark.parametrize("value", names.CAPACITY_TYPES)
def test_a_capacity_type_beside_another_may_have_no_offering_for_a_time(value: str) -> None:
    requirements = Requirements.from_kube(
        [{"key": names.CAPACITY_TYPE, "operator": "In", "values": [value, "reserved"]}]
    )
    pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=requirements)

    assert find_unknown_values([pool], CATALOGUE) == []

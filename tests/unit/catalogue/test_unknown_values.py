"""Which values a pool is shown instead of one that the catalogue does not have."""

import pytest

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering, find_idle_exclusions, find_unknown_values
from joiner.cluster import Requirements
from joiner.pools import InvalidManifest, NodeClassRef, NodePool

ABSENT = "no instance type of the catalogue has it"
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


@pytest.mark.parametrize(
    ("key", "values", "problem"),
    [
        (names.CAPACITY_TYPE, ["spott"], "the catalogue has no such capacity type; did you mean spot?"),
        (names.OS, ["widnows"], f"{ABSENT}; did you mean windows?"),
        (names.ARCH, ["arm46"], f"{ABSENT}; did you mean arm64 or amd64?"),
        (names.INSTANCE_TYPE, ["m5.lrage"], "the catalogue has no such instance type; did you mean m5.large?"),
        (names.ZONE, ["us-esat-1a"], "the catalogue has no such zone; did you mean us-east-1a?"),
        (FAMILY, ["m5", "M6i"], f"{ABSENT}; did you mean m6i?"),
        ("karpenter.k8s.aws/instance-cpu-manufacturer", ["intle"], f"{ABSENT}; did you mean intel?"),
        (names.CAPACITY_TYPE, ["spot"], ""),
        (names.ARCH, ["arm64"], ""),
        (names.INSTANCE_TYPE, ["m5.large"], ""),
        (names.ZONE_ID, ["use1-az9"], ""),
        ("example.com/team", ["red"], ""),
    ],
)
def test_a_value_that_does_not_exist_is_reported_where_a_pool_excludes_it(
    key: str, values: list[str], problem: str
) -> None:
    found = exclude(key, values)

    assert [one.remedy for one in found] == ([f"it excludes nothing: {problem}"] if problem else [])
    assert [one.value for one in found] == values[-1:] * len(found)
    assert {one.severity for one in found} <= {"warning"}


@pytest.mark.parametrize(
    ("key", "values", "shown"),
    [
        (FAMILY, ["m7i"], "m7i"),
        (FAMILY, ["f1"], "f1"),
        (FAMILY, ["m6gdn"], "m6gdn"),
        (FAMILY, ["m5", "trn3", "trn2u"], "trn2u, trn3"),
        (names.INSTANCE_TYPE, ["m5.12xlarge"], "m5.12xlarge"),
        (names.INSTANCE_TYPE, ["m6id.large"], "m6id.large"),
        (names.ZONE, ["us-east-1f", "eu-west-1a"], "eu-west-1a, us-east-1f"),
        (f"{names.INSTANCE_PREFIX}category", ["f"], "f"),
    ],
)
def test_excluded_values_of_other_regions_or_of_the_future_are_a_note(key: str, values: list[str], shown: str) -> None:
    noun = {names.INSTANCE_TYPE: "instance type", names.ZONE: "zone"}.get(key)
    absent = f"the catalogue has no such {noun}" if noun else ABSENT

    assert [(one.severity, one.value, one.remedy) for one in exclude(key, values)] == [
        ("info", shown, f"it excludes nothing: {absent}")
    ]


def test_a_misspelt_family_beside_one_of_the_future_is_a_warning_of_its_own() -> None:
    found = exclude(FAMILY, ["tnr1", "trn3"])

    assert [(one.severity, one.value, one.remedy.rpartition(": ")[2]) for one in found] == [
        ("warning", "tnr1", f"{ABSENT}; did you mean trn1?"),
        ("info", "trn3", ABSENT),
    ]


def exclude(key: str, values: list[str]) -> list[InvalidManifest]:
    labels = {
        names.INSTANCE_TYPE: "m5.large",
        FAMILY: "m5",
        names.ARCH: "amd64",
        f"{names.INSTANCE_PREFIX}category": "m",
        "karpenter.k8s.aws/instance-cpu-manufacturer": "intel",
    }
    sold = InstanceType("m5.large", labels=labels, offerings=(Offering("us-east-1a", "on-demand", 0.1),))
    trainer = InstanceType("trn1.2xlarge", labels={FAMILY: "trn1"})
    requirements = Requirements.from_kube([{"key": key, "operator": "NotIn", "values": values}])
    pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=requirements)
    return find_idle_exclusions([pool], Catalogue({**CATALOGUE.types, "m5.large": sold, "trn1.2xlarge": trainer}))


@pytest.mark.parametrize("value", names.CAPACITY_TYPES)
def test_a_capacity_type_beside_another_may_have_no_offering_for_a_time(value: str) -> None:
    requirements = Requirements.from_kube(
        [{"key": names.CAPACITY_TYPE, "operator": "In", "values": [value, "reserved"]}]
    )
    pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=requirements)

    assert find_unknown_values([pool], CATALOGUE) == []

"""The algebra of label values against brute force: every Kubernetes operator, all sequences of two, and the laws of
sets.
"""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import (
    ABSENT,
    ANYTHING,
    MISSING,
    NOTHING,
    PRESENT,
    InvalidField,
    Requirement,
    Requirements,
    Value,
    ValueSet,
)
from joiner.cluster.requirements import read_value_set, write_expressions

WORDS = ("a", "b", "c", "")
NUMBERS = ("0", "1", "2", "3", "4", "5", "03", "+3", "-1", "9223372036854775808")
UNIVERSE: tuple[Value, ...] = (*WORDS, *NUMBERS, ABSENT)

EXPRESSIONS = [
    *(("In", list(values)) for values in (["a"], ["a", "b"], ["3"], ["2", "3", "a"])),
    *(("NotIn", list(values)) for values in (["a"], ["a", "b"], ["3"], ["2", "3", "a"])),
    ("Exists", []),
    ("DoesNotExist", []),
    *((operator, [bound]) for operator in ("Gt", "Lt", "Gte", "Lte") for bound in ("1", "3")),
]


def kubernetes_allows(operator: str, values: list[str], value: Value) -> bool:
    """Return what the operator's documentation specifies, for one label that may be absent."""
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value is ABSENT or value not in values
    if operator in ("Exists", "DoesNotExist"):
        return (value is not ABSENT) == (operator == "Exists")
    try:
        number = int(value) if isinstance(value, str) else None
    except ValueError:
        return False
    if number is None or not -(2**63) <= number < 2**63:
        return False
    bound = int(values[0])
    return {"Gt": number > bound, "Lt": number < bound, "Gte": number >= bound, "Lte": number <= bound}[operator]


@pytest.mark.parametrize(("operator", "values"), EXPRESSIONS)
def test_every_operator_is_a_set(operator: str, values: list[str]) -> None:
    meant = read_value_set(operator, values)

    assert [value for value in UNIVERSE if value in meant] == [
        value for value in UNIVERSE if kubernetes_allows(operator, values, value)
    ]


def test_two_operators_on_one_key_mean_their_intersection() -> None:
    wrong = [
        (first, second, value)
        for first, second in product(EXPRESSIONS, repeat=2)
        for value in UNIVERSE
        if (value in read_value_set(*first) & read_value_set(*second))
        != (kubernetes_allows(*first, value) and kubernetes_allows(*second, value))
    ]

    assert wrong == []


def test_any_conjunction_of_operators_is_written_back_as_operators_that_mean_the_same() -> None:
    for first, second in product(EXPRESSIONS, repeat=2):
        both = read_value_set(*first) & read_value_set(*second)
        written = Requirements.from_kube(write_expressions("key", both))

        assert written.on("key") == both, (first, second)


sets = st.recursive(
    st.one_of(
        st.lists(st.sampled_from(UNIVERSE), max_size=4).map(lambda values: ValueSet.of(*values)),
        st.integers(-2, 6).map(ValueSet.above),
        st.integers(-2, 6).map(ValueSet.below),
        st.sampled_from([ANYTHING, NOTHING, PRESENT, MISSING]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        inner.map(lambda one: ~one),
    ),
    max_leaves=6,
)


@given(sets, sets, st.sampled_from(UNIVERSE))
def test_operators_on_sets_are_those_of_logic(one: ValueSet, two: ValueSet, value: Value) -> None:
    assert (value in one & two) == (value in one and value in two)
    assert (value in one | two) == (value in one or value in two)
    assert (value in one - two) == (value in one and value not in two)
    assert (value in ~one) == (value not in one)


@given(sets, sets, sets)
def test_equal_sets_have_the_same_form(one: ValueSet, two: ValueSet, three: ValueSet) -> None:
    assert one & two == two & one
    assert (one & two) & three == one & (two & three)
    assert one & (two | three) == (one & two) | (one & three)
    assert ~(one & two) == ~one | ~two
    assert ~~one == one
    assert hash(one & two) == hash(two & one)


@given(sets)
def test_a_set_is_empty_exactly_if_it_has_no_value(one: ValueSet) -> None:
    if one:
        assert one.any_value() in one
    else:
        with pytest.raises(ValueError, match="empty"):
            one.any_value()


@given(sets, sets)
def test_a_subset_adds_nothing(one: ValueSet, two: ValueSet) -> None:
    assert (one <= two) == (one | two == two)


@pytest.mark.parametrize("spelling", ["5", "05", "+5"])
def test_an_integer_counts_in_every_spelling(spelling: str) -> None:
    assert spelling in ValueSet.above(4)
    assert spelling not in ValueSet.above(5)


def test_two_requirements_on_one_key_can_exclude_each_other() -> None:
    impossible = Requirements.from_kube(
        [
            {"key": "color", "operator": "In", "values": ["red"]},
            {"key": "color", "operator": "NotIn", "values": ["red"]},
        ]
    )

    assert impossible.contradictions() == ("color",)
    assert not impossible.allow({}) and not impossible.allow({"color": "red"})


def test_a_selector_on_a_label_that_kubernetes_renamed_means_the_new_one() -> None:
    old = Requirement.from_kube({"key": "failure-domain.beta.kubernetes.io/zone", "operator": "In", "values": ["a"]})

    assert old.key == "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"key": "a", "operator": "Is", "values": ["b"]}, "[0].operator"),
        ({"key": "a", "operator": "Gt", "values": ["many"]}, "[0].values"),
        ({"key": "a", "operator": "In", "values": "b"}, "[0].values"),
        ({"operator": "Exists"}, "[0].key"),
    ],
)
def test_a_requirement_that_cannot_be_read_names_its_field(raw: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Requirements.from_kube([raw])

    assert refused.value.field.endswith(field.removeprefix("[0]")) and refused.value.field.startswith("[0]")

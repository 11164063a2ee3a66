"""Durations in the grammar of Go: the cases of the tests of Go's `time.ParseDuration`, and laws of the grammar."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.pools.durations import format_duration
from joiner.pools.go_durations import parse_go_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5),
        ("+5s", 5),
        ("-5s", -5),
        ("5.s", 5),
        (".5s", 0.5),
        ("3m4.5s", 184.5),
        ("1h30m0.5s", 5400.5),
        ("39h9m14.425s", 140954.425),
        ("11us", 11e-6),
        ("12\u00b5s", 12e-6),
        ("12\u03bcs", 12e-6),
        ("3000ns", 3e-6),
        ("4ms2us", 0.004002),
        ("0.3333333333333333333h", 1199.999999),
        ("00000000000000000000001h", 3600),
    ],
)
def test_a_duration_has_fractions_units_down_to_nanoseconds_and_a_sign(text: str, seconds: float) -> None:
    assert parse_go_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "3", "-", "s", ".", "-.", ".s", "+.s", "1d", "1H", "1h ", "1e3s", "--5s", "\u0661h", "1_0s", "1.2.3s"]
)
def test_other_texts_are_no_duration(text: str) -> None:
    assert parse_go_duration(text) is None


def test_a_duration_has_at_most_63_bits_of_nanoseconds() -> None:
    assert parse_go_duration("9223372036854775807ns") == timedelta(microseconds=(2**63 - 1) // 1000)
    assert parse_go_duration("9223372036854775808ns") is None
    assert parse_go_duration("2562048h") is None
    assert parse_go_duration("9" * 10_000 + "h") is None


def test_a_value_that_is_no_text_is_no_duration() -> None:
    assert (parse_go_duration(None), parse_go_duration(5)) == (None, None)


@given(st.integers(min_value=0, max_value=10**9))
def test_whole_seconds_mean_the_same_as_in_the_fields_of_karpenter(seconds: int) -> None:
    assert parse_go_duration(format_duration(seconds)) == timedelta(seconds=seconds)


@given(
    st.lists(
        st.tuples(st.decimals("0", "1000", places=3), st.sampled_from([("h", 3600), ("m", 60), ("s", 1)])),
        min_size=1,
        max_size=4,
    )
)
def test_the_parts_of_a_duration_are_summed_exactly(parts: list[tuple[object, tuple[str, int]]]) -> None:
    text = "".join(f"{number}{unit}" for number, (unit, _) in parts)
    milliseconds = sum(int(str(number).replace(".", "")) * seconds for number, (_, seconds) in parts)

    assert parse_go_duration(text) == timedelta(milliseconds=milliseconds)

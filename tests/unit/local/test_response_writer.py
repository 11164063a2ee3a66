"""What is written in moto's place is what moto would have written."""

import itertools
from typing import Any

import pytest
import xmltodict
from hypothesis import given
from hypothesis import strategies as st

from joiner_local.aws.moto_patches.response_writer import unparse

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5)
SCALARS = TEXTS | st.integers() | st.booleans() | st.none() | st.binary(max_size=3)
NAMES = st.sampled_from(["item", "tagSet", "vCpuInfo", "#text"])


def elements(children: Any) -> Any:
    attributes = st.dictionaries(st.sampled_from(["@xmlns", "@xsi:type"]), TEXTS, max_size=2)
    within = st.dictionaries(NAMES, children | st.lists(children, max_size=3), max_size=3)
    return st.builds(lambda mine, its: mine | its, attributes, within)


def clean(value: Any) -> Any:
    """Text is a scalar: moto writes no other."""
    if isinstance(value, dict):
        return {name: clean(child) if name != "#text" else str(child) for name, child in value.items()}
    return [clean(each) for each in value] if isinstance(value, list) else value


@given(st.recursive(SCALARS, elements, max_leaves=12))
def test_an_answer_is_the_same_text(value: Any) -> None:
    document = {"Response": clean(value)}
    for full, short in itertools.product((True, False), repeat=2):
        assert unparse(document, full_document=full, short_empty_elements=short) == xmltodict.unparse(
            document, full_document=full, short_empty_elements=short
        )


@pytest.mark.parametrize("full", [True, False])
def test_many_of_one_name_are_written_one_after_the_other(full: bool) -> None:
    document = {
        "Response": {"instancesSet": {"item": [{"id": 1, "state": {"name": "running"}}, {"id": 2}]}, "none": []}
    }
    assert unparse(document, full_document=full) == xmltodict.unparse(document, full_document=full)

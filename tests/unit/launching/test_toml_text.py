"""What is written as TOML is read as the same document."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.launching.image_families.toml_text import write_toml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SINGLE = st.one_of(TEXTS, st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False), st.datetimes())
VALUES: st.SearchStrategy[Any] = st.recursive(
    SINGLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=12
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_every_document_is_read_as_it_was_written(document: dict[str, Any]) -> None:
    assert tomllib.loads(write_toml(document)) == document

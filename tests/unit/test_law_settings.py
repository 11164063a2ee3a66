"""No law has fewer examples than it needs to find something, in `make test` and in `make law-test`."""

import ast
from pathlib import Path

import pytest

from tests.fresh_seeds import law_files
from tests.law_settings import LEAST, LEAST_FRESH, count_examples

TESTS = Path(__file__).parents[1]


def test_a_law_with_too_few_examples_is_refused() -> None:
    for number, repeated in ((LEAST - 1, None), (LEAST_FRESH, LEAST - 1)):
        with pytest.raises(ValueError, match="too few for a law"):
            count_examples(number, repeated, fresh=False)
    assert count_examples(LEAST, fresh=False) == LEAST


@pytest.mark.parametrize("number", [LEAST, LEAST_FRESH, 10 * LEAST_FRESH])
def test_fresh_seeds_give_a_law_with_few_examples_more_of_them(number: int) -> None:
    assert count_examples(number, LEAST, fresh=True) == max(number, LEAST_FRESH)


def test_laws_take_their_settings_only_from_examples() -> None:
    """Settings of their own would be the same in each run."""
    own = [
        str(path.relative_to(TESTS))
        for path in law_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "hypothesis"
        if "settings" in {alias.name for alias in node.names}
    ]

    assert own == []

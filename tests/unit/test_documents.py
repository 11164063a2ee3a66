"""The tests, files and decisions that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED_TEST = re.compile(r"`(tests/[\w./]+)(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "functions").glob("*/README.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_and_page_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tests = NAMED_TEST.findall(text)
    links = [page.parent / target for target in LINK.findall(text)]

    assert [str(each) for each in (*(ROOT / name for name, _ in tests), *links) if not each.exists()] == []
    defined = {name: (ROOT / name).read_text(encoding="utf-8") for name, function in tests if function}
    assert [function for name, function in tests if function and f"def {function}(" not in defined[name]] == []


def test_the_threat_model_names_a_test_in_each_row() -> None:
    """The tables of `docs/security.md` have the columns who, can do, stopped by, shown by; each row needs a test."""
    rows = [
        line
        for line in (ROOT / "docs" / "security.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]
    claims = [row for row in rows if "shown by" not in row]

    assert len(claims) > 15
    assert [row for row in claims if "tests/" not in row and "| the same |" not in row] == []

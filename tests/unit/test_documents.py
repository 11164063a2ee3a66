"""The tests, modules, folders and decisions that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED_TEST = re.compile(r"`(tests/[\w./]+)(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)")
LIBRARY = ROOT / "layers" / "joiner" / "python" / "joiner"
NAMED_PATH = re.compile(r"`([a-z][\w.-]*(?:/[\w.-]+)*(?:/|\.(?:py|toml|yaml|c)))`")
NAMED_MODULE = re.compile(r"`([\w./-]+\.py)`")
NAMED_IN = re.compile(r"`(\w+)` in `([\w./]+\.py)`")
ROOTS = (ROOT, LIBRARY)
FURTHER_ROOTS = (LIBRARY.parent, LIBRARY / "planning", ROOT / "local" / "joiner_local" / "aws")
"""Folders that pages about a part of the code name modules relative to."""
FOLDERS = ("layers", "functions", "infra", "local", "cli", "bench", "tests")
MODULES = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")} | {"app.py"}
TEST_MODULES = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "functions").glob("*/README.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_and_page_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tests = NAMED_TEST.findall(text)
    links = [page.parent / target for target in LINK.findall(text)]

    assert [str(each) for each in (*(ROOT / name for name, _ in tests), *links) if not each.exists()] == []
    defined = {name: (ROOT / name).read_text(encoding="utf-8") for name, function in tests if function}
    assert [function for name, function in tests if function and f"def {function}(" not in defined[name]] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/planner-rules.md"])
def test_every_module_and_folder_that_a_page_about_the_code_names_exists(page: str) -> None:
    named = NAMED_PATH.findall((ROOT / page).read_text(encoding="utf-8"))

    assert len(named) > 20
    assert [name for name in named if not any((root / name).exists() for root in ROOTS)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    def exists(name: str) -> bool:
        return any((root / name).exists() for root in (*ROOTS, *FURTHER_ROOTS)) if "/" in name else name in MODULES

    assert [name for name in NAMED_MODULE.findall(page.read_text(encoding="utf-8")) if not exists(name)] == []


def test_the_architecture_names_functions_and_constants_in_the_modules_that_define_them() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = [
        (name, next(root / path for root in ROOTS if (root / path).exists())) for name, path in NAMED_IN.findall(text)
    ]

    assert len(named) > 2
    assert [name for name, path in named if not re.search(rf"(?m)^\s*(def |class )?{name}\b", path.read_text())] == []


def test_the_rules_of_the_planner_name_test_modules_that_exist() -> None:
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "planner-rules.md").read_text(encoding="utf-8"))

    assert len(named) > 20
    assert [name for name in named if name not in TEST_MODULES] == []


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

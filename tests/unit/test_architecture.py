"""Rules that import-linter cannot check: which packages come with a function, and calls of a clock."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent.parent
CORE = REPOSITORY / "layers" / "joiner" / "python" / "joiner"
FUNCTIONS = sorted(path for path in (REPOSITORY / "functions").iterdir() if (path / "handler.py").exists())
SHIPPED = {"joiner", "boto3", "botocore", "aws_lambda_powertools", "kubernetes", "msgspec", "numpy", "yaml"}
CLOCKS = {"now", "utcnow", "today"}
DATES = {"datetime", "date"}


def imported(path: Path) -> Iterator[str]:
    """The top-level names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("folder", FUNCTIONS, ids=lambda folder: str(folder.name))
def test_a_function_imports_what_is_shipped_with_it(folder: Path) -> None:
    for path in folder.glob("*.py"):
        assert set(imported(path)) - {"functions"} - SHIPPED - sys.stdlib_module_names == set(), path.name


def clocks(source: str) -> Iterator[int]:
    """Return the lines that read a clock."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in CLOCKS
            and isinstance(node.value, ast.Name)
            and node.value.id in DATES
        ):
            yield node.lineno


def test_the_core_reads_no_clock() -> None:
    core = [path for path in CORE.rglob("*.py") if "adapters" not in path.parts]
    assert [f"{path.relative_to(CORE)}:{line}" for path in core for line in clocks(path.read_text())] == []


def test_the_clock_check_finds_a_clock() -> None:
    assert list(clocks("from datetime import UTC, datetime\nnow = datetime.now(UTC)\n")) == [2]

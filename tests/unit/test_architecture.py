"""Rules that import-linter cannot check: which packages come with a function, calls of a clock, and what all workers of
`make test` import.
"""

import ast
import re
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


def at_the_start(path: Path) -> set[str]:
    """Return the modules that a module imports at its start: lines without indentation."""
    found = re.findall(r"^(?:from (\S+) import|import (\S+))", path.read_text(), re.MULTILINE)
    return {module or plain for module, plain in found}


def needs_the_cdk(path: Path, reached: dict[Path, bool]) -> bool:
    """Return whether the import of a module of `infra` or `tests` imports the CDK; `reached` are those known."""
    if path not in reached:
        reached[path] = False
        names = at_the_start(path)
        own = [REPOSITORY / f"{name.replace('.', '/')}.py" for name in names if name.startswith(("infra.", "tests."))]
        reached[path] = any(name.partition(".")[0] in ("aws_cdk", "cdk_nag") for name in names) or any(
            needs_the_cdk(each, reached) for each in own if each.exists()
        )
    return reached[path]


def test_no_test_module_imports_the_cdk_at_its_start() -> None:
    """Each worker imports all test modules, and the CDK takes five seconds of computing: only fixtures import it."""
    reached: dict[Path, bool] = {}
    tests = [path for path in REPOSITORY.glob("tests/**/*.py") if path.name.startswith(("test_", "conftest"))]

    assert [str(path.relative_to(REPOSITORY)) for path in tests if needs_the_cdk(path, reached)] == []
    assert needs_the_cdk(REPOSITORY / "infra" / "linters.py", reached) is False
    assert needs_the_cdk(REPOSITORY / "infra" / "sweep_workflow.py", reached) is True

"""The library, the command, the functions and the constructs have no code that only tests use."""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers" / "joiner" / "python" / "joiner"
USERS = ("layers/joiner", "functions", "cli", "infra", "local", "bench")

COMMAND = ROOT / "cli" / "joiner_cli"

UNREAD = {
    "adapters/kube_kinds.py": "its constants are the table KINDS, which is read by API version and kind",
}
"""Modules and folders whose names need not be used, with the reason."""


def sources() -> Iterator[Path]:
    yield ROOT / "app.py"
    for folder in USERS:
        yield from (
            path for path in sorted((ROOT / folder).rglob("*.py")) if "tests" not in path.relative_to(ROOT).parts
        )


@cache
def used_names() -> Counter[str]:
    """Return how often each name occurs in all sources."""
    return Counter(name for path in sources() for name in names_in(path))


def names_in(path: Path) -> Iterator[str]:
    """Yield each name in the code of a module; comments and texts do not count, except those of f-strings."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.string
        elif token.type == tokenize.STRING and token.string.lstrip("rR").startswith(("f", "F")):
            parsed = ast.parse(token.string, mode="eval")
            for node in ast.walk(parsed):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.Attribute):
                    yield node.attr


def definitions(path: Path) -> Iterator[str]:
    """Yield the functions, methods, classes and constants that a module defines, without Python's own methods."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not (
            node.name.startswith("__") or any(_is_command(each) for each in node.decorator_list)
        ):
            yield node.name
    for statement in tree.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name) and target.id != "__all__")


def _is_command(decorator: ast.expr) -> bool:
    """Return whether a decorator registers a subcommand, which users call by its own name."""
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(call, ast.Attribute) and call.attr in ("command", "callback")


@pytest.mark.parametrize(
    "folder", [LIBRARY, COMMAND, ROOT / "functions", ROOT / "infra"], ids=["library", "command", "functions", "infra"]
)
def test_each_definition_is_used_by_more_than_tests(folder: Path) -> None:
    used = used_names()
    exported = Counter(
        name
        for path in folder.rglob("__init__.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for name in (alias.name for alias in node.names)
    )
    unused = [
        f"{path.relative_to(folder)}: {name}"
        for path in sorted(folder.rglob("*.py"))
        if not path.relative_to(folder).as_posix().startswith(tuple(UNREAD))
        for name in definitions(path)
        if used[name] - exported[name] <= 1
    ]

    assert unused == []

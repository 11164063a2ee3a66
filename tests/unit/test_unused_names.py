"""The library, the command, the functions, the constructs and the local stack have no code that only tests use.

A definition is used if an entry reaches it: a handler, a command, or a statement that a module runs. What only unused
definitions, the bench or tests name is unused, too. Names are compared, not objects: of two definitions with one name,
both are used if one is.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "library": ROOT / "layers" / "joiner" / "python" / "joiner",
    "command": ROOT / "cli" / "joiner_cli",
    "functions": ROOT / "functions",
    "infra": ROOT / "infra",
    "local": ROOT / "local",
}
ENTRIES = {
    "main": "the command in pyproject.toml",
    "fleet_state": "moto writes the fields of an answer by their names",
    "CloudFormationAccessEntry": "moto finds the models of CloudFormation by their class",
    "unparse": "moto writes its answers with it",
    "restart_api_server": "a fault of the local stack for tests, as the knobs of the local AWS are",
}
"""Names that are called from elsewhere, and by what."""
UNREAD = {
    "adapters/kube_kinds.py": "its constants are the table KINDS, which is read by API version and kind",
}
"""Modules and folders whose names need not be used, with the reason."""
SIMPLE_BASES = {"Protocol", "Generic", "Enum", "StrEnum", "IntEnum", "TypedDict", "NamedTuple", "Exception", "ABC"}
"""Bases that call no method of a class by its name."""


@dataclass(frozen=True)
class Block:
    """A definition and the names in it. A block without a name is run with its module."""

    name: str
    uses: frozenset[str]


def blocks(tree: ast.Module, ours: frozenset[str], *, handler: bool = False) -> Iterator[Block]:
    """Yield the blocks of a module. `ours` are the names of all classes of this repository."""
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                entry = (handler and name == "handler") or _is_registered(statement)
                yield Block("" if entry else name, names_in(statement))
            case ast.ClassDef():
                yield from _blocks_of_class(statement, ours)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield Block(name, names_in(statement))
            case ast.Import() | ast.ImportFrom():
                pass
            case _:
                yield Block("", names_in(statement))


def _blocks_of_class(of: ast.ClassDef, ours: frozenset[str]) -> Iterator[Block]:
    """Yield a class without its methods, and each method; those that a class of others may call belong to the class."""
    bases = {part.id for base in of.bases for part in ast.walk(base) if isinstance(part, ast.Name)}
    bases |= {part.attr for base in of.bases for part in ast.walk(base) if isinstance(part, ast.Attribute)}
    called_by_others = bool(bases - ours - SIMPLE_BASES)
    own: set[str] = set()
    for part in (*of.body, *of.bases, *of.decorator_list, *(each.value for each in of.keywords)):
        method = isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and not (
            called_by_others or part.name.startswith("__") or _is_registered(part)
        ):
            yield Block(part.name, names_in(part))
        else:
            own |= names_in(part) if method or not _names_nothing(part) else set()
    yield Block(of.name, frozenset(own))


def _names_nothing(part: ast.AST) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)


def _is_registered(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a decorator registers the function, which is then called by others: a command, for example."""
    calls = [each.func if isinstance(each, ast.Call) else each for each in function.decorator_list]
    return any(isinstance(call, ast.Attribute) and call.attr in ("command", "callback") for call in calls)


def names_in(part: ast.AST) -> frozenset[str]:
    """Return the names that the code of a part reads; those in annotations that are texts count, too."""
    found: set[str] = set()
    for node in ast.walk(part):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name):
                found.add(name)
            case (
                ast.arg(annotation=ast.Constant(value=str(text)))
                | ast.AnnAssign(annotation=ast.Constant(value=str(text)))
            ):
                found |= names_in(ast.parse(text, mode="eval"))
            case ast.FunctionDef(returns=ast.Constant(value=str(text))):
                found |= names_in(ast.parse(text, mode="eval"))
            case ast.Subscript(slice=inner):
                found |= {
                    name
                    for each in ast.walk(inner)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str) and each.value.isidentifier()
                    for name in [each.value]
                }
    return frozenset(found)


@cache
def sources() -> dict[Path, ast.Module]:
    paths = [ROOT / "app.py", *(path for folder in FOLDERS.values() for path in sorted(folder.rglob("*.py")))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


@cache
def all_blocks() -> dict[Path, list[Block]]:
    ours = frozenset(
        node.name for tree in sources().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    return {
        path: list(blocks(tree, ours, handler=FOLDERS["functions"] in path.parents)) for path, tree in sources().items()
    }


def reached(found: list[Block]) -> frozenset[str]:
    """Return the names that the blocks without a name reach."""
    by_name: dict[str, list[Block]] = {}
    for block in found:
        by_name.setdefault(block.name, []).append(block)
    known, left = {"", *ENTRIES}, ["", *ENTRIES]
    while left:
        new = {name for block in by_name.get(left.pop(), ()) for name in block.uses} - known
        known |= new
        left += new
    return frozenset(known)


@cache
def reached_names() -> frozenset[str]:
    return reached([block for found in all_blocks().values() for block in found])


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_each_definition_is_reached_from_an_entry(folder: Path) -> None:
    unused = [
        f"{path.relative_to(folder)}: {block.name}"
        for path, found in all_blocks().items()
        if folder in path.parents and not path.relative_to(folder).as_posix().startswith(tuple(UNREAD))
        for block in found
        if block.name not in reached_names() and not block.name.startswith("__")
    ]

    assert unused == []


def test_what_only_unused_code_names_is_unused() -> None:
    source = """
def used(): return helper()
def helper(): return LIMIT
LIMIT = 3
def dead(): return inner()
def inner(): return 1
class Kept:
    def called(self): return inner_of_kept()
    def idle(self): return inner_of_idle()
def inner_of_kept(): pass
def inner_of_idle(): pass
print(used(), Kept().called)
"""
    found = list(blocks(ast.parse(source), frozenset()))

    assert {block.name for block in found} - reached(found) == {"dead", "inner", "idle", "inner_of_idle"}

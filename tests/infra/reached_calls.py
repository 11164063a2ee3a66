"""The AWS calls that a function can make: those in its code, and those of the library code that it reaches by name.

A definition of the library is reached if reached code uses its name, and the function imports its module, directly or
through other modules. Two methods of one name in two imported modules are both reached, so the result can contain too
many calls, but not too few.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from botocore import xform_name
from botocore.session import get_session

from tests.infra.conftest import ROOT
from tests.local.refusals.made_calls import SERVICES

LIBRARY = ROOT / "layers/joiner/python"
PREFIXES = {"stepfunctions": "states"}
ACTIONS = {
    # Operations whose IAM action has another name, or none
    "lambda:Invoke": ("lambda:InvokeFunction",),
    "s3:ListObjectsV2": ("s3:ListBucket",),
    "s3:DeleteObjects": ("s3:DeleteObject",),
    "dynamodb:TransactWriteItems": (),  # its items need actions of their own, which tests/infra/table_calls.py reads
    "sts:GetCallerIdentity": (),
}


@cache
def reached_actions(function: str) -> frozenset[str]:
    """Return the IAM actions of all calls that the function of this folder can make."""
    return frozenset(action for name in _reached_names(function) for action in _actions().get(name, ()))


def _reached_names(function: str) -> set[str]:
    trees = [_tree(path) for path in sorted((ROOT / "functions" / function).glob("*.py"))]
    definitions = _definitions(_imported(trees))
    names: set[str] = set()
    left = {name for tree in trees for name in _names(tree)}
    while left:
        names |= left
        left = {
            each for name in left for definition in definitions.get(name, ()) for each in _names(definition)
        } - names
    return names


@cache
def _actions() -> Mapping[str, tuple[str, ...]]:
    """Return the methods of boto3's clients with the IAM actions that they require."""
    found: dict[str, tuple[str, ...]] = {}
    for service in SERVICES:
        for operation in get_session().get_service_model(service).operation_names:
            action = f"{PREFIXES.get(service, service)}:{operation}"
            found[xform_name(operation)] = (*found.get(xform_name(operation), ()), *ACTIONS.get(action, (action,)))
    return found


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _names(tree: ast.AST) -> frozenset[str]:
    """Return attributes, names and strings: paginators are named by strings."""
    return frozenset(name for node in ast.walk(tree) if (name := _name(node)))


def _name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Constant(value=str(text)) if text.isidentifier():
            return text
    return ""


def _imported(trees: Iterable[ast.Module]) -> set[Path]:
    """Return the modules of the library that these import, directly or through others."""
    found: set[Path] = set()
    left = {path for tree in trees for path in _imports(tree)}
    while left:
        found |= left
        left = {path for each in left for path in _imports(_tree(each))} - found
    return found


@cache
def _imports(tree: ast.Module) -> frozenset[Path]:
    return frozenset(
        path
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "joiner"
        for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names))
        for path in _files(LIBRARY / name.replace(".", "/"))
    )


def _files(module: Path) -> Iterator[Path]:
    yield from (each for each in (module.with_suffix(".py"), module / "__init__.py") if each.is_file())


def _definitions(paths: Iterable[Path]) -> Mapping[str, list[ast.AST]]:
    """Return the definitions of these modules by name."""
    found: dict[str, list[ast.AST]] = {}
    for path in paths:
        for name, node in _defined(path):
            found.setdefault(name, []).append(node)
    return found


@cache
def _defined(path: Path) -> tuple[tuple[str, ast.AST], ...]:
    """Return functions and methods with their names. A class stands for its body without its public methods, which are
    reached by their own names.
    """
    found: list[tuple[str, ast.AST]] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((node.name, node))
        elif isinstance(node, ast.ClassDef):
            found.extend((node.name, each) for each in node.body if not _is_method(each) or _is_special(each))
    return tuple(found)


def _is_method(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _is_special(node: ast.AST) -> bool:
    """Return whether Python calls this method implicitly."""
    return isinstance(node, ast.FunctionDef) and node.name.startswith("__")

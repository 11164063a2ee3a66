"""No test replaces a part of our own code: what a test must decide is an argument. And none replaces a function of the
standard library, which the threads of other tests call, too.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("joiner", "joiner_cli", "joiner_local", "functions", "infra", "bench")
SHARED = sys.stdlib_module_names - {"sys"}
"""`sys` has values that are meant to be set."""


def replacements(source: str) -> Iterator[str]:
    """Yield each attribute of a module, or of a class or a function in it, that the source assigns or patches, if the
    module is one of ours or of the standard library.
    """
    tree = ast.parse(source)
    imported = dict(_imports(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr" | "patch"), args=[ast.Constant(value=str(name)), *_]):
                yield from [name] if _is_shared(name) else []
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "object") | ast.Name(id="setattr"),
                args=[owner, ast.Constant(value=str(name)), *_],
            ):
                yield from _named(owner, name, imported)
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Attribute):
                        yield from _named(target.value, target.attr, imported)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that an import of our code defines, and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and _is_shared(node.module):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                if _is_shared(alias.name):
                    yield name, alias.name if alias.asname else name


def _named(owner: ast.expr, name: str, imported: dict[str, str]) -> Iterator[str]:
    path = ast.unparse(owner).split(".")
    if path[0] in imported:
        yield ".".join((imported[path[0]], *path[1:], name))


def _is_shared(name: str) -> bool:
    return name.partition(".")[0] in {*OURS, *SHARED}


def test_no_test_replaces_our_own_code_or_the_standard_library() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (names := list(replacements(path.read_text(encoding="utf-8"))))
    }

    assert found == {}


def test_the_search_finds_each_form_of_a_replacement() -> None:
    source = """
from functions.evict_pods import handler as evict_pods
from joiner.adapters import environment
import infra.app
import boto3
import sys
import time

monkeypatch.setattr("joiner.adapters.environment.kube", None)
monkeypatch.setattr(evict_pods, "handler", None)
mock.patch.object(environment, "now", None)
mock.patch("functions.evict_pods.handler.act")
setattr(infra.app, "main", None)
environment.now = None
monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
monkeypatch.setattr("time.sleep", None)
monkeypatch.setattr(time, "sleep", None)
monkeypatch.setattr("sys.dont_write_bytecode", False)
"""

    assert sorted(replacements(source)) == [
        "functions.evict_pods.handler.act",
        "functions.evict_pods.handler.handler",
        "infra.app.main",
        "joiner.adapters.environment.kube",
        "joiner.adapters.environment.now",
        "joiner.adapters.environment.now",
        "time.sleep",
        "time.sleep",
    ]

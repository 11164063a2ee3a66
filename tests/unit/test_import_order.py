"""No module of the library needs another one to be imported before it.

Each function imports other modules first, and the tests' sandboxes import all of them in one order (the knob `preload`
of the local stack). Both give the same modules because the imports have no cycle. Within a package whose `__init__`
imports its modules, that file always comes first.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[2] / "layers" / "joiner" / "python"


def modules(root: Path) -> dict[str, Path]:
    """Return the file of each module below the folder, by name."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(root.rglob("*.py"))
    }


def imports(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that are imported when the module is: not those in functions, nor those for type checkers."""
    for statement in statements:
        match statement:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{each.name}" for each in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                yield from imports(orelse)
            case ast.If(body=body, orelse=orelse):
                yield from imports([*body, *orelse])
            case ast.With(body=body) | ast.Try(body=body):
                yield from imports(body)


def needed(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the modules that each module needs. An imported name may be an attribute of a module; a module needs its
    packages, except while they import it themselves."""
    found: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for imported in imports(ast.parse(path.read_text()).body):
            target = imported if imported in files else imported.rpartition(".")[0]
            while target in files and not f"{name}.".startswith(f"{target}."):
                found[name].add(target)
                target = target.rpartition(".")[0]
    return found


def test_imports_of_the_library_have_no_cycle() -> None:
    order = [*TopologicalSorter(needed(modules(LIBRARY))).static_order()]

    assert len(order) > 400


def test_a_cycle_is_found(tmp_path: Path) -> None:
    for name, text in {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import c\nimport b",
        "b": "with open(''):\n    from c import x",
        "c": "def later():\n    import b\nx = 1",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert [*TopologicalSorter(needed(modules(tmp_path))).static_order()] == ["c", "b", "a"]

    (tmp_path / "c.py").write_text("from b import late\nx = 1")
    with pytest.raises(CycleError, match="'b', 'c'"):
        TopologicalSorter(needed(modules(tmp_path))).prepare()

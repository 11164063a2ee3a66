"""Files and functions stay short enough to be read at once; an exception stands in a list below, with its reason.

The lines of a function are counted without its docstring and its decorators. Calls stay readable, too: a function has
few parameters, and a value with many fields takes only its first ones by position.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY = Path(__file__).parents[2]
FOLDERS: Final = ("layers/joiner/python/joiner", "functions", "infra", "local/joiner_local", "cli/joiner_cli", "bench")
FILES = [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]
TESTS = sorted((REPOSITORY / "tests").rglob("*.py"))
LENGTH_OF_LINE: Final = 120
OTHER_TEXTS: Final = (
    "Makefile",
    ".importlinter",
    "*.json",
    "*.toml",
    "docs/*.toml",
    "infra/*.sh",
    "clusters/*.yaml",
    "examples/**/*.yaml",
    "local/**/*.yaml",
    "manifests/**/*.yaml",
)
GENERATED: Final = ("package-lock.json",)
UNBREAKABLE: Final = 100
"""A word of so many characters, such as a regular expression, cannot be divided. Neither can a layer of import-linter,
which is a line with its modules between bars."""
LINES_OF_FILE: Final = 400
LINES_OF_FUNCTION: Final = 40
PARAMETERS: Final = 10
FIELDS_BY_POSITION: Final = 3
"""Of a value with more fields than `PARAMETERS`."""

LONG_FILES: Final[dict[str, str]] = {}
LONG_FUNCTIONS: Final[dict[str, str]] = {
    "packing/randomized_rounding.py pack_greedily": "one loop over arrays, whose steps depend on each other",
    "packing/randomized_greedy.py pack_best_of_attempts": "one loop over arrays, whose steps depend on each other",
    "packing/column_generation.py _rounded": "one loop over arrays, whose steps depend on each other",
    "packing/node_filling.py NodeFiller.__init__": "the arrays that all fillings share",
    "packing/node_filling.py NodeFiller._take": "one loop over arrays, whose steps depend on each other",
    "aws/installation.py install_services": "the services, in the order in which they need each other",
}

MANY_PARAMETERS: Final[dict[str, str]] = {
    "packing/randomized_rounding.py pack_greedily": "one loop over arrays, which are its parameters",
    "launching/fleet_request.py build_fleet_request": "the fields of CreateFleet; all but the first by keyword",
}


def functions_in(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, int]]:
    """The functions and methods of a module, with their numbers of lines; those in a function count as a part of it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions_in(node, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            text = node.body[0] if ast.get_docstring(node) is not None else None
            documented = (text.end_lineno or 0) - text.lineno + 1 if text else 0
            yield owner + node.name, (node.end_lineno or 0) - node.lineno + 1 - documented


def lengths() -> dict[str, int]:
    """The numbers of lines of all functions, by folder, file and name."""
    return {
        f"{path.parent.name}/{path.name} {name}": lines
        for path in FILES
        for name, lines in functions_in(ast.parse(path.read_text(encoding="utf-8")))
    }


def test_no_line_is_longer_than_120_characters() -> None:
    """The linter leaves out what a comment with its own directives adds to a line."""
    found = [
        f"{path.relative_to(REPOSITORY).as_posix()}:{number}"
        for path in (*FILES, *TESTS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LENGTH_OF_LINE
    ]

    assert found == []


def can_be_divided(line: str) -> bool:
    return max(map(len, line.split())) < UNBREAKABLE and " | " not in line


def test_no_line_of_a_manifest_or_setting_is_longer_than_120_characters_if_it_can_be_divided() -> None:
    texts = {path for pattern in OTHER_TEXTS for path in REPOSITORY.glob(pattern) if path.name not in GENERATED}
    found = [
        f"{path.relative_to(REPOSITORY).as_posix()}:{number}"
        for path in sorted(texts)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LENGTH_OF_LINE and can_be_divided(line)
    ]

    assert len(texts) > 50
    assert found == []


def test_no_file_is_longer_than_400_lines_without_a_reason() -> None:
    found = {
        path.relative_to(REPOSITORY).as_posix(): lines
        for path in (*FILES, *TESTS)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINES_OF_FILE
    }

    assert {name: lines for name, lines in found.items() if name not in LONG_FILES} == {}
    assert [name for name in LONG_FILES if name not in found] == []


def test_no_function_is_longer_than_40_lines_without_a_reason() -> None:
    found = {name: lines for name, lines in lengths().items() if lines > LINES_OF_FUNCTION}

    assert {name: lines for name, lines in found.items() if name not in LONG_FUNCTIONS} == {}
    assert [name for name in LONG_FUNCTIONS if name not in found] == []


def test_lines_are_counted_without_the_docstring_and_the_decorators() -> None:
    source = (
        "def short():\n    return 1\n\n\nclass One:\n    @property\n    def long(self):\n"
        '        """A\n\n        docstring."""\n        x = 1\n        return x\n'
    )

    assert dict(functions_in(ast.parse(source))) == {"short": 2, "One.long": 3}


def trees() -> Iterator[tuple[str, ast.Module]]:
    """The folder and file of each module, with its tree."""
    for path in FILES:
        yield f"{path.parent.name}/{path.name}", ast.parse(path.read_text(encoding="utf-8"))


def parameters(function: ast.FunctionDef) -> int:
    """The number of parameters of a function, without `self` and `cls`."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return len([one for one in every if one.arg not in ("self", "cls")])


def test_no_function_and_no_constructor_has_more_than_ten_parameters_without_a_reason() -> None:
    found = {
        f"{name} {node.name}": count
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and (count := parameters(node)) > PARAMETERS
    }

    assert {name: count for name, count in found.items() if name not in MANY_PARAMETERS} == {}
    assert [name for name in MANY_PARAMETERS if name not in found] == []


def fields_of(node: ast.ClassDef) -> tuple[int, int]:
    """The numbers of fields of a dataclass: all that its constructor takes, and those that it takes by position."""
    decorators = [ast.unparse(one) for one in node.decorator_list]
    if not any(one.startswith("dataclass") for one in decorators):
        return 0, 0
    given = [one for one in node.body if isinstance(one, ast.AnnAssign) and "init=False" not in ast.unparse(one)]
    types = [one for each in given if not (one := ast.unparse(each.annotation)).startswith("ClassVar")]
    first = types.index("KW_ONLY") if "KW_ONLY" in types else len(types)
    return len(types) - ("KW_ONLY" in types), 0 if any("kw_only=True" in one for one in decorators) else first


def test_a_value_with_many_fields_is_built_by_keywords() -> None:
    values = {
        f"{name} {node.name}": fields_of(node)
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    found = {
        name
        for name, (fields, by_position) in values.items()
        if fields > PARAMETERS and by_position > FIELDS_BY_POSITION
    }
    assert sorted(found) == []
    assert values["pools/node_class.py NodeClass"][1] == 2

"""Files and functions stay short enough to be read at once; an exception stands in a list below, with its reason.

The lines of a function are counted without its docstring and its decorators.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY = Path(__file__).parents[2]
FOLDERS: Final = ("layers/joiner/python/joiner", "functions", "infra", "local/joiner_local", "cli/joiner_cli", "bench")
FILES = [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]
TESTS = sorted((REPOSITORY / "tests").rglob("*.py"))
LINES_OF_FILE: Final = 400
LINES_OF_FUNCTION: Final = 40

LONG_FILES: Final[dict[str, str]] = {}
LONG_FUNCTIONS: Final[dict[str, str]] = {
    "packing/randomized_rounding.py pack_greedily": "one loop over arrays, whose steps depend on each other",
    "packing/randomized_greedy.py pack_best_of_attempts": "one loop over arrays, whose steps depend on each other",
    "packing/column_generation.py _rounded": "one loop over arrays, whose steps depend on each other",
    "packing/node_filling.py NodeFiller.__init__": "the arrays that all fillings share",
    "packing/node_filling.py NodeFiller._take": "one loop over arrays, whose steps depend on each other",
    "aws/installation.py install_services": "the services, in the order in which they need each other",
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

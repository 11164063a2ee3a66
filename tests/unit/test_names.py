"""A name means one thing, and prose uses the field's words.

The tests read all code of the product and of its tests. A public class or a module name that is defined twice sends a
reader to the wrong file; an exception to this rule stands in a list below, with its reason.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

REPOSITORY = Path(__file__).parents[2]
FOLDERS: Final = ("layers/joiner/python/joiner", "functions", "infra", "local/joiner_local", "cli/joiner_cli", "bench")
NAMED_ONCE: Final = (*FOLDERS, "tests")
FILES = [path for folder in NAMED_ONCE for path in sorted((REPOSITORY / folder).rglob("*.py"))]

SAME_MODULE_NAME: Final = {
    "__init__.py": "Python's name for a package",
    "__main__.py": "Python's name for a program",
    "app.py": "the command's program, and the app of a deployment, which the CDK runs by this name",
    "conftest.py": "pytest's name for fixtures",
    "handler.py": "the entry point of each function; its folder has the name",
}
SAME_CLASS_NAME: Final[dict[str, str]] = {}

AVOIDED: Final = re.compile(
    r"\b(told|said|whoever|whomever|somebody|dear|dearer|dearest|mend|mends|mended|mending|weather"
    r"|carried out|hand out|hands out|toll|wishes|born|births?|rang unheard)\b",
    re.IGNORECASE,
)
"""Words that a reader has to guess: metaphors, and words that the documentation of Kubernetes does not use."""

SUSPECT: Final = re.compile(AVOIDED.pattern.replace(r"\b", "").replace(" ", r"\W+(?:f\W+)?"), re.IGNORECASE)
"""What the text of a module has if its prose has such a word: perhaps right after an escape such as `\\n`, and perhaps
with its parts in two adjacent strings. Parsing all modules takes a quarter of a minute.
"""


def relative(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def public_classes(path: Path) -> Iterator[str]:
    """The names of the public classes at the top level of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def defined_twice(places: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def test_no_two_modules_have_the_same_name_without_a_reason() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        places[path.name].append(relative(path))
    twice = defined_twice(places)

    assert {name: where for name, where in twice.items() if name not in SAME_MODULE_NAME} == {}
    assert [name for name in SAME_MODULE_NAME if name not in twice] == []


def test_no_two_public_classes_have_the_same_name_without_a_reason() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for name in public_classes(path):
            places[name].append(relative(path))
    twice = defined_twice(places)

    assert {name: where for name, where in twice.items() if name not in SAME_CLASS_NAME} == {}
    assert [name for name in SAME_CLASS_NAME if name not in twice] == []


def prose(source: str) -> Iterator[tuple[int, str]]:
    """The comments of a module that may have an avoided word, and its strings with at least one space: docstrings and
    messages.
    """
    if not SUSPECT.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for number, line in enumerate(node.value.splitlines()):
                yield node.lineno + number, line


@pytest.mark.parametrize("folder", NAMED_ONCE)
def test_prose_avoids_words_that_a_reader_must_guess(folder: str) -> None:
    found = [
        f"{relative(path)}:{line}: {match[0]}"
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if path != Path(__file__)  # it contains the words
        for line, text in prose(path.read_text(encoding="utf-8"))
        if (match := AVOIDED.search(text))
    ]

    assert found == []


def test_pages_avoid_words_that_a_reader_must_guess() -> None:
    folders = ("docs", "functions", "examples", "clusters", "manifests")
    pages = [*REPOSITORY.glob("*.md"), *(page for folder in folders for page in (REPOSITORY / folder).rglob("*.md"))]
    found = [
        f"{relative(page)}:{number}: {match[0]}"
        for page in pages
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := AVOIDED.search(line))
    ]

    assert len(pages) > 40
    assert found == []


def test_words_are_found_in_comments_docstrings_and_messages() -> None:
    source = '"""Whoever is told.\n\nA dear node.\n"""\nx = 1  # mended\nraise ValueError(f"{x} was told")\n'

    assert avoided(source) == [(1, "Whoever"), (3, "dear"), (5, "mended"), (6, "told")]


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("# mended", "mended"),
        (r'x = "one line\ndear one"', "dear"),
        ('x = (\n    "it is carried "\n    "out"\n)', "carried out"),
        ('x = "hand "f"out {1}"', "hand out"),
        ("x = 'what toll ' 'is'", "toll"),
    ],
)
def test_a_word_alone_in_a_module_is_found_wherever_it_stands(source: str, word: str) -> None:
    assert avoided(source) in ([(1, word)], [(2, word)])


def avoided(source: str) -> list[tuple[int, str]]:
    """The line and the first avoided word of each piece of prose that has one."""
    return sorted({(line, match[0]) for line, text in prose(source) if (match := AVOIDED.search(text))})


ARCHITECTURE = REPOSITORY / "docs" / "architecture.md"
LIBRARY = REPOSITORY / "layers" / "joiner" / "python" / "joiner"
NAMED_PATH = re.compile(r"`([\w./-]+/[\w./-]*|[\w-]+\.py)`")


def test_every_path_in_the_architecture_exists() -> None:
    paths = NAMED_PATH.findall(ARCHITECTURE.read_text(encoding="utf-8"))

    assert len(paths) > 40
    assert [path for path in paths if not any((start / path).exists() for start in (REPOSITORY, LIBRARY))] == []

"""Describes what is wrong in a YAML text, in the line where the mistake is, with the remedy.

A YAML parser stops where it cannot continue, which is often a line after the mistake: for a bracket or a quotation mark
that is not closed, the line where it opens is reported instead.

>>> import yaml
>>> text = 'a: 1\\nlabels: {app: x, tier: y\\nspec:\\n  b: 2\\n'
>>> try:
...     _ = yaml.load(text, Loader=yaml.CSafeLoader)
... except yaml.MarkedYAMLError as error:
...     found = explain_syntax_error(error, text)
>>> found.line, found.message
(2, "the { is not closed, or a ',' is missing between its entries")
"""

import re
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

WRITE_VALID: Final = "write valid YAML or JSON"
SEPARATE: Final = "write a line --- between two objects"
QUOTE: Final = "put the value in quotes"

LEXICAL: Final = (
    ("tab character", "a tab indents the line", "indent with spaces"),
    (
        "mapping values are not allowed",
        "a key is not allowed at this place",
        f"{QUOTE} if it has a ': ', or indent the line like the key before",
    ),
    ("cannot start any token", "a value cannot begin with {first}", QUOTE),
    ("undefined alias", "{alias} is an alias that nothing defines", f"{QUOTE}, or define it with &"),
    ("recursive", "an alias (*) contains itself", "write the values instead of the alias"),
    ("cannot hold", "{problem}", "write a mapping with texts as keys, a list, a text or a number"),
    ("must be a text", "{problem}", "write a mapping with texts as keys, a list, a text or a number"),
    ("finite", "{problem}", QUOTE),
)
"""Words of PyYAML's problem, what it means, and the remedy."""


@dataclass(frozen=True, slots=True)
class YamlMistake:
    """A mistake in a text; ``line`` counts from 1, and is 0 if it is unknown."""

    message: str
    line: int = 0
    remedy: str = WRITE_VALID

    @property
    def sentence(self) -> str:
        """Return the line, what is wrong there, and the remedy.

        >>> YamlMistake("the quotation mark is not closed", 3, "close it").sentence
        'in line 3, the quotation mark is not closed: close it'
        """
        return f"{f'in line {self.line}, ' if self.line else ''}{self.message}: {self.remedy}"


class DuplicatedKey(yaml.constructor.ConstructorError):
    """A mapping has a key twice. ``outer`` is whether the mapping is a whole document."""

    def __init__(self, key: str, mark: Any, *, outer: bool) -> None:
        super().__init__(None, None, f"the key {key!r} is duplicated in one mapping", mark)
        self.key, self.outer = key, outer


def explain_syntax_error(error: yaml.MarkedYAMLError, text: str, before: int = 0) -> YamlMistake:
    """Return what an error of PyYAML means; `before` is the number of lines before the text in its file."""
    found = _explain(error, text, before)
    return replace(found, line=found.line + before) if found.line else found


def _explain(error: yaml.MarkedYAMLError, text: str, before: int) -> YamlMistake:
    """Return what an error means, with its line in the text."""
    problem, context = str(error.problem or ""), str(error.context or "")
    line = _line_of(error.problem_mark or error.context_mark, text)
    began = _line_of(error.context_mark, text) or line
    if isinstance(error, DuplicatedKey):
        joined = error.outer and error.key in ("apiVersion", "kind", "metadata")
        return YamlMistake(problem, line, SEPARATE if joined else "keep one of them")
    if "flow" in context:
        return _unclosed_bracket(context, began)
    if "quoted scalar" in context:
        return _broken_quotation(problem, line, began)
    if "simple key" in context:
        return _missing_colon(text, began)
    if "block" in context:
        start = f"that begins in line {began + before}"
        return YamlMistake(
            f"it does not continue the {'list' if 'sequence' in context or 'collection' in context else 'mapping'} "
            f"{start}",
            line,
            "indent it like the entries before, and close quotation marks where their text ends",
        )
    of_alias = "alias" in context
    there = _text_at(error.context_mark if of_alias else error.problem_mark, text)
    return _lexical_mistake("undefined alias" if of_alias else problem, line, there)


def explain_bad_character(error: yaml.YAMLError, text: str, before: int = 0) -> YamlMistake:
    """Return what an error of PyYAML without a place means: a character that YAML does not have. `before` is the number
    of lines before the text in its file.
    """
    position = getattr(error, "position", None)
    if not isinstance(position, int):
        return YamlMistake(" ".join(str(error).split()))
    if getattr(error, "encoding", "") == "unicode":  # the reader in Python counts characters, and libyaml bytes
        line = text.count("\n", 0, position) + 1 + before
    else:
        line = text.encode(errors="replace")[:position].count(b"\n") + 1 + before
    character = getattr(error, "character", 0)
    shown = f"{character:04X}" if isinstance(character, int) else str(character)
    return YamlMistake(f"the control character U+{shown} is not allowed", line, "remove it, and save the file as UTF-8")


def _unclosed_bracket(context: str, began: int) -> YamlMistake:
    if "flow node" in context:
        return YamlMistake("a value is missing after [, { or ','", began, "close the bracket, or write the value")
    sequence = "sequence" in context
    bracket, closing = ("[", "]") if sequence else ("{", "}")
    missing = f"the {bracket} is not closed, or a ',' is missing between its entries"
    return YamlMistake(missing, began, f"write {closing} after its last entry")


def _broken_quotation(problem: str, line: int, began: int) -> YamlMistake:
    if "escape" in problem:
        return YamlMistake("the quotation has an unknown escape sequence", line, "double the \\, or use single quotes")
    return YamlMistake("the quotation mark is not closed", began, "close it, or put the whole value in quotes")


def _missing_colon(text: str, began: int) -> YamlMistake:
    own = text.splitlines()[began - 1].strip() if 0 < began <= len(text.splitlines()) else ""
    if re.fullmatch(r"-{2,}", own):
        return YamlMistake(f"{own} is no separator of documents", began, "write exactly three dashes: ---")
    return YamlMistake(
        "there is no ':' after this key", began, "write key: value, or indent the line if it continues the one before"
    )


def _lexical_mistake(problem: str, line: int, there: str) -> YamlMistake:
    if there.startswith("\t"):
        problem = "tab character"
    name = re.match(r"\*\S*", there)
    for words, message, remedy in LEXICAL:
        if words in problem:
            shown = message.format(problem=problem, first=there[:1], alias=name.group() if name else "*")
            return YamlMistake(shown, line, remedy)
    return YamlMistake(problem or "not YAML", line)


def _text_at(mark: Any, text: str) -> str:
    if mark is None:
        return ""
    lines = text.splitlines()
    return lines[mark.line][mark.column :] if mark.line < len(lines) else ""


def _line_of(mark: Any, text: str) -> int:
    """Return the line of a mark; for the end of the text, its last line that is not empty."""
    return min(mark.line + 1, max(text.rstrip().count("\n") + 1, 1)) if mark else 0

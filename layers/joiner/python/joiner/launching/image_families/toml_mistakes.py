"""Describes what is wrong in a TOML text, in words that name the remedy: ``tomllib`` names what its parser expected.

>>> import tomllib
>>> def explain(text: str) -> str:
...     try:
...         return str(tomllib.loads(text))
...     except tomllib.TOMLDecodeError as error:
...         return explain_toml_error(error, text)
>>> explain("[settings.motd")
'in line 1, the [ of a table is not closed: write ] after its name'
>>> explain('[settings]\\nmotd = hello\\n')
'in line 2, the value is none of TOML: put a text in quotes, and write true or false in lowercase'
"""

import re
import tomllib
from typing import Final

MISTAKES: Final = (
    ("end of a table declaration", "the [ of a table is not closed: write ] after its name"),
    ("end of an array declaration", "the [[ of a table is not closed: write ]] after its name"),
    ("after a key", "there is no = after the key: write key = value, and put a key with other signs in quotes"),
    ("Invalid initial character", "a key is missing, or has a sign that needs quotes: write key = value, or [table]"),
    ("Invalid statement", "it is neither a key nor a table: write key = value, or [table]"),
    ("Expected newline", "something follows its end: put a text in quotes, and write one key or table in each line"),
    ("Unclosed array", "the [ of a list is not closed: write ] after its last value, and commas between its values"),
    ("Unclosed inline", "the { is not closed: write } after its last value, and commas between its entries"),
    ("Unterminated string", "the quotation mark is not closed: close it"),
    ("Expected '\"", "the quotation mark is not closed: close it"),
    ("Expected \"'", "the quotation mark is not closed: close it"),
    ("Illegal character '\\n'", "the quotation mark is not closed: close it in this line"),
    ("Illegal character", "it has a control character: remove it"),
    ("Found invalid character", "it has a control character: remove it"),
    ("Cannot overwrite", "it is set already: keep one of them"),
    ("Cannot declare", "this table is there already: keep one of them"),
    ("Duplicate", "this key is there already: keep one of them"),
    ("Cannot redefine", "this name has a value already: keep one of them"),
    ("Cannot mutate", "it adds to a value in brackets or braces: write its entries between them"),
    ("scape", "a \\ is followed by no known letter: double it, or use single quotes"),
    ("hex", "a \\ is followed by no known character: double it, or use single quotes"),
    ("date", "there is no such date or time: correct it, or put it in quotes"),
    ("Invalid value (at end", "a value is missing: write it, and close its brackets"),
    ("Invalid value", "the value is none of TOML: put a text in quotes, and write true or false in lowercase"),
)
"""Words of tomllib's message, and what it means."""
LINE: Final = re.compile(r"\(at line (\d+), column (\d+)\)$")
MISSING: Final = "a value is missing: write it"


def explain_toml_error(error: tomllib.TOMLDecodeError, text: str) -> str:
    """Return the line of a mistake, what is wrong, and the remedy. A mistake at the end is in the last line."""
    message = str(error)
    found = LINE.search(message)
    line = int(found[1]) if found else text.rstrip().count("\n") + 1
    if found and "Invalid value" in message and _is_missing(text, line, int(found[2])):
        return f"in line {line}, {MISSING}"
    meaning = (meant for words, meant in MISTAKES if words in message)
    return f"in line {line}, {next(meaning, 'it is no TOML: write [table], or key = value')}"


def _is_missing(text: str, line: int, column: int) -> bool:
    """Return whether nothing is where tomllib, which divides lines at line feeds only, wanted a value."""
    rest = text.replace("\r\n", "\n").split("\n")[line - 1][column - 1 :].strip()
    return not rest or rest[0] in ",]}#"

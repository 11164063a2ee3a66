"""Reads the YAML of a NodeConfig. Every text that a user can write has a result: its documents, or a refusal.

PyYAML checks no value before it converts it. ``!!bool "abc"`` is a KeyError and ``!!timestamp "abc"`` an
AttributeError, and Python refuses an integer of 5,000 digits with a ValueError.

>>> read_yaml_documents('spec: !!bool "abc"')
Traceback (most recent call last):
joiner.launching.image_families.node_settings.UserDataRefused: its NodeConfig is not valid YAML: in line 1, 'abc' is ...
"""

import re
from itertools import accumulate
from typing import Any, Final

import yaml

from joiner.launching.image_families.node_settings import UserDataRefused
from joiner.pools.yaml_mistakes import YamlMistake, explain_bad_character, explain_syntax_error

DEEPEST: Final = 100
"""Levels of nesting. PyYAML reads all that are open again for each further one: seconds for a thousand, until Python's
limit of recursion ends it.
"""

MOST_MERGED: Final = 1_000
"""Entries of a mapping with those that it merges (<<). A few lines of aliases of aliases can expand to billions."""

SHOWN: Final = 40
"""Characters of a wrong value that a message has."""

DATE: Final = "timestamp"


def read_yaml_documents(text: str, before: int = 0) -> list[Any]:
    """Return the documents of a NodeConfig's text; raises UserDataRefused if it is not valid YAML.

    ``before`` is the number of lines before the text in the user data.
    """
    if _measure_depth(text) > DEEPEST:
        raise _refused("is nested too deeply")
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except RecursionError as error:
        raise _refused("is nested too deeply") from error
    except WrongValue as error:
        raise _invalid(YamlMistake(error.message, error.line + before, error.remedy)) from error
    except yaml.MarkedYAMLError as error:
        raise _invalid(explain_syntax_error(error, text, before)) from error
    except yaml.YAMLError as error:
        raise _invalid(explain_bad_character(error, text, before)) from error
    except Exception as error:  # one class's text must not end the reading of the others
        raise _invalid(YamlMistake("PyYAML cannot read it")) from error


class WrongValue(yaml.YAMLError):
    """A value that its type does not have; ``line`` counts from 1."""

    def __init__(self, message: str, line: int, remedy: str) -> None:
        super().__init__(message)
        self.message, self.line, self.remedy = message, line, remedy


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses the values that it cannot convert, and mappings that merge too much."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep=deep)
            return _check_size(value) if type(value) is int else value
        except (yaml.YAMLError, RecursionError):
            raise
        except Exception as error:  # see the module: the conversions of PyYAML raise what they happen to raise
            raise _explain_value(node) from error

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_MERGED:
            message = f"this mapping merges (<<) more than {MOST_MERGED:,} entries"
            remedy = "write the entries instead of aliases of aliases"
            raise WrongValue(message, _line(node), remedy)


def _explain_value(node: yaml.Node) -> WrongValue:
    written = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    shown = repr(written if len(written) <= SHOWN else f"{written[:SHOWN]}...")
    kind = node.tag.rpartition(":")[2]
    if kind == DATE and re.fullmatch(r"[0-9]{4}-.*", written, re.DOTALL):
        return WrongValue(f"there is no date {shown}", _line(node), "correct it, or put it in quotes")
    remedy = f"correct it, or put it in quotes, without a tag such as !!{kind}"
    return WrongValue(f"{shown} is no value of the type {kind}", _line(node), remedy)


def _check_size(value: int) -> int:
    """Return an integer of at most 64 bits, as Go reads them; Python could not even write some larger ones as text."""
    if not -(2**63) <= value < 2**64:
        raise OverflowError
    return value


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _measure_depth(text: str) -> int:
    """Return at least the deepest nesting: by brackets, or by the indicators (- and ?) at the beginning of a line."""
    brackets = max(accumulate(1 if each in "[{" else -1 for each in re.findall(r"[][{}]", text)), default=0)
    begins = re.findall(r"^[-?: \t]+", text, re.MULTILINE)
    indicators = max((len(re.findall("[-?:]", begin)) for begin in begins), default=0)
    return max(brackets, indicators)


def _invalid(mistake: YamlMistake) -> UserDataRefused:
    return _refused(f"is not valid YAML: {mistake.sentence}")


def _refused(why: str) -> UserDataRefused:
    return UserDataRefused("InvalidUserData", f"its NodeConfig {why}")

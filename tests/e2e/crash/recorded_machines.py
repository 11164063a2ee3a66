"""What a recorded scenario says: the Tasks of a machine, the folders of functions, and how often each call was made."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def most_of_each(counted: Iterable[Counter[tuple[str, str]]]) -> Counter[tuple[str, str]]:
    """Return the most times that each call was made in one scenario.

    >>> most_of_each([Counter({("f", "a"): 2}), Counter({("f", "a"): 1, ("f", "b"): 1})])
    Counter({('f', 'a'): 2, ('f', 'b'): 1})
    """
    most: Counter[tuple[str, str]] = Counter()
    for each in counted:
        most |= each
    return most


def folder_of(function: Mapping[str, Any]) -> str:
    """Return the folder of a function's code."""
    variables = function.get("Environment", {}).get("Variables", {})
    return str(variables.get("POWERTOOLS_SERVICE_NAME", function["FunctionName"]))


def tasks_of(definition: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Every Task of a machine with its arguments, those inside of Maps and branches too."""

    def walk(states: dict[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
        for name, state in states.items():
            if state["Type"] == "Task":
                yield name, state.get("Arguments", {})
            if state["Type"] == "Map":
                yield from walk(state["ItemProcessor"]["States"])
            for branch in state.get("Branches", ()):
                yield from walk(branch["States"])

    return walk(json.loads(definition)["States"])

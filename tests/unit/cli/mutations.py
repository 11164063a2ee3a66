"""Seeded mutations of valid manifests, of their values and of their text.

They include common mistakes (a misspelled field, a missing quote, a wrong indentation, a duplicated document) and
unusual ones (numbers of a thousand digits, lists instead of maps, control characters, values of other fields).
"""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parent / "manifests"
ODD: tuple[Any, ...] = (
    None,
    "",
    " ",
    0,
    -1,
    1,
    3.5,
    1e300,
    2**31,
    2**63,
    10**40,
    True,
    False,
    [],
    {},
    [None],
    [[]],
    {"": ""},
    {"a": {"b": [1, {"c": None}]}},
    "0",
    "-1",
    "1e9",
    "999999999999Ei",
    "500m",
    "0.1",
    "1Gi",
    "100%",
    "Never",
    "default",
    "In",
    "DoesNotExist",
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "karpenter.sh/nodepool",
    "a" * 300,
    "é ü",
    "\x00",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "${HOME}",
    "NaN",
    "null",
    "yes",
    "2026-01-01",
    "12:30",
)
Place = tuple[Any, Any]

MOST_WRITTEN = 1_000
WRITTEN: dict[str, str] = {}
"""Documents as YAML: most of a file are those without a mutation, and writing them takes longer than reading them."""


def good() -> list[dict[str, Any]]:
    """Return every valid manifest, with lists expanded."""
    found: list[dict[str, Any]] = []
    for path in sorted(MANIFESTS.glob("*")):
        for one in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            found.extend(one["items"] if one.get("kind") == "List" else [one])
    return found


def mutated(seed: int, manifests: list[dict[str, Any]]) -> str:
    """Return the text of a file with one to three mutations."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    documents = copy.deepcopy(manifests)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(CHANGES)(chance, documents)
    text = "\n---\n".join(json.dumps(one, indent=1) if chance.random() < 0.5 else _as_yaml(one) for one in documents)
    return _torn(chance, text) if chance.random() < 0.15 else text


def _as_yaml(one: Any) -> str:
    key = repr(one)
    text = WRITTEN.get(key)
    if text is None:
        text = yaml.safe_dump(one, sort_keys=False, allow_unicode=True)
        if len(WRITTEN) < MOST_WRITTEN:
            WRITTEN[key] = text
    return text


def places(value: Any) -> Iterator[Place]:
    """Return every (container, key) in a manifest."""
    if isinstance(value, dict):
        for key in list(value):
            yield value, key
            yield from places(value[key])
    elif isinstance(value, list):
        for index in range(len(value)):
            yield value, index
            yield from places(value[index])


def _somewhere(chance: random.Random, documents: list[Any]) -> Place | None:
    objects = [one for one in documents if isinstance(one, dict | list)]
    found = list(places(chance.choice(objects))) if objects else []
    return chance.choice(found) if found else None


def replace_value(chance: random.Random, documents: list[Any]) -> None:
    if place := _somewhere(chance, documents):
        place[0][place[1]] = copy.deepcopy(chance.choice(ODD))


def take_from_elsewhere(chance: random.Random, documents: list[Any]) -> None:
    place, other = _somewhere(chance, documents), _somewhere(chance, documents)
    if place and other:
        place[0][place[1]] = copy.deepcopy(other[0][other[1]])


def remove(chance: random.Random, documents: list[Any]) -> None:
    if place := _somewhere(chance, documents):
        del place[0][place[1]]


def misspell(chance: random.Random, documents: list[Any]) -> None:
    place = _somewhere(chance, documents)
    if place and isinstance(place[0], dict):
        key = str(place[1])
        at = chance.randrange(len(key) + 1)
        wrong = chance.choice(
            (key[:at] + chance.choice("aZ-_ .") + key[at:], key[:at] + key[at + 1 :], key.upper(), key.lower())
        )
        place[0][wrong] = place[0].pop(place[1])


def repeat(chance: random.Random, documents: list[Any]) -> None:
    place = _somewhere(chance, documents)
    if place and isinstance(place[0], list):
        place[0].extend(copy.deepcopy(place[0][place[1]]) for _ in range(chance.choice((1, 2, 40))))
    else:
        documents.append(copy.deepcopy(chance.choice(documents)))


def stretch(chance: random.Random, documents: list[Any]) -> None:
    """Change a text or a number slightly."""
    place = _somewhere(chance, documents)
    if not place:
        return
    value = place[0][place[1]]
    if isinstance(value, bool):
        place[0][place[1]] = chance.choice((not value, str(value).lower()))
    elif isinstance(value, int | float):
        place[0][place[1]] = chance.choice((value * -1, value * 1000, value + 0.5, str(value), value * 10**6))
    elif isinstance(value, str):
        place[0][place[1]] = chance.choice(
            (value + " ", value * 9, value.upper(), value[:-1], value + "\n", [value], {value: value})
        )


def add_field(chance: random.Random, documents: list[Any]) -> None:
    place = _somewhere(chance, documents)
    if place and isinstance(place[0], dict):
        names = (
            "replicas",
            "spec",
            "nodeName",
            "foo",
            "metadata",
            "status",
            "priority",
            "hostNetwork",
            "matchFields",
            "minValues",
        )
        place[0][chance.choice(names)] = copy.deepcopy(chance.choice(ODD))


def move(chance: random.Random, documents: list[Any]) -> None:
    """Move a field to another object, like a wrong indentation."""
    place, other = _somewhere(chance, documents), _somewhere(chance, documents)
    if place and other and isinstance(place[0], dict) and isinstance(other[0], dict):
        other[0][place[1]] = place[0].pop(place[1])


def lose_document(chance: random.Random, documents: list[Any]) -> None:
    if len(documents) > 1:
        documents.pop(chance.randrange(len(documents)))


CHANGES = (
    replace_value,
    replace_value,
    take_from_elsewhere,
    remove,
    remove,
    misspell,
    repeat,
    stretch,
    stretch,
    add_field,
    move,
    lose_document,
)


def _torn(chance: random.Random, text: str) -> str:
    """Return the text truncated, duplicated, or with one character changed."""
    at, to = sorted((chance.randrange(len(text)), chance.randrange(len(text))))
    letter = chance.choice("{}[]:,-&*!|>'\"%@`#?\t\n\\ \x07")
    return chance.choice(
        (text[:at], text[at:], text[:at] + letter + text[at:], text[:at] + text[at + 1 :], text[:to] + text[at:])
    )

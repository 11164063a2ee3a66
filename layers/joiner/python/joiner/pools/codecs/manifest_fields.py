"""Reads one manifest field by field, so that every mistake in it is found at once and reported with its remedy.

``ManifestFields`` is one mapping of the manifest. Each of its methods reads one field, notes its problems, and returns
a value with which the reader can continue. ``close`` notes the fields that no method has read, which are often
misspelt.

>>> notes = ManifestProblems("Provisioner/default")
>>> limits = ManifestFields({"resoutces": {"cpu": 1000}}, "spec.limits", notes)
>>> limits.resources("resources"); limits.close()
Resources({})
>>> print(notes.problems[0])
Provisioner/default: spec.limits.resoutces is {cpu: 1000}: there is no such field; did you mean "resources"?
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from joiner.cluster import Resources
from joiner.pools.durations import parse_duration
from joiner.pools.invalid_manifests import InvalidManifest, InvalidManifests, Severity
from joiner.pools.suggestions import refuse_field, refuse_value

SHOWN = 80  # the maximum length of a value in a message
FLOATS_FROM = 10**SHOWN
LARGEST_FLOAT = 1e308


class ManifestProblems:
    """The problems found in one object, in the order of its fields."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.problems: list[InvalidManifest] = []

    def note(self, field: str, value: object, remedy: str, severity: Severity = "error") -> None:
        """Add a problem of a field with its value, as it is in the manifest, and its remedy. A value of None is a
        field that is missing.
        """
        shown = "" if value is None else format_value(value)
        self.problems.append(InvalidManifest(self.subject, field, shown, remedy, severity))

    def missing(self, field: str, remedy: str, severity: Severity = "error") -> None:
        """Note a required field that is missing, so that there is no value to show."""
        self.problems.append(InvalidManifest(self.subject, field, "", remedy, severity))

    @property
    def errors(self) -> tuple[InvalidManifest, ...]:
        """Return the problems that make the manifest invalid."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    def refuse_if_wrong(self) -> None:
        """Raise InvalidManifests if there is an error."""
        if self.errors:
            raise InvalidManifests(self.errors)


class ManifestFields:
    """One mapping of a manifest; ``path`` is its place."""

    def __init__(self, raw: object, path: str, notes: ManifestProblems) -> None:
        self.path = path
        self.notes = notes
        self._read: set[str] = set()
        if raw is not None and not isinstance(raw, Mapping):
            notes.note(path, raw, "give fields (key: value) here")
            raw = None
        self._values: Mapping[str, Any] = raw or {}

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    @property
    def value(self) -> Mapping[str, Any]:
        """Return the whole mapping."""
        return self._values

    def raw(self, name: str) -> Any:
        """Return the value without a check. The field counts as read."""
        self._read.add(name)
        return self._values.get(name)

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def wrong(self, name: str, remedy: str, severity: Severity = "error") -> None:
        """Note a problem of the field: it is missing, or it has a wrong value."""
        value = self.raw(name)
        if value is None:
            self.notes.missing(self.at(name), remedy)
        else:
            self.notes.note(self.at(name), value, remedy, severity)

    def text(self, name: str, *, one_of: Sequence[str] = (), pattern: str = "", remedy: str = "") -> str | None:
        """Return a text; None if it is missing or, after a noted problem, invalid.

        ``remedy`` describes ``pattern`` in words.
        """
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, str):
            self.wrong(name, "put it in quotes: this field is a text")
            return None
        if one_of and value not in one_of:
            self.wrong(name, remedy or refuse_value(value, one_of))
            return None
        if pattern and not re.fullmatch(pattern, value):
            self.wrong(name, remedy)
            return None
        return value

    def integer(self, name: str, *, minimum: int | None = None, maximum: int | None = None) -> int | None:
        """Return a whole number; None if it is missing or, after a noted problem, invalid."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(name, "give a whole number")
            return None
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            least = f"at least {minimum}" if minimum is not None else ""
            most = f"at most {maximum}" if maximum is not None else ""
            self.wrong(name, f"give a number of {' and '.join(filter(None, (least, most)))}")
            return None
        return value

    def boolean(self, name: str) -> bool | None:
        """Return true or false; None if it is missing or, after a noted problem, invalid."""
        value = self.raw(name)
        if value is not None and not isinstance(value, bool):
            self.wrong(name, "give true or false, without quotes")
            return None
        return value

    def duration(self, name: str, default: int | None) -> int | None:
        """Return seconds; None for ``Never``; ``default`` if the field is missing."""
        value = self.raw(name)
        if value is None:
            return default
        try:
            return parse_duration(value)
        except (ValueError, TypeError):
            self.wrong(name, 'give a duration in hours, minutes and seconds such as "1h30m", or "Never"')
            return default

    def texts(self, name: str) -> dict[str, str]:
        """Return a map of texts (labels, tags, selectors)."""
        texts = self.raw(name)
        if texts is None:
            return {}
        if not isinstance(texts, Mapping):
            self.wrong(name, "give a map of texts (key: value)")
            return {}
        for key, value in texts.items():
            if not isinstance(value, str):
                self.notes.note(f"{self.at(name)}[{key}]", value, f'put it in quotes: "{format_value(value)}"')
            elif str(key).strip() != key or not key:
                self.notes.note(f"{self.at(name)}[{key}]", key, "remove the blank at the beginning or end of the key")
        return {str(key): value for key, value in texts.items() if isinstance(value, str)}

    def resources(self, name: str, *, signed: bool = False) -> Resources:
        """Return quantities by resource name; negative ones are mistakes unless ``signed``."""
        return Resources.from_kube(self._quantities(name, signed=signed))

    def limits(self, name: str) -> Resources:
        """Return limits by resource name, rounded down as the amounts that they limit are whole; negative ones are
        mistakes."""
        return Resources.limits_from_kube(self._quantities(name, down=True))

    def _quantities(self, name: str, *, signed: bool = False, down: bool = False) -> dict[str, Any]:
        quantities = self.raw(name)
        if quantities is None:
            return {}
        if not isinstance(quantities, Mapping):
            self.wrong(name, 'give quantities by resource, such as {cpu: "1000", memory: 1000Gi}')
            return {}
        good: dict[str, Any] = {}
        for key, value in quantities.items():
            try:
                amount = Resources.from_kube({key: value}).get(key, 0)
            except (ValueError, TypeError):
                self.notes.note(f"{self.at(name)}.{key}", value, 'give a quantity, such as "1000", "500m" or "64Gi"')
                continue
            if unit := _meant_unit(key, value):
                remedy = f"m is a thousandth of a byte; write {unit} if mebibytes are meant"
                self.notes.note(f"{self.at(name)}.{key}", value, remedy, "warning")
            elif not signed and (remedy := describe_rounding(key, value, down=down)):
                self.notes.note(f"{self.at(name)}.{key}", value, remedy, "warning")
            if amount < 0 and not signed:
                self.notes.note(f"{self.at(name)}.{key}", value, "give a quantity of at least zero")
            else:
                good[key] = value
        return good

    def sub(self, name: str) -> "ManifestFields":
        """Return the fields of the object in this field."""
        return ManifestFields(self.raw(name), self.at(name), self.notes)

    def many(self, name: str) -> list["ManifestFields"]:
        """Return the items of a list of mappings."""
        items = self.raw(name)
        if items is None:
            return []
        if not isinstance(items, Sequence) or isinstance(items, str):
            self.wrong(name, "give a list here")
            return []
        return [ManifestFields(item, f"{self.at(name)}[{index}]", self.notes) for index, item in enumerate(items)]

    def close(self, outside: str = "") -> None:
        """Note the fields that were not read. ``outside`` names the mapping to which they may belong."""
        for name in self._values:
            if name in self._read:
                continue
            if outside:
                remedy = f'there is no such field here; it may belong under "{outside}" (check the indentation)'
            else:
                remedy = refuse_field(str(name), self._read, self._values)
            self.notes.note(self.at(str(name)), self._values[name], remedy)


def _meant_unit(resource: str, value: object) -> str:
    """Return the quantity that is probably meant by one in thousandths of bytes, as kubectl warns of it; else "".

    >>> _meant_unit("memory", "512m"), _meant_unit("cpu", "512m"), _meant_unit("memory", "512M")
    ('512Mi', '', '')
    """
    counted_in_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return f"{value[:-1]}Mi" if counted_in_bytes and isinstance(value, str) and value.endswith("m") else ""


def describe_rounding(resource: str, value: Any, *, down: bool) -> str:
    """Return what a quantity that is no whole amount of its resource counts as, if limits are rounded ``down`` and
    other amounts up; "" for a whole amount and for a negative one. InvalidField if it is no quantity.

    >>> describe_rounding("nodes", "1.5", down=True)
    'it counts as 1, because it is rounded down to a whole amount; write 1 or 2'
    >>> describe_rounding("example.com/gpu", "500m", down=False)
    'it counts as 1, because it is rounded up to a whole amount; write 0 or 1'
    >>> describe_rounding("cpu", "1.5", down=True), describe_rounding("memory", "1.5Gi", down=True)
    ('', '')
    """
    less, more = (read({resource: value}) for read in (Resources.limits_from_kube, Resources.from_kube))
    if less == more or more[resource] < 0:
        return ""
    lower, upper = less.to_kube()[resource], more.to_kube()[resource]
    counted, direction = (lower, "down") if down else (upper, "up")
    return f"it counts as {counted}, because it is rounded {direction} to a whole amount; write {lower} or {upper}"


def format_value(value: object) -> str:
    """Return a value in YAML's flow style, shortened.

    >>> format_value({"cpu": 2}), format_value(" "), format_value(int(1e300))
    ('{cpu: 2}', '" "', '1e+300')
    """
    if isinstance(value, int) and FLOATS_FROM <= abs(value) < LARGEST_FLOAT and value == int(float(value)):
        value = float(value)  # it was written so: whole numbers of YAML and JSON may have an exponent
    text = value if isinstance(value, str) else json.dumps(value, default=str).replace('"', "")
    if isinstance(value, str) and (not text or text != text.strip()):
        text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"

"""Requirements: the values that each label of a node may have.

Requirements of pools, instance types and pods combine to one conjunction.

>>> pool = Requirements.from_kube([{"key": "size", "operator": "Gt", "values": ["2"]}])
>>> pod = Requirements.from_kube([{"key": "size", "operator": "NotIn", "values": ["4"]}])
>>> both = pool & pod
>>> [both.allow({"size": size}) for size in ("2", "3", "4")]
[False, True, False]
>>> both.to_kube()
[{'key': 'size', 'operator': 'Gt', 'values': ['2']}, {'key': 'size', 'operator': 'NotIn', 'values': ['4']}]
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_values import ABSENT, ANYTHING, MISSING, PRESENT, ValueSet, parse_integer

RENAMED: Final[Mapping[str, str]] = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
"""Labels that Kubernetes renamed. A node has both, so a selector for the old key is read as one for the new key."""

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression: the key of a label and the values that it may have.

    >>> Requirement.from_kube({"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]})
    Requirement(key='kubernetes.io/arch', values=In [arm64])
    """

    key: str
    values: ValueSet

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any]) -> "Requirement":
        """Read one expression. InvalidField for an unknown operator, or for values that do not match the operator."""
        key = raw.get("key")
        if not isinstance(key, str) or not key:
            raise InvalidField("key", key, "name a label")
        operator, values = raw.get("operator"), raw.get("values") or []
        if operator not in OPERATORS:
            raise InvalidField("operator", operator, f"use one of {', '.join(OPERATORS)}")
        if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
            raise InvalidField("values", values, "write a list of strings")
        return cls(RENAMED.get(key, key), read_value_set(str(operator), values))


def read_value_set(operator: str, values: Iterable[str]) -> ValueSet:
    """Return the set of values for an operator and its values. InvalidField if they do not match."""
    listed = list(values)
    if operator in SETS:
        return SETS[operator](listed)
    bound = parse_integer(listed[0]) if len(listed) == 1 else None
    if bound is None:
        raise InvalidField("values", listed, f"{operator} takes exactly one integer")
    return BOUNDS[operator](bound)


SETS: Final[Mapping[str, Callable[[list[str]], ValueSet]]] = {
    "In": lambda values: ValueSet.of(*values),
    "NotIn": lambda values: ~ValueSet.of(*values),
    "Exists": lambda _: PRESENT,
    "DoesNotExist": lambda _: MISSING,
}
BOUNDS: Final[Mapping[str, Callable[[int], ValueSet]]] = {
    "Gt": ValueSet.above,
    "Lt": ValueSet.below,
    "Gte": lambda bound: ValueSet.above(bound - 1),
    "Lte": lambda bound: ValueSet.below(bound + 1),
}


@dataclass(frozen=True, slots=True)
class Requirements(Mapping[str, ValueSet]):
    """An immutable conjunction: label key -> values that it may have.

    Any other label may have any value or be missing.
    """

    by_key: Mapping[str, ValueSet] = field(default_factory=dict)

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> "Requirements":
        """Return the intersection of these requirements."""
        found: dict[str, ValueSet] = {}
        for requirement in requirements:
            found[requirement.key] = found.get(requirement.key, ANYTHING) & requirement.values
        return cls(found)

    @classmethod
    def from_kube(cls, expressions: Iterable[Mapping[str, Any]] | None) -> "Requirements":
        """Read a list of ``{key, operator, values}``; InvalidField names the position."""
        found = []
        for position, expression in enumerate(expressions or ()):
            try:
                found.append(Requirement.from_kube(expression))
            except InvalidField as invalid:
                raise invalid.within(f"[{position}]") from invalid
        return cls.of(found)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str] | None) -> "Requirements":
        """Return requirements for exactly these labels, as in ``nodeSelector`` or ``matchLabels``."""
        return cls.of(Requirement(RENAMED.get(key, key), ValueSet.of(value)) for key, value in (labels or {}).items())

    def to_kube(self) -> list[dict[str, Any]]:
        """Return equivalent expressions, keys ascending."""
        return [expression for key in sorted(self.by_key) for expression in write_expressions(key, self.by_key[key])]

    def __getitem__(self, key: str) -> ValueSet:
        return self.by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_key)

    def __len__(self) -> int:
        return len(self.by_key)

    def __hash__(self) -> int:
        return hash(frozenset(self.by_key.items()))

    def on(self, key: str) -> ValueSet:
        """Return the values that this key may have; every value if there is no requirement on it."""
        return self.by_key.get(key, ANYTHING)

    def __and__(self, other: "Requirements") -> "Requirements":
        if not other.by_key:
            return self
        both = dict(self.by_key)
        for key, values in other.by_key.items():
            both[key] = both[key] & values if key in both else values
        return Requirements(both)

    def allow(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with exactly these labels meets all requirements.

        >>> Requirements.from_labels({"disk": "ssd"}).allow({})
        False
        """
        return all(labels.get(key, ABSENT) in values for key, values in self.by_key.items())

    def unmet(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys whose requirement these labels do not meet, ascending."""
        return tuple(sorted(key for key, values in self.by_key.items() if labels.get(key, ABSENT) not in values))

    def contradictions(self) -> tuple[str, ...]:
        """Return the keys for which no value is possible, ascending.

        A node can meet the requirements only if the result is empty.
        """
        return tuple(sorted(key for key, values in self.by_key.items() if not values))

    def fixed(self) -> dict[str, str]:
        """Return the labels that can have only one value."""
        return {
            key: next(iter(values))
            for key, values in self.by_key.items()
            if values.finite and not values.absent and len(values.exceptions) == 1
        }

    def __str__(self) -> str:
        return ", ".join(f"{key} {values}" for key, values in sorted(self.by_key.items())) or "any node"


def write_expressions(key: str, values: ValueSet) -> list[dict[str, Any]]:
    """Return one set of values as Kubernetes expressions.

    ValueError for a set that no conjunction of expressions describes (a union, such as "5 or missing").

    >>> write_expressions("size", ~ValueSet.of("a") & ValueSet.above(4))
    [{'key': 'size', 'operator': 'Gt', 'values': ['4']}]
    """
    if not values:
        return [{"key": key, "operator": "In", "values": []}]
    if values == MISSING:
        return [{"key": key, "operator": "DoesNotExist"}]
    expressions: list[dict[str, Any]] = []
    if values.finite:
        expressions.append({"key": key, "operator": "In", "values": list(values)})
    elif values.words:
        if not values.absent:
            expressions.append({"key": key, "operator": "Exists"})
        if values.exceptions:
            expressions.append({"key": key, "operator": "NotIn", "values": sorted(values.exceptions)})
    else:
        low, high = values.intervals[0]
        if low is not None:  # Karpenter refuses negative bounds; legacy kinds have no Gte
            operator, bound = ("Gte", 0) if low == 0 else ("Gt", low - 1)
            expressions.append({"key": key, "operator": operator, "values": [str(bound)]})
        if high is not None:
            expressions.append({"key": key, "operator": "Lt", "values": [str(high + 1)]})
        if values.exceptions:
            expressions.append({"key": key, "operator": "NotIn", "values": sorted(values.exceptions)})
    meant = ANYTHING
    for expression in expressions:
        meant &= read_value_set(expression["operator"], expression.get("values", []))
    if meant != values:
        raise ValueError(f"{key}: {values} is no conjunction of Kubernetes operators")
    return expressions

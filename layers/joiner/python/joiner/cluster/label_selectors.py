"""Label selectors for pods and namespaces, with the same algebra as for nodes.

Source: Kubernetes API reference, "LabelSelector": no selector selects nothing, an empty selector selects everything.

>>> web = LabelSelector.from_kube({"matchLabels": {"app": "web"}})
>>> web.selects({"app": "web", "tier": "front"}), web.selects({}), LabelSelector.from_kube(None).selects({"app": "web"})
(True, False, False)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_values import ValueSet
from joiner.cluster.requirements import Requirement, Requirements


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """A label selector. ``requirements`` None selects nothing."""

    requirements: Requirements | None = None

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any] | None) -> "LabelSelector":
        """Read a selector; None selects nothing, an empty one everything. InvalidField if it is not valid."""
        if raw is None:
            return cls()
        if not isinstance(raw, Mapping):
            raise InvalidField("", raw, "write matchLabels or matchExpressions")
        expressions = raw.get("matchExpressions") or []
        for position, expression in enumerate(expressions):
            if not isinstance(expression, Mapping) or not isinstance(expression.get("key"), str):
                raise InvalidField(f"matchExpressions[{position}].key", "missing", "name the label that it is about")
            operator = expression.get("operator")
            if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
                raise InvalidField(
                    f"matchExpressions[{position}].operator", operator, "a label selector has no such operator"
                )
        exact = [Requirement(key, ValueSet.of(str(value))) for key, value in (raw.get("matchLabels") or {}).items()]
        # Keeps the key as written: Requirement.from_kube renames node labels, and this is a label of a pod
        more = [Requirement(one["key"], Requirement.from_kube(one).values) for one in expressions]
        return cls(Requirements.of([*exact, *more]))

    def with_values(self, keys: Mapping[str, ValueSet]) -> "LabelSelector":
        """Return this selector with more requirements, as for ``matchLabelKeys`` and ``mismatchLabelKeys``."""
        return self if self.requirements is None else LabelSelector(self.requirements & Requirements(keys))

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether an object with these labels is selected."""
        return self.requirements is not None and self.requirements.allow(labels)

    @property
    def keys(self) -> frozenset[str]:
        """Return the label keys that the selector names."""
        return frozenset(self.requirements or ())

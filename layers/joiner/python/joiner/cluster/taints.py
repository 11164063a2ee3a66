"""Taints keep pods away from nodes; tolerations allow pods on nodes with taints.

Source: Kubernetes, "Taints and Tolerations" (with its numeric operators, v1.35).

>>> gpu = Taint("nvidia.com/gpu", "NoSchedule", "true")
>>> Toleration("nvidia.com/gpu", "Exists").tolerates(gpu), Toleration("nvidia.com/gpu", "Equal", "no").tolerates(gpu)
(True, False)
>>> Toleration("failure-probability", "Lt", "5").tolerates(Taint("failure-probability", "NoExecute", "2"))
True
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner import names
from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_values import parse_integer

TAINT_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
OPERATORS: Final = ("Equal", "Exists", "Lt", "Gt")


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A taint of a node. The effect PreferNoSchedule is only a preference."""

    key: str
    effect: str
    value: str = ""

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any]) -> "Taint":
        """Read one taint. InvalidField if its key or effect is not valid."""
        key, effect = raw.get("key"), raw.get("effect")
        if not isinstance(key, str) or not key:
            raise InvalidField("key", key, "name the taint")
        if effect not in TAINT_EFFECTS:
            raise InvalidField("effect", effect, f"use one of {', '.join(TAINT_EFFECTS)}")
        return cls(key, str(effect), str(raw.get("value") or ""))

    def to_kube(self) -> dict[str, str]:
        """Return the taint as in the spec of a node."""
        return {"key": self.key, "effect": self.effect} | ({"value": self.value} if self.value else {})

    @property
    def hard(self) -> bool:
        """Return whether the scheduler must respect the taint (PreferNoSchedule is only a preference)."""
        return self.effect in HARD_EFFECTS

    def matches(self, other: "Taint") -> bool:
        """Return whether both have the same key and effect. Kubernetes identifies a taint by these two."""
        return (self.key, self.effect) == (other.key, other.effect)

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


DISRUPTED_TAINT: Final = Taint(names.DISRUPTED, "NoSchedule")
"""The taint of a node that is being retired."""


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """A toleration of a pod. An empty key (with Exists) tolerates every taint; an empty effect means every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any]) -> "Toleration":
        """Read one toleration. InvalidField if its operator is not valid."""
        operator = raw.get("operator") or "Equal"
        if operator not in OPERATORS:
            raise InvalidField("operator", operator, f"use one of {', '.join(OPERATORS)}")
        seconds = raw.get("tolerationSeconds")
        return cls(
            key=raw.get("key") or "",
            operator=operator,
            value=str(raw.get("value") or ""),
            effect=raw.get("effect") or "",
            seconds=int(seconds) if seconds is not None else None,
        )

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration matches the taint, by the rules of kube-scheduler."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        match self.operator:
            case "Exists":
                return True
            case "Equal":
                return self.key != "" and self.value == taint.value
            case _:
                bound, level = parse_integer(self.value), parse_integer(taint.value)
                return (
                    bound is not None
                    and level is not None
                    and (level > bound if self.operator == "Gt" else level < bound)
                )

    def tolerates_for(self, taint: Taint, seconds: int) -> bool:
        """Return whether a pod may stay on a node with this taint for ``seconds``.

        >>> Toleration("maintenance", "Exists", seconds=5).tolerates_for(Taint("maintenance", "NoExecute"), seconds=60)
        False
        """
        return self.tolerates(taint) and (self.seconds is None or self.seconds >= seconds)


def find_untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint], *, soft: bool = False) -> Taint | None:
    """Return the first taint that these tolerations do not tolerate, or None.

    PreferNoSchedule counts only with ``soft``.
    """
    known = tuple(tolerations)
    return next(
        (taint for taint in taints if (taint.hard or soft) and not any(one.tolerates(taint) for one in known)), None
    )

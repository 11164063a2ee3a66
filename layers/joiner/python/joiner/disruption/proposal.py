"""A proposal: the voluntary disruptions of one wave, in the order of their value.

The function that proposes writes it to S3; the function that validates reads it 15 seconds later, proposes again from
a fresh snapshot, and keeps the actions that both proposals contain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from joiner.planning.plan import PlannedNode
from joiner.pools import InvalidManifest

DisruptionReason = Literal["Empty", "Underutilized", "Drifted", "Expired", "Rebalance"]

SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class DisruptionAction:
    """Nodes to remove together, and the nodes that are launched first in their place.

    ``claims`` are names of NodeClaims or Machines, sorted. ``replacements`` are empty if existing nodes have enough
    free resources. ``moves`` gives the destination of each pod that must run elsewhere: the name of an existing node,
    of an in-flight claim, or of a planned node in ``replacements``. ``saving_per_hour`` is in $/h and negative if the
    replacement costs more (possible with drift). ``eviction_cost`` is the sum over the pods (Karpenter's
    RescheduleDisruptionCost). ``score`` is None unless the policy Balanced decides.
    """

    reason: DisruptionReason
    claims: tuple[str, ...]
    replacements: tuple[PlannedNode, ...] = ()
    moves: Mapping[str, str] = field(default_factory=dict)
    saving_per_hour: float = 0.0
    eviction_cost: float = 0.0
    score: float | None = None

    @property
    def message(self) -> str:
        """Return the reason with figures, for events and summaries.

        >>> moves = {"web/a": "n1", "web/b": "n2"}
        >>> DisruptionAction("Underutilized", ("a",), moves=moves, saving_per_hour=0.19, score=1.72).message
        'Underutilized: removes 1 node, saves $0.19/h, moves 2 pods, score 1.7'
        """
        nodes, pods = len(self.claims), len(self.moves)
        parts = [f"removes {nodes} node{'s' * (nodes != 1)}"]
        if self.replacements:
            types = ", ".join(sorted({one.instance_type for one in self.replacements}))
            parts.append(f"launches {len(self.replacements)} first ({types})")
        verb = "saves" if self.saving_per_hour >= 0 else "costs"
        parts.append(f"{verb} ${abs(self.saving_per_hour):.2f}/h")
        parts.append(f"moves {pods} pod{'s' * (pods != 1)}")
        if self.score is not None:
            parts.append(f"score {self.score:.1f}")
        return f"{self.reason}: " + ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "reason": self.reason,
            "claims": list(self.claims),
            "replacements": [one.to_json() for one in self.replacements],
            "moves": dict(sorted(self.moves.items())),
            "savingPerHour": self.saving_per_hour,
            "evictionCost": self.eviction_cost,
            "score": self.score,
            "message": self.message,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "DisruptionAction":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            reason=document["reason"],
            claims=tuple(document["claims"]),
            replacements=tuple(PlannedNode.from_json(one) for one in document["replacements"]),
            moves=document["moves"],
            saving_per_hour=document["savingPerHour"],
            eviction_cost=document["evictionCost"],
            score=document["score"],
        )


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node that stays, and why. ``condition`` is the reason of the event: Unconsolidatable or DisruptionBlocked."""

    claim: str
    node: str
    condition: Literal["Unconsolidatable", "DisruptionBlocked"]
    message: str

    def to_json(self) -> dict[str, str]:
        """Return the JSON form of the value."""
        return {"claim": self.claim, "node": self.node, "condition": self.condition, "message": self.message}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "KeptNode":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(document["claim"], document["node"], document["condition"], document["message"])


@dataclass(frozen=True, slots=True)
class Proposal:
    """The actions of one wave, best first, within the budgets of the pools; and the nodes that stay with the reason.

    ``price_per_hour`` is the price of all managed nodes now; ``lower_bound_per_hour`` bounds the price of any set of
    nodes that could hold their pods; 0 if it was not computed, as for replacements of outdated nodes. ``remaining``
    counts the nodes that budgets postpone to a later wave. ``problems`` are annotations of pods that have no effect
    because they are not valid.
    """

    actions: tuple[DisruptionAction, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    price_per_hour: float = 0.0
    lower_bound_per_hour: float = 0.0
    remaining: int = 0
    problems: tuple[InvalidManifest, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {
            "schema": SCHEMA,
            "actions": [one.to_json() for one in self.actions],
            "kept": [one.to_json() for one in self.kept],
            "pricePerHour": self.price_per_hour,
            "lowerBoundPerHour": self.lower_bound_per_hour,
            "remaining": self.remaining,
            "problems": [
                {"object": one.object, "field": one.field, "value": one.value, "message": one.remedy}
                for one in self.problems
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Proposal":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(
            actions=tuple(DisruptionAction.from_json(one) for one in document["actions"]),
            kept=tuple(KeptNode.from_json(one) for one in document["kept"]),
            price_per_hour=document["pricePerHour"],
            lower_bound_per_hour=document["lowerBoundPerHour"],
            remaining=document["remaining"],
            problems=tuple(
                InvalidManifest(one["object"], one["field"], one["value"], one["message"], "warning")
                for one in document["problems"]
            ),
        )

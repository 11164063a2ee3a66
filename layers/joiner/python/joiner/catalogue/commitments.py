"""Commitments: reserved instances and savings plans, which the account pays for whether instances run or not.

AWS applies them to every instance that matches, so a launch names none of them. A commitment is an *amount* for each
hour, and a running instance uses a part of it:

    reserved instances of one zone      instances of their type
    reserved instances of a region      normalized units of their family (Linux on shared hardware)
    a savings plan                      $ at the plan's own rates

Commitments never apply to Spot Instances. Sources: Amazon EC2 user guide, "How Reserved Instances are applied"; Savings
Plans user guide, "Understanding how Savings Plans apply to your usage".

>>> two = Commitment("ri-1", 8, {"m5.large": 4, "m5.xlarge": 8})
>>> found = apply_commitments((two,), [Machine("a", "m5.large", "z-1"), Machine("b", "m5.xlarge", "z-2")])
>>> found.shares, found.used
({'a': 1.0, 'b': 0.5}, {'ri-1': 8})
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from joiner import names


@dataclass(frozen=True, slots=True)
class Commitment:
    """``amount`` is what there is for each hour, in units of this commitment; ``uses`` is what an instance of each type
    uses of it. Without a ``zone`` it applies to the whole region."""

    id: str
    amount: int
    uses: Mapping[str, int] = field(default_factory=dict)
    zone: str = ""

    def use_of(self, instance_type: str, zone: str) -> int:
        """Return how many units an on-demand instance uses; 0 if the commitment does not apply to it."""
        return self.uses.get(instance_type, 0) if self.zone in ("", zone) else 0

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        zone = {"zone": self.zone} if self.zone else {}
        return {"id": self.id, "amount": self.amount, "uses": dict(sorted(self.uses.items())), **zone}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "Commitment":
        """Read the result of ``to_json``."""
        return cls(str(raw["id"]), int(raw["amount"]), dict(raw["uses"]), str(raw.get("zone") or ""))


def runs_linux(labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels runs Linux. Commitments are declared for Linux and apply to no other
    operating system; a node without the label runs Linux."""
    return labels.get(names.OS, "linux") == "linux"


@dataclass(frozen=True, slots=True)
class Machine:
    """An on-demand instance that runs or is being launched."""

    id: str
    instance_type: str
    zone: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """``shares``: which share of each machine's price (by id) is committed. ``used``: how many units of each commitment
    (by id) the machines use."""

    shares: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, int] = field(default_factory=dict)


NOTHING_COVERED: Final = Coverage()


def apply_commitments(commitments: Sequence[Commitment], machines: Iterable[Machine]) -> Coverage:
    """Apply the commitments in their order, each to the smallest machines first, as AWS applies regional reserved
    instances. The last machine may be covered in part.
    """
    if not commitments:
        return NOTHING_COVERED
    shares: dict[str, float] = {}
    used: dict[str, int] = {}
    known = list(machines)
    for one in commitments:
        left = one.amount
        matching = sorted((use, each.id) for each in known if (use := one.use_of(each.instance_type, each.zone)) > 0)
        for use, machine in matching:
            wanted = round(use * (1.0 - shares.get(machine, 0.0)))
            taken = min(wanted, left)
            if taken > 0:
                shares[machine] = min(shares.get(machine, 0.0) + taken / use, 1.0)
                left -= taken
        used[one.id] = one.amount - left
    return Coverage(shares, used)

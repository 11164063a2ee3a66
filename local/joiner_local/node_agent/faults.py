"""Which instances go wrong, and how: what a test asks of the node agent.

A rule: `{"fault": "never-boots", "instanceType": "m5.large"}`; instances may also be chosen by `zone`, `instanceId`, or `every` (each n-th
that matches the rest). `"fault": "none"` takes back the rule with the same choice, `{"clear": true}` all of them.

  never-boots         no node ever appears
  dies-while-booting  the instance shuts itself down halfway through its boot
  slow                the boot takes ten times as long (or `factor` times)
  not-ready           the node joins, and is not ready
  silent              the node joins and gets ready; then its kubelet is not heard of again

`not-ready` and `silent` also hit nodes that are there already, when the rule names their instance; `none` heals them.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

FAULTS: Final = ("never-boots", "dies-while-booting", "slow", "not-ready", "silent")
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which instances; empty is any. `every` 1 is each of them."""

    instance_type: str = ""
    zone: str = ""
    instance_id: str = ""
    every: int = 1

    @classmethod
    def from_knob(cls, asked: dict[str, Any]) -> "Choice":
        every = int(asked.get("every", 1))
        if every < 1:
            raise ValueError(f"every is {every}; it must be at least 1")
        return cls(asked.get("instanceType", ""), asked.get("zone", ""), asked.get("instanceId", ""), every)

    def covers(self, instance_type: str, zone: str, instance_id: str) -> bool:
        return self.instance_type in ("", instance_type) and self.zone in ("", zone) and self.instance_id in ("", instance_id)


@dataclass(slots=True)
class Rule:
    fault: str
    choice: Choice
    factor: float
    seen: Iterator[int] = field(default_factory=lambda: itertools.count(1))


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one instance; "" is nothing."""

    kind: str = ""
    factor: float = 1.0


@dataclass(slots=True)
class Faults:
    """The rules in force; the first that matches counts."""

    rules: list[Rule] = field(default_factory=list)

    def turn(self, asked: dict[str, Any]) -> Choice | None:
        """Obey the knob; answers whom it was about, None if all."""
        if unknown := asked.keys() - {"fault", "instanceType", "zone", "instanceId", "every", "factor", "clear"}:
            raise ValueError(f"faults: {sorted(unknown)} is not known")
        if asked.get("clear"):
            self.rules.clear()
            return None
        fault, choice = asked["fault"], Choice.from_knob(asked)
        if fault not in (*FAULTS, NONE):
            raise ValueError(f"there is no fault {fault}; there are {', '.join(FAULTS)}, {NONE}")
        self.rules = [rule for rule in self.rules if rule.choice != choice]
        if fault != NONE:
            self.rules.append(Rule(fault, choice, float(asked.get("factor", 10 if fault == "slow" else 1))))
        return choice

    def of(self, instance_type: str, zone: str, instance_id: str) -> Fault:
        """Asked once for each new instance, in the order of their launch."""
        matching = [rule for rule in self.rules if rule.choice.covers(instance_type, zone, instance_id)]
        struck = [rule for rule in matching if next(rule.seen) % rule.choice.every == 0]
        return Fault(struck[0].fault, struck[0].factor) if struck else Fault()

"""Faults of instances and kubelets that a test sets at the node agent.

A rule: `{"fault": "never-boots", "instanceType": "m5.large"}`. Instances may also be selected by `zone`, `instanceId`,
or `every` (each n-th that matches the rest). `"fault": "none"` removes the rule with the same selector, `{"clear":
true}` all rules.

  never-boots         no node ever appears
  stops-while-booting  the instance shuts itself down halfway through its boot
  slow                the boot takes ten times as long (or `factor` times)
  not-ready           the node joins, and is not ready
  silent              the node joins and becomes ready; then its kubelet stops reporting
  other-name          the kubelet registers its node under another name than the private DNS name of its instance
  no-devices          the node joins, and its device plug-ins register nothing

`not-ready` and `silent` also apply to existing nodes, when the rule names their instance; `none` ends them.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from joiner_local.knob_requests import check_fields, read_number, read_whole

FAULTS: Final = ("never-boots", "stops-while-booting", "slow", "not-ready", "silent", "other-name", "no-devices")
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class InstanceSelector:
    """Which instances; an empty field is any. `every` 1 is each of them."""

    instance_type: str = ""
    zone: str = ""
    instance_id: str = ""
    every: int = 1

    @classmethod
    def from_knob(cls, asked: dict[str, Any]) -> "InstanceSelector":
        every = read_whole(asked, "every", 1)
        if every < 1:
            raise ValueError(f"every is {every}; it must be at least 1")
        return cls(asked.get("instanceType", ""), asked.get("zone", ""), asked.get("instanceId", ""), every)

    def covers(self, instance_type: str, zone: str, instance_id: str) -> bool:
        return (
            self.instance_type in ("", instance_type)
            and self.zone in ("", zone)
            and self.instance_id in ("", instance_id)
        )


@dataclass(slots=True)
class NodeFaultRule:
    fault: str
    choice: InstanceSelector
    factor: float
    seen: Iterator[int] = field(default_factory=lambda: itertools.count(1))


@dataclass(frozen=True, slots=True)
class NodeFault:
    """The fault of one instance; "" is none."""

    kind: str = ""
    factor: float = 1.0


@dataclass(slots=True)
class NodeFaults:
    """The rules in force; the first match applies."""

    rules: list[NodeFaultRule] = field(default_factory=list)

    def turn(self, asked: dict[str, Any]) -> InstanceSelector | None:
        """Knob: add or remove a rule. Returns the named instance, None for all."""
        check_fields(asked, {"fault", "instanceType", "zone", "instanceId", "every", "factor", "clear"}, "faults")
        if asked.get("clear"):
            self.rules.clear()
            return None
        fault, choice = asked["fault"], InstanceSelector.from_knob(asked)
        if fault not in (*FAULTS, NONE):
            raise ValueError(f"there is no fault {fault}; there are {', '.join(FAULTS)}, {NONE}")
        self.rules = [rule for rule in self.rules if rule.choice != choice]
        if fault != NONE:
            self.rules.append(NodeFaultRule(fault, choice, read_number(asked, "factor", 10 if fault == "slow" else 1)))
        return choice

    def of(self, instance_type: str, zone: str, instance_id: str) -> NodeFault:
        """Return the fault of a new instance; called once for each, in the order of their launch."""
        matching = [rule for rule in self.rules if rule.choice.covers(instance_type, zone, instance_id)]
        struck = [rule for rule in matching if next(rule.seen) % rule.choice.every == 0]
        return NodeFault(struck[0].fault, struck[0].factor) if struck else NodeFault()

"""The recorded cases of Karpenter's own scheduler, turned into a snapshot and a catalogue.

The cases (``tests/data/oracle``) were drawn at random and answered by kubernetes-sigs/karpenter at 2266468 (between
v1.14.0 and v1.15): ``scheduling.NewTopology``, ``NewScheduler`` and ``Solve`` with the provisioner's options. They are
recorded facts.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import Planner
from joiner.pools import ResolvedNodeClass, Subnet

CASES = Path(__file__).parents[2] / "data" / "oracle"
UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}


@dataclass(frozen=True)
class OracleCase:
    """A small cluster and Karpenter's answer."""

    name: str
    features: tuple[str, ...]
    lists: Mapping[str, Sequence[Mapping[str, Any]]]
    catalogue: Mapping[str, Any]
    expected: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> "OracleCase":
        raw = json.loads(path.read_text(encoding="utf-8"))
        pods = [pod if pod["spec"].get("nodeName") else {**pod, "status": UNSCHEDULABLE} for pod in raw["pods"]]
        lists = {"pods": pods, "nodes": raw["nodes"], "daemonsets": raw["daemonSets"], "nodepools": raw["nodePools"]}
        return cls(
            raw["name"],
            tuple(raw["features"]),
            lists,
            {one["name"]: in_our_words(one) for one in raw["instanceTypes"]},
            raw["expected"],
        )

    @property
    def highest_price(self) -> float:
        """Return the highest price that Karpenter paid: its answer may depend on the order of the pods."""
        return float(self.expected["cost"] if self.expected["exact"] else self.expected["costRange"][1])

    def plan(self, planner: Planner | None = None) -> Plan:
        zones = sorted({one["zone"] for known in self.catalogue.values() for one in known["offerings"]})
        references = [pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] for pool in self.lists["nodepools"]]
        classes = {
            f"EC2NodeClass/{name}": ResolvedNodeClass(
                name, "EC2NodeClass", subnets=tuple(Subnet(f"subnet-{zone}", zone) for zone in zones)
            )
            for name in references
        }
        return (planner or Planner()).plan(
            Snapshot.from_lists(self.lists), Catalogue.from_json(self.catalogue), classes=classes
        )

    def left_out_by_karpenter(self) -> Counter[str]:
        return Counter({name: number for name, number in self.expected["unschedulableByGroup"].items() if number})


def in_our_words(instance_type: Mapping[str, Any]) -> dict[str, Any]:
    offerings = [
        {
            "zone": one["zone"],
            "capacityType": one["capacityType"],
            "pricePerHour": one["price"],
            "available": one["available"],
        }
        for one in instance_type["offerings"]
    ]
    return {**{name: instance_type[name] for name in ("labels", "capacity", "allocatable")}, "offerings": offerings}


def left_out(plan: Plan) -> Counter[str]:
    """Return the number of pending pods by deployment, which is the pod's name without its number."""
    return Counter(pending.pod.rpartition("/")[2].rpartition("-")[0] for pending in plan.pending)

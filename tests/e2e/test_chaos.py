"""Races of scale-ups, sweeps and retirements: Deployments scale at random while nodes are lost, interrupted and
deleted.

Afterwards every invariant holds, and no node was retired within its first minute without a reason. The test takes 15
seconds; `JOINER_CHAOS_SECONDS=600` (`make chaos-test`) ten minutes. `JOINER_CHAOS_SEED` changes the random numbers.
"""

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import instances
from joiner_local.demo.execution_listing import execution, executions
from tests.e2e.world import DEPLOYMENTS, Actor, deployment, node_class

pytestmark = pytest.mark.e2e

SECONDS: Final = float(os.environ.get("JOINER_CHAOS_SECONDS", "15"))
SEED: Final = int(os.environ.get("JOINER_CHAOS_SEED", "20261121"))
EMPTY_FOR: Final = 5  # seconds until an empty node goes
PLANNED_BEFORE: Final = timedelta(
    seconds=10
)  # that long before its launch, on a busy machine, were the pods of a node listed
FIRST_MINUTE: Final = timedelta(seconds=60)
CALM_WITHIN: Final = 150.0  # seconds after the last act
SIZES: Final = {"small": "100m", "web": "500m", "db": "1500m", "batch": "900m", "large": "3"}
MOST: Final = 8  # pods of one deployment

NODEPOOL: Final[Object] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "chaos"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "chaos"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "c5", "r5"]},
                    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]},
                ],
                "expireAfter": "Never",
            }
        },
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": f"{EMPTY_FOR}s",
            "budgets": [{"nodes": "100%"}],
        },
    },
}


@dataclass
class Chaos:
    """The random actions, and those that may retire a young node."""

    actor: Actor
    chance: random.Random
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    done: Counter[str] = field(default_factory=Counter)
    shrunk: list[datetime] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    """Instances that were hit, and names of claims and nodes that were deleted."""

    def rage(self, seconds: float) -> None:
        end, next_trouble = time.monotonic() + seconds, time.monotonic() + 5
        while time.monotonic() < end:
            self._act(self.chance.choice([self.scale, self.scale, self.scale, self.roll_out]))
            if time.monotonic() > next_trouble:
                self._act(
                    self.chance.choice(
                        [self.lose, self.interrupt, self.delete_node, self.delete_claim, self.sweep, self.doom]
                    )
                )
                next_trouble = time.monotonic() + self.chance.uniform(2, 8)
            time.sleep(self.chance.uniform(0.1, 1.5))

    def _act(self, act: Callable[[], object]) -> None:
        self.done[act.__name__] += 1
        act()

    def scale(self) -> None:
        app = self.chance.choice(list(SIZES))
        self._scale_to(app, self.chance.choice([0, 0, self.chance.randint(0, MOST), self.chance.randint(0, MOST)]))

    def _scale_to(self, app: str, replicas: int) -> None:
        """Growth is no reason for a node to be empty."""
        before = self.actor.world.kube.get(f"{DEPLOYMENTS}/{app}")["spec"]["replicas"]
        if replicas < before:
            self.shrunk.append(datetime.now(UTC))
        self.actor.scale(app, replicas)

    def roll_out(self) -> None:
        app = self.chance.choice(list(SIZES))
        self.shrunk.append(datetime.now(UTC))
        anew = {"spec": {"template": {"metadata": {"annotations": {"rolled-out": str(self.chance.random())}}}}}
        self.actor.world.kube.merge(f"{DEPLOYMENTS}/{app}", anew)

    def _an_instance(self, *, spot: bool = False) -> str | None:
        alive = [each for each in self.actor.instances() if not spot or each.get("InstanceLifecycle") == "spot"]
        return str(self.chance.choice(alive)["InstanceId"]) if alive else None

    def lose(self) -> None:
        """Terminate an instance without Joiner."""
        if instance := self._an_instance():
            self.struck.add(instance)
            self.actor.world.client("ec2").terminate_instances(InstanceIds=[instance])

    def interrupt(self) -> None:
        if instance := self._an_instance(spot=True):
            self.struck.add(instance)
            self.actor.knob("interrupt", instanceId=instance, grace=10)

    def delete_node(self) -> None:
        """Delete a registered Node: a kubelet does not register a deleted name again, and its claim has 15 minutes."""
        if nodes := [
            node for node in self.actor.nodes() if node["metadata"]["labels"].get("karpenter.sh/registered") == "true"
        ]:
            node = self.chance.choice(nodes)
            self.struck.add(node["spec"].get("providerID", "").rpartition("/")[2])
            self.actor.world.kube.delete(f"/api/v1/nodes/{node['metadata']['name']}", missing_ok=True)

    def delete_claim(self) -> None:
        if claims := self.actor.claims():
            name = self.chance.choice(claims)["metadata"]["name"]
            self.struck.add(name)
            self.actor.world.kube.delete(f"/apis/karpenter.sh/v1/nodeclaims/{name}", missing_ok=True)

    def sweep(self) -> None:
        """Run a sweep in addition to the scheduled ones, at any time."""
        self.actor.knob("schedules/fire", name=self.actor.outputs["SweepScheduleName"])

    def doom(self) -> None:
        """Let one of the next instances fail while it boots."""
        self.actor.world.stack.agent_knob("faults", {"clear": True})
        self.actor.world.stack.agent_knob("faults", {"fault": "dies-while-booting", "every": self.chance.randint(2, 6)})

    # --- afterwards

    def calm(self) -> None:
        """Wait until all desired pods run and everything else is removed, by doorbell calls and sweeps only."""
        self.actor.world.stack.agent_knob("faults", {"clear": True})
        wanted = {app: self.chance.randint(0, 2) for app in SIZES}
        for app, replicas in wanted.items():
            self._scale_to(app, replicas)
        end = time.monotonic() + CALM_WITHIN
        while not (calm := self._is_calm(wanted)) and time.monotonic() < end:
            self.actor.sweep()
            time.sleep(2)
        assert calm, self._told(wanted)

    def _is_calm(self, wanted: dict[str, int]) -> bool:
        """Return whether only the desired pods run, no execution runs, and every node has a pod."""
        if any(
            self.actor.running(app) != replicas or len(self.actor.pods(app)) != replicas
            for app, replicas in wanted.items()
        ):
            return False
        used = {pod["spec"].get("nodeName") for pod in self.actor.pods()}
        if any(node["metadata"]["name"] not in used for node in self.actor.nodes()):
            return False
        return not self.actor.knob("running-executions")["executions"] and len(self.actor.claims()) == len(
            self.actor.nodes()
        )

    def _told(self, wanted: dict[str, int]) -> str:
        actor = self.actor
        counted = {"claims": len(actor.claims()), "nodes": len(actor.nodes()), "instances": len(actor.instances())}
        pods = {app: (actor.running(app), len(actor.pods(app)), replicas) for app, replicas in wanted.items()}
        return (
            f"not calm after {CALM_WITHIN:.0f} s: {counted}, pods (running, there, wanted) {pods}, "
            f"{actor.knob('running-executions')}"
        )

    def needless(self) -> list[str]:
        """Retirements of young nodes that nothing here is the reason for. A sweep that read the claim before its
        retirement ended and EC2
        after it takes the instance for lost, and finds nothing left to do: the first retirement is the one that counts.
        """
        launched = {each["InstanceId"]: each["LaunchTime"] for each in instances(self.actor.world.client("ec2"))}
        found, retired = [], set[str]()
        for begun, claim in sorted(self.retirements(), key=lambda each: each[0]):
            instance, since = claim["instance"], launched.get(claim["instance"])
            if instance in retired and claim["reason"] == "lost":
                continue
            retired.add(instance)
            if since is None or begun - since > FIRST_MINUTE or {instance, claim["claim"]} & self.struck:
                continue
            if claim["reason"] == "empty" and any(since - PLANNED_BEFORE <= at <= begun for at in self.shrunk):
                continue
            if claim["reason"] == "lost" and self.done["doom"]:
                continue
            found.append(
                f"{claim['claim']} ({instance}) went for being {claim['reason']}, "
                f"{(begun - since).total_seconds():.0f} s old"
            )
        return found

    def retirements(self) -> Iterator[tuple[datetime, dict[str, Any]]]:
        """Return the start and the claims of each retirement."""
        world = self.actor.world
        for each in (*executions(world, world.retire_arn), *executions(world, world.retire_empty_arn)):
            if each["startDate"] >= self.began:
                said = execution(world, each["executionArn"])
                yield from ((each["startDate"], claim) for claim in json.loads(said["input"])["claims"])


@pytest.fixture
def chaos(deployed: Actor) -> Iterator[Chaos]:
    deployed.clean()
    deployed.create(
        node_class("chaos"), NODEPOOL, *(deployment(app, replicas=0, cpu=cpu) for app, cpu in SIZES.items())
    )
    deployed.rest()
    deployed.knob("schedules/hold", held=False)
    before = deployed.knob("instances")
    deployed.knob("instances", shownSeconds=3600)  # the age of each is asked for at the end
    yield Chaos(deployed, random.Random(SEED))  # noqa: S311 - the same course each time
    deployed.knob("schedules/hold", held=True)
    deployed.knob("instances", **before)
    deployed.world.stack.agent_knob("faults", {"clear": True})
    deployed.clean()


def test_after_random_changes_every_invariant_holds_and_no_young_node_was_retired_without_reason(chaos: Chaos) -> None:
    chaos.rage(SECONDS)
    chaos.calm()
    assert chaos.needless() == []
    told = Counter(claim["reason"] for _, claim in chaos.retirements())
    print(f"done: {dict(chaos.done)}; retired: {dict(told)}; scale-ups: {len(chaos.actor.executions())}")

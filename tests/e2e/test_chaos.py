"""Races of scale-ups, sweeps and retirements: Deployments scale at random while nodes are lost, interrupted and
deleted.

Afterwards every invariant holds; no node was retired within its first minute without a reason, and none without having
run a pod, unless its pods ended or were placed elsewhere meanwhile. The test takes 15 seconds;
`JOINER_CHAOS_SECONDS=600` (`make chaos-test`) ten minutes. `JOINER_CHAOS_SEED` changes the random numbers.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
import urllib3

from joiner_local.control_plane.kube_api import ApiError, Object
from joiner_local.demo.change_watch import instances
from joiner_local.demo.execution_listing import execution, executions
from tests.e2e.stack_actions import CAPACITY_TYPE, DEPLOYMENTS, Actor, deployment, node_class, node_pool

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

NODE_POOL: Final = node_pool(
    "chaos",
    {
        CAPACITY_TYPE: ["spot", "on-demand"],
        "karpenter.k8s.aws/instance-family": ["m5", "c5", "r5"],
        "karpenter.k8s.aws/instance-cpu": ["2", "4", "8"],
    },
    disruption={
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": f"{EMPTY_FOR}s",
        "budgets": [{"nodes": "100%"}],
    },
    expireAfter="Never",
)


@dataclass
class Chaos:
    """The random actions, and those that may retire a young node."""

    actor: Actor
    chance: random.Random
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    done: Counter[str] = field(default_factory=Counter)
    known: list[dict[str, Any]] = field(default_factory=list)  # scale-ups before it began
    seen: "Witness" = field(init=False)
    struck: set[str] = field(default_factory=set)
    """Instances that were hit, and names of claims and nodes that were deleted."""

    def __post_init__(self) -> None:
        self.seen = Witness(self.actor)

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
        self.actor.scale(app, self.chance.choice([0, 0, self.chance.randint(0, MOST), self.chance.randint(0, MOST)]))

    def roll_out(self) -> None:
        app = self.chance.choice(list(SIZES))
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
        self.actor.world.stack.agent_knob(
            "faults", {"fault": "stops-while-booting", "every": self.chance.randint(2, 6)}
        )

    # --- afterwards

    def calm(self) -> None:
        """Wait until all desired pods run and everything else is removed, by doorbell calls and sweeps only."""
        self.actor.world.stack.agent_knob("faults", {"clear": True})
        wanted = {app: self.chance.randint(0, 2) for app in SIZES}
        for app, replicas in wanted.items():
            self.actor.scale(app, replicas)
        end = time.monotonic() + CALM_WITHIN
        while not (calm := self._is_calm(wanted)) and time.monotonic() < end:
            self.actor.sweep()
            time.sleep(2)
        assert calm, self._explanation(wanted)

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

    def _explanation(self, wanted: dict[str, int]) -> str:
        actor = self.actor
        counted = {"claims": len(actor.claims()), "nodes": len(actor.nodes()), "instances": len(actor.instances())}
        pods = {app: (actor.running(app), len(actor.pods(app)), replicas) for app, replicas in wanted.items()}
        return (
            f"not calm after {CALM_WITHIN:.0f} s: {counted}, pods (running, there, wanted) {pods}, "
            f"{actor.knob('running-executions')}"
        )

    def needless(self) -> list[str]:
        """Return the retirements that nothing here is the reason for: of young nodes, and of nodes that no pod used.

        A sweep that read the claim before its retirement ended and EC2 after it takes the instance for lost, and finds
        nothing left to do: the first retirement is the one that counts.
        """
        launched = {each["InstanceId"]: each for each in instances(self.actor.world.client("ec2"))}
        places = [(pod, place) for pod, place in self.actor.places_since(self.known) if place.instance_type]
        found, retired = [], set[str]()
        retirements = sorted(self.retirements(), key=lambda each: each[0])
        last = {claim["instance"]: begun for begun, claim in retirements if claim["reason"] == "empty"}
        for begun, claim in retirements:
            name, instance, reason = claim["claim"], claim["instance"], claim["reason"]
            if (instance in retired and reason == "lost") or {instance, name} & self.struck or instance not in launched:
                continue
            retired.add(instance)
            since, node = launched[instance]["LaunchTime"], launched[instance]["PrivateDnsName"]
            planned = {pod for pod, place in places if name.endswith(place.claim)}
            why = ""
            if reason == "lost" and not (self.done["doom"] and node not in self.seen.nodes):
                why = "although nothing ended it"
            elif reason != "lost" and node not in self.seen.pods_of and not self._superfluous(planned, since, begun):
                why = "although no pod ran on it, and none of its pods ended or was placed elsewhere"
            elif reason == "empty" and not self._all_ended(node, last[instance]):
                why = "although pods ran on it"
            elif reason not in ("lost", "empty") and begun - since <= FIRST_MINUTE:
                why = "although it was young"
            if why:
                age = (begun - since).total_seconds()
                found.append(f"{name} ({instance}) was retired because it was {reason}, {age:.0f} s old, {why}")
        return found

    def _all_ended(self, node: str, by: datetime) -> bool:
        return all(self.seen.ended.get(pod, by) < by for pod in self.seen.pods_of.get(node, ()))

    def _superfluous(self, planned: set[str], since: datetime, begun: datetime) -> bool:
        """Return whether the pods of a plan need its node no more: each has ended or runs on another node, and for
        those that run, pods have left another node meanwhile.
        """
        ended = {pod for pod in planned if self.seen.ended.get(pod, begun) < begun}
        elsewhere = {pod for pods in self.seen.pods_of.values() for pod in pods} & planned
        room = any(since - PLANNED_BEFORE <= at <= begun for at in self.seen.left.values())
        return bool(planned) and (planned == ended or (planned <= ended | elsewhere and room))

    def retirements(self) -> Iterator[tuple[datetime, dict[str, Any]]]:
        """Return the start and the claims of each retirement."""
        world = self.actor.world
        for each in (*executions(world, world.retire_arn), *executions(world, world.retire_empty_arn)):
            if each["startDate"] >= self.began:
                described = execution(world, each["executionArn"])
                yield from ((each["startDate"], claim) for claim in json.loads(described["input"])["claims"])


class Witness:
    """Watches pods and nodes: which pods were on each node, when pods ended, and which of them had a node."""

    def __init__(self, actor: Actor) -> None:
        self.pods_of: dict[str, set[str]] = {}
        self.ended: dict[str, datetime] = {}
        self.left: dict[str, datetime] = {}
        """When pods that had a node ended."""
        self.nodes: set[str] = set()
        self._over = threading.Event()
        self._kube = actor.world.kube
        for path, note in (("/api/v1/namespaces/default/pods", self._pod), ("/api/v1/nodes", self._node)):
            threading.Thread(target=self._watch, args=(path, note), daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _watch(self, path: str, note: Callable[[str, Object], None]) -> None:
        while not self._over.is_set():
            with suppress(ApiError, urllib3.exceptions.HTTPError):
                listed = self._kube.get(path)
                for found in listed["items"]:
                    note("ADDED", found)
                for event, found in self._kube.watch(path, version=listed["metadata"]["resourceVersion"], seconds=900):
                    note(event, found)
                    if self._over.is_set():
                        return

    def _pod(self, event: str, found: Object) -> None:
        pod, node = f"default/{found['metadata']['name']}", found["spec"].get("nodeName")
        if node:
            self.pods_of.setdefault(node, set()).add(pod)
        if event == "DELETED" or "deletionTimestamp" in found["metadata"]:
            now = datetime.now(UTC)
            self.ended.setdefault(pod, now)
            if node:
                self.left.setdefault(pod, now)

    def _node(self, event: str, found: Object) -> None:
        if event != "DELETED":
            self.nodes.add(found["metadata"]["name"])


@pytest.fixture
def chaos(deployed: Actor) -> Iterator[Chaos]:
    deployed.clean()
    deployed.create(
        node_class("chaos"), NODE_POOL, *(deployment(app, replicas=0, cpu=cpu) for app, cpu in SIZES.items())
    )
    deployed.rest()
    deployed.knob("schedules/hold", held=False)
    before = deployed.knob("instances")
    deployed.knob("instances", shownSeconds=3600)  # the age of each is asked for at the end
    made = Chaos(deployed, random.Random(SEED), known=deployed.executions())  # noqa: S311 - the same course each time
    yield made
    made.seen.close()
    deployed.knob("schedules/hold", held=True)
    deployed.knob("instances", **before)
    deployed.world.stack.agent_knob("faults", {"clear": True})
    deployed.clean()


def test_after_random_changes_every_invariant_holds_and_no_node_was_retired_without_reason(chaos: Chaos) -> None:
    chaos.rage(SECONDS)
    chaos.calm()
    assert chaos.needless() == []
    reasons = Counter(claim["reason"] for _, claim in chaos.retirements())
    assert chaos.seen.pods_of  # the watches worked
    assert chaos.seen.nodes >= chaos.seen.pods_of.keys()
    print(f"done: {dict(chaos.done)}; retired: {dict(reasons)}; scale-ups: {len(chaos.actor.executions())}")

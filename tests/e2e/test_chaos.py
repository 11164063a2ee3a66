"""Races of scale-ups, sweeps and retirements: Deployments scale at random while nodes are lost, interrupted and
deleted.

Afterwards every invariant holds; no node was retired within its first minute without a reason, and none without having
run a pod, unless its pods ended or found room that had become free elsewhere (`needless_nodes`). Nodes with pods are
not disrupted: `test_soak` adds that. The test takes 15 seconds with the same random numbers each time; `make
chaos-test` ten minutes (`JOINER_CHAOS_SECONDS=600`) with fresh ones. The seed is printed, and `JOINER_CHAOS_SEED` gives
it again.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import instances
from tests.e2e.needless_nodes import NodeNames, PodPlaces, RetiredNode, needless
from tests.e2e.pod_witness import PodWitness
from tests.e2e.random_changes import RandomChanges
from tests.e2e.retirement_listing import retirements_since
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment, node_class, pool_of_many_offerings

pytestmark = pytest.mark.e2e

SECONDS: Final = float(os.environ.get("JOINER_CHAOS_SECONDS", "15"))
SEED: Final = int(os.environ.get("JOINER_CHAOS_SEED", "20261121"))
EMPTY_FOR: Final = 5  # seconds until an empty node goes
DOOM: Final = "stops-while-booting"
CALM_WITHIN: Final = 150.0  # seconds after the last act
SIZES: Final = {"small": "100m", "web": "500m", "db": "1500m", "batch": "900m", "large": "3"}
MOST: Final = 8  # pods of one deployment

NODE_POOL: Final = pool_of_many_offerings(
    "chaos",
    {"consolidationPolicy": "WhenEmpty", "consolidateAfter": f"{EMPTY_FOR}s", "budgets": [{"nodes": "100%"}]},
)


@dataclass
class Chaos:
    """A time of random changes, and what was observed of it."""

    changes: RandomChanges
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    known: list[dict[str, Any]] = field(default_factory=list)  # scale-ups before it began
    seen: PodWitness = field(init=False)

    def __post_init__(self) -> None:
        self.seen = PodWitness(self.actor)

    @property
    def actor(self) -> Actor:
        return self.changes.actor

    def rage(self, seconds: float) -> None:
        changes, chance = self.changes, self.changes.chance
        end, next_trouble = time.monotonic() + seconds, time.monotonic() + 5
        while time.monotonic() < end:
            changes.act(changes.scale, changes.scale, changes.scale, changes.roll_out)
            if time.monotonic() > next_trouble:
                changes.act(
                    changes.lose,
                    changes.interrupt,
                    changes.delete_node,
                    changes.delete_claim,
                    changes.sweep,
                    changes.doom,
                )
                next_trouble = time.monotonic() + chance.uniform(2, 8)
            time.sleep(chance.uniform(0.1, 1.5))

    # --- afterwards

    def calm(self) -> None:
        """Wait until all desired pods run and everything else is removed, by doorbell calls and sweeps only."""
        self.actor.world.stack.agent_knob("faults", {"clear": True})
        wanted = {app: self.changes.chance.randint(0, 2) for app in SIZES}
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
        """Return the retirements that nothing here is the reason for (`needless_nodes`)."""
        launched = {each["InstanceId"]: each for each in instances(self.actor.world.client("ec2"))}
        boots = self.actor.world.stack.agent_knob("instances")
        doomed = {instance for instance, boot in boots.items() if boot.get("fault") == DOOM}
        return list(needless(self._retired(launched), self._places(launched), hit=self.changes.struck | doomed))

    def _retired(self, launched: Mapping[str, Mapping[str, Any]]) -> list[RetiredNode]:
        """Return the first retirement of each instance.

        A sweep that read the claim before its retirement ended and EC2 after it takes the instance for lost, and finds
        nothing left to do: the first retirement is the one that counts.
        """
        first: dict[str, RetiredNode] = {}
        for begun, claim in sorted(retirements_since(self.actor, self.began), key=lambda each: each[0]):
            instance = claim["instance"]
            if instance in launched and instance not in first:
                node, since = launched[instance]["PrivateDnsName"], launched[instance]["LaunchTime"]
                first[instance] = RetiredNode(claim["claim"], instance, node, claim["reason"], since, begun)
        return list(first.values())

    def _places(self, launched: Mapping[str, Mapping[str, Any]]) -> PodPlaces:
        """Return where pods were, and on which nodes plans put them."""
        of_claims = {_claim_name(each): instance for instance, each in launched.items()}
        names = NodeNames((one, str(each["PrivateDnsName"]), each["LaunchTime"]) for one, each in launched.items())
        planned: dict[str, set[str]] = {}
        for pod, place in self.actor.places_since(self.known):
            if place.instance_type:
                instance = next((one for claim, one in of_claims.items() if claim.endswith(place.claim)), "")
                planned.setdefault(instance, set()).add(pod)
        left: dict[str, list[datetime]] = {}
        for node, times in self.seen.left.items():
            for at in times:
                left.setdefault(names.find(node, at), []).append(at)
        bound = {pod: (names.find(node, at), at) for pod, (node, at) in self.seen.bound.items()}
        return PodPlaces(planned, bound, self.seen.ended, left)


def _claim_name(instance: Mapping[str, Any]) -> str:
    return next((str(tag["Value"]) for tag in instance.get("Tags", ()) if tag["Key"] == "karpenter.sh/nodeclaim"), "")


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
    changes = RandomChanges(deployed, random.Random(SEED), SIZES, MOST)  # noqa: S311 - the same course each time
    made = Chaos(changes, known=deployed.executions())
    yield made
    made.seen.close()
    deployed.knob("schedules/hold", held=True)
    deployed.knob("instances", **before)
    deployed.world.stack.agent_knob("faults", {"clear": True})
    deployed.clean()


def test_after_random_changes_every_invariant_holds_and_no_node_was_retired_without_reason(chaos: Chaos) -> None:
    print(f"JOINER_CHAOS_SEED={SEED}")
    chaos.rage(SECONDS)
    chaos.calm()
    assert chaos.needless() == []
    reasons = Counter(claim["reason"] for _, claim in retirements_since(chaos.actor, chaos.began))
    assert chaos.seen.pods_of  # the watches worked
    assert chaos.seen.nodes >= chaos.seen.pods_of.keys()
    print(f"done: {dict(chaos.changes.done)}; retired: {dict(reasons)}; scale-ups: {len(chaos.actor.executions())}")

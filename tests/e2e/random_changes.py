"""Random actions on a deployed stack: Deployments are scaled and rolled out; instances, nodes, claims, capacity, calls
and executions are hit.

Each action is one call; a test chooses among them by its own random numbers, and knows afterwards what was hit.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.e2e.stack_actions import DEPLOYMENTS, Actor

FAILING_CALLERS: Final = (
    "find_pending_pods",
    "plan_capacity",
    "launch_instances",
    "record_launches",
    "check_registration",
    "survey_cluster",
    "survey_instances",
    "find_candidates",
    "propose_disruption",
    "mark_nodes",
    "settle_disruptions",
    "begin_retirement",
    "evict_pods",
    "terminate_instances",
    "forget_nodes",
)
FAILED_CALLS: Final = 6
"""So many calls of a function time out: more than one invocation makes before it gives up."""


@dataclass
class RandomChanges:
    """Random actions on a cluster, and what they hit."""

    actor: Actor
    chance: random.Random
    sizes: Mapping[str, str]
    """The CPU request of each Deployment that is scaled and rolled out."""
    most: int
    """The most pods of one Deployment."""
    done: Counter[str] = field(default_factory=Counter)
    struck: set[str] = field(default_factory=set)
    """Instances that were hit, and names of claims and nodes that were deleted."""

    def act(self, *choices: Callable[[], object]) -> None:
        """Run one of these actions."""
        chosen = self.chance.choice(choices)
        self.done[chosen.__name__] += 1
        chosen()

    def scale(self) -> None:
        app = self.chance.choice(list(self.sizes))
        self.actor.scale(
            app, self.chance.choice([0, 0, self.chance.randint(0, self.most), self.chance.randint(0, self.most)])
        )

    def roll_out(self) -> None:
        app = self.chance.choice(list(self.sizes))
        anew = {"spec": {"template": {"metadata": {"annotations": {"rolled-out": str(self.chance.random())}}}}}
        self.actor.world.kube.merge(f"{DEPLOYMENTS}/{app}", anew)

    def _an_instance(self, *, spot: bool = False) -> str | None:
        alive = [each for each in self.actor.instances() if not spot or each.get("InstanceLifecycle") == "spot"]
        return str(self.chance.choice(alive)["InstanceId"]) if alive else None

    def lose(self) -> None:
        """Terminate an instance without Joiner."""
        if instance := self._an_instance():
            self.struck.add(instance)
            self.actor.strike("lose", instance)
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

    def fail_function(self) -> None:
        """Let the next AWS calls of one function end without an answer, so that its invocations fail."""
        caller = self.chance.choice(FAILING_CALLERS)
        self.actor.knob("faults/set", caller=caller, call="*", how="timed out", times=FAILED_CALLS)

    def stop_execution(self) -> None:
        """Stop one of the running executions, whatever it does at that time."""
        running = [arn for arn in self.actor.knob("running-executions")["executions"] if ":execution:" in arn]
        if running:
            self.actor.stop(self.chance.choice(running))

    def shorten_capacity(self) -> None:
        """Take the capacity of one instance type, or of all Spot Instances, or give all capacity back."""
        self.actor.knob("capacity", clear=True)
        limit = self.chance.choice(
            [{"instanceType": "m5.large"}, {"instanceType": "c5.xlarge"}, {"lifecycle": "spot"}, {}]
        )
        if limit:
            self.actor.knob("capacity", available=0, **limit)

    def end_troubles(self) -> None:
        """Give capacity back, and let calls and boots succeed."""
        self.actor.knob("faults/set")
        self.actor.knob("capacity", clear=True)
        self.actor.world.stack.agent_knob("faults", {"clear": True})

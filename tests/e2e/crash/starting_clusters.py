"""Small clusters for scenarios of the crash table that need Deployments and a pool of their own.

Their nodes are half used, too large or out of date.

The pods have a controller, so an evicted pod comes again.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import WatchTimeout, until
from tests.e2e.stack_actions import BUDGETS, Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class, node_pool
from tests.e2e.user_launch_template import create_user_template

NODE_POOL: Final = "/apis/karpenter.sh/v1/nodepools/dense"
POD: Final = "/api/v1/namespaces/default/pods"
ZONE: Final = "topology.kubernetes.io/zone"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
GUARD: Final = f"{BUDGETS}/guard"
NO_EVICTION: Final[Object] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "guard", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
}
BOOTED_BY: Final = timedelta(minutes=16)
"""Longer than a node may take until it registers."""

UNUSED: Final = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
STANDS_WITHIN: Final = 30.0
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class StartingCluster:
    """One cluster.

    `replicas` pods of `cpu` each stay. `fillers` are the requests of further pods, which are deleted before the
    scenario begins. `nodes` is the number of nodes at this time, and `least` the number of nodes wanted at the end, if
    nothing goes wrong. A scenario launches at most `launches` instances, and evicts at most `evictions` pods.
    """

    types: Sequence[str]
    disruption: Mapping[str, Any]
    replicas: int
    cpu: str
    nodes: int
    least: int
    launches: int
    evictions: int
    fillers: Sequence[str] = ()
    cheap: str = "m5.large"
    """The type of its replacements: of which a scenario that falls short has none."""

    changed: bool = False
    """The labels of the pool have changed since its nodes were launched."""

    detected: bool = False
    """A sweep has found that."""

    template: str = ""
    """The launch template of a user from which the nodes are launched; the pool is a Provisioner then."""

    capacity_types: Sequence[str] = ("on-demand",)
    zones: Sequence[str] = ()
    """The zones of the pool, if it names some. Like nodes of one zone are launched by one fleet."""

    guarded: bool = False
    """A PodDisruptionBudget allows no eviction, until the fault is over."""

    unregistered: bool = False
    """The instance of the pods has been launched for longer than a boot may take, and no Node has joined."""

    @property
    def most(self) -> int:
        """Nodes that may stand at the end: those of a disruption that was undone, and a replacement that stays."""
        return self.nodes + self.launches

    def prepare(self, actor: Actor) -> None:
        """Bring the cluster about, from an empty one."""
        for _ in range(TRIES):
            self._launch(actor)
            if self.unregistered:
                self._launch_in_vain(actor)
            if len(actor.nodes()) == self.nodes:
                break
            actor.clean()  # the pods came too late for one plan
        assert len(actor.nodes()) == self.nodes
        if self.changed:
            actor.world.kube.merge(NODE_POOL, {"spec": {"template": {"metadata": {"labels": {"team": "a"}}}}})
            actor.rest()
        if self.detected:
            assert actor.sweep() == "SUCCEEDED"
            actor.rest()

    def _launch(self, actor: Actor) -> None:
        if self.template:
            self._create_template(actor)
            actor.create(self._legacy_pool())
        else:
            actor.create(node_class("dense"), self._pool())
        actor.rest()
        if not self.nodes:
            return
        self.ask(actor)
        names = [f"filler-{number}" for number, _ in enumerate(self.fillers)]
        actor.create(*(_pod(name, cpu) for name, cpu in zip(names, self.fillers, strict=True)))
        for _ in range(TRIES):  # a ring may be lost on a busy machine
            with suppress(WatchTimeout):
                actor.wait_running(self.replicas + len(names), limit=STANDS_WITHIN)
                break
            actor.sweep()
        actor.rest()
        for name in names:
            actor.world.kube.delete(f"{POD}/{name}")
        until(lambda: len(actor.pods()) == self.replicas, what="the fillers gone")
        actor.rest()

    def _launch_in_vain(self, actor: Actor) -> None:
        """Launch an instance that never boots; its scale-up is stopped, and the time of a boot passes."""
        kube, machine = actor.world.kube, actor.outputs["ScaleUpArn"]
        actor.world.stack.agent_knob("faults", {"fault": "never-boots"})
        self.ask(actor)
        until(lambda: any(each.get("status", {}).get("providerID") for each in actor.claims()), what="a launched claim")
        actor.stopped |= set(actor.knob("stop-executions", stateMachineArn=machine, cause="a test")["stopped"])
        actor.rest()
        actor.world.stack.agent_knob("faults", {"clear": True})
        before = (datetime.now(UTC) - BOOTED_BY).strftime("%Y-%m-%dT%H:%M:%SZ")
        for claim in actor.claims():
            conditions = [{**each, "lastTransitionTime": before} for each in claim["status"]["conditions"]]
            kube.merge(f"{CLAIMS}/{claim['metadata']['name']}/status", {"status": {"conditions": conditions}})

    def ask(self, actor: Actor) -> None:
        """Create the Deployment."""
        if self.guarded:
            actor.create(NO_EVICTION)
        actor.create(deployment("web", replicas=self.replicas, cpu=self.cpu))

    def _pool(self) -> Object:
        return node_pool(
            "dense",
            {
                CAPACITY_TYPE: self.capacity_types,
                INSTANCE_TYPE: self.types,
                **({ZONE: self.zones} if self.zones else {}),
            },
            disruption={**self.disruption, "budgets": [{"nodes": "1"}]},
            expireAfter="Never",
        )

    def _create_template(self, actor: Actor) -> None:
        with suppress(ClientError):  # it does not exist at the first time
            actor.world.client("ec2").delete_launch_template(LaunchTemplateName=self.template)
        create_user_template(actor, self.template)

    def _legacy_pool(self) -> Object:
        provider = {"launchTemplate": self.template, "subnetSelector": {"karpenter.sh/discovery": "joiner-demo"}}
        requirements = [
            {"key": key, "operator": "In", "values": list(values)}
            for key, values in ((CAPACITY_TYPE, self.capacity_types), (INSTANCE_TYPE, self.types))
        ]
        return {
            "apiVersion": "karpenter.sh/v1alpha5",
            "kind": "Provisioner",
            "metadata": {"name": "dense"},
            "spec": {"provider": provider, "requirements": requirements},
        }


def _pod(name: str, cpu: str) -> Object:
    spec = deployment(name, cpu=cpu)["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


STAGES: Final[Mapping[str, StartingCluster]] = {
    "nothing": StartingCluster(
        ("m5.large",),
        NEVER_DISRUPTED,
        replicas=2,
        cpu="1500m",
        nodes=0,
        least=2,
        launches=2,
        evictions=0,
        zones=("us-east-1a",),
    ),
    "a launch template": StartingCluster(
        ("m5.large",),
        NEVER_DISRUPTED,
        replicas=2,
        cpu="1500m",
        nodes=0,
        least=2,
        launches=2,
        evictions=0,
        template="nodes-of-a-user",
    ),
    "spot, or else on-demand": StartingCluster(
        ("m5.large",),
        NEVER_DISRUPTED,
        replicas=2,
        cpu="1500m",
        nodes=0,
        least=2,
        launches=2,
        evictions=0,
        capacity_types=("spot", "on-demand"),
    ),
    "a guarded node": StartingCluster(
        ("m5.large",), NEVER_DISRUPTED, replicas=1, cpu="1500m", nodes=1, least=1, launches=1, evictions=1, guarded=True
    ),
    "a node that never registers": StartingCluster(
        ("m5.large",),
        NEVER_DISRUPTED,
        replicas=1,
        cpu="1500m",
        nodes=0,
        least=1,
        launches=1,
        evictions=0,
        unregistered=True,
    ),
    "half-used nodes": StartingCluster(
        ("m5.large",), UNUSED, replicas=2, cpu="800m", fillers=("1", "1"), nodes=2, least=1, launches=0, evictions=1
    ),
    "an oversized node": StartingCluster(
        ("m5.large", "m5.xlarge"),
        UNUSED,
        replicas=1,
        cpu="500m",
        fillers=("2500m",),
        nodes=1,
        least=1,
        launches=1,
        evictions=1,
    ),
    "a drifted node": StartingCluster(
        ("m5.large",),
        NEVER_DISRUPTED,
        replicas=1,
        cpu="1500m",
        nodes=1,
        least=1,
        launches=1,
        evictions=1,
        changed=True,
        detected=True,
    ),
    "an outdated node": StartingCluster(
        ("m5.large",), NEVER_DISRUPTED, replicas=1, cpu="1500m", nodes=1, least=1, launches=1, evictions=1, changed=True
    ),
}

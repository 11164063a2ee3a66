"""A plan that fills its nodes to 99 %: every pod runs on its planned node, whatever happens while the nodes boot.

Every pod requests a different amount of CPU with hardly a millicore to spare: one pod on a wrong node leaves another
pending. The test uses ten nodes and fifty pods; `JOINER_FULL_NODES=40` (`make full-plan-test`) forty and two hundred.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import WatchTimeout, instances, until
from tests.e2e.decoded_quantities import millicores, requested_millicores
from tests.e2e.stack_actions import DEPLOYMENTS, Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

NODES: Final = int(os.environ.get("JOINER_FULL_NODES", "10"))
CHANCE: Final = random.Random(7)  # noqa: S311 - a world that is the same each time
SIZES: Final = [CHANCE.randint(50, 1900) for _ in range(5 * NODES)]
POD_MILLICORES: Final = int(
    sum(SIZES) / NODES / 0.9905
)  # millicores for pods on a node: what the pods ask for is 99 % of all nodes' together
KEPT_BACK: Final = 7910 - POD_MILLICORES  # of what an m5.2xlarge can allocate
BOOT_SECONDS: Final = 6.0  # time for others to come meanwhile
DYING: Final = 5  # one node in so many dies booting
URGENT: Final = NODES // 2  # pods that fit on no planned node
DEPLOYED: Final = (
    NODES // 2
)  # of the crowd, where pods are replaced: each has a deployment of its own, which costs as much as ten pods

POOL: Final[list[Object]] = [
    {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "packed"},
        "spec": {
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"]}],
            "kubeletConfiguration": {"systemReserved": {"cpu": f"{KEPT_BACK}m"}},
            "providerRef": {"name": "packed"},
        },
    },
    {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "packed"},
        "spec": {
            "subnetSelector": {"karpenter.sh/discovery": "joiner-demo"},
            "securityGroupSelector": {"karpenter.sh/discovery": "joiner-demo"},
        },
    },
]

Sizes = tuple[int, ...]
"""The sizes of the pods of one node, the smallest first."""


def launched(actor: Actor) -> set[str]:
    """Return all instances ever launched, by id."""
    return {each["InstanceId"] for each in instances(actor.world.client("ec2"))}


@dataclass(frozen=True, slots=True)
class Crowd:
    """Pending pods, the first of them from Deployments, and a pool that can serve them once it is created."""

    actor: Actor
    deployed: int
    known: list[dict[str, Any]]  # scale-ups before they came

    def come(self) -> None:
        """Create all pods at the same time."""
        self._each(self._create)

    def replace(self) -> None:
        """Replace every pod: Deployments roll out, bare pods are deleted and created again."""
        self._each(self._replace)

    def _create(self, number: int) -> None:
        path = DEPLOYMENTS if number < self.deployed else PODS
        self.actor.world.kube.create(path, member(number, bare=path is PODS))

    def _replace(self, number: int) -> None:
        kube, name = self.actor.world.kube, f"crowd-{number}"
        if number < self.deployed:
            kube.merge(
                f"{DEPLOYMENTS}/{name}", {"spec": {"template": {"metadata": {"annotations": {"rolled-out": "again"}}}}}
            )
        else:
            kube.delete(f"{PODS}/{name}")
            self._create(number)

    def _each(self, act: Callable[[int], object]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(act, range(len(SIZES))))

    def hold_boots(self) -> None:
        """Let no instance boot until `let_boot`."""
        self.actor.world.stack.agent_knob("boot", {"held": True})

    def let_boot(self) -> None:
        self.actor.world.stack.agent_knob("boot", {"held": False})

    def open_the_pool(self) -> list[Sizes]:
        """Create the pool, so that one plan has all pods. Return the sizes of the pods on each planned node."""
        before = launched(self.actor)
        self.actor.create(*POOL)
        first, *_ = until(lambda: self.actor.plans_since(self.known), what="the plan", limit=90).values()
        assert (len(first["nodes"]), first["pending"]) == (NODES, []), "this is not the world that the test is about"
        until(lambda: len(launched(self.actor) - before) >= NODES, what="their instances", limit=90)
        sizes = {f"default/{pod['metadata']['name']}": requested_millicores(pod) for pod in self.actor.pods()}
        return [tuple(sorted(sizes[pod] for pod in node["pods"])) for node in first["nodes"]]

    def on_nodes(self) -> list[Sizes]:
        """Return the sizes of the pods on each node."""
        found: dict[str, list[int]] = {}
        for pod in self.actor.pods():
            if pod["metadata"]["labels"]["app"].startswith("crowd-"):
                found.setdefault(pod["spec"]["nodeName"], []).append(requested_millicores(pod))
        return [tuple(sorted(sizes)) for sizes in found.values()]

    def wait_running(self, *, others: int = 0) -> None:
        """Wait until all pods run; run a sweep each minute, because a doorbell call may have been throttled."""
        for _ in range(4):
            with suppress(WatchTimeout):
                self.actor.wait_running(len(SIZES) + others, limit=60)
                break
            self.actor.sweep()
        self.actor.wait_running(len(SIZES) + others, limit=60)
        assert Counter(requested_millicores(pod) for pod in self.actor.pods() if _in_crowd(pod)) == Counter(SIZES)


PODS: Final = "/api/v1/namespaces/default/pods"


def member(number: int, *, bare: bool) -> Object:
    """Return one of the pods, or its Deployment."""
    made = deployment(f"crowd-{number}", cpu=f"{SIZES[number]}m", memory="32Mi")
    if not bare:
        return {**made, "spec": {**made["spec"], "strategy": {"type": "Recreate"}}}
    pod = made["spec"]["template"]
    metadata = {**pod["metadata"], "name": f"crowd-{number}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def _in_crowd(pod: Mapping[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"]["app"].startswith("crowd-"))


def dead(actor: Actor) -> set[str]:
    """Return terminated instances by id."""
    return launched(actor) - {each["InstanceId"] for each in actor.instances()}


@pytest.fixture(params=[0])
def crowd(deployed: Actor, request: pytest.FixtureRequest) -> Iterator[Crowd]:
    """Pending pods; the parameter is the number of pods with Deployments."""
    deployed.clean()
    deployed.world.stack.agent_knob("boot", {"seconds": BOOT_SECONDS})
    made = Crowd(deployed, request.param, deployed.executions())
    made.come()
    until(lambda: len(deployed.pods()) == len(SIZES), what="all pods made")
    deployed.rest()
    yield made
    deployed.world.stack.agent_knob("faults", {"clear": True})
    deployed.world.stack.agent_knob("boot", {"seconds": 1.0, "held": False})
    deployed.clean()


@pytest.mark.parametrize("crowd", [DEPLOYED], indirect=True)
def test_every_pod_runs_on_its_planned_node_although_all_pods_are_replaced_meanwhile(
    crowd: Crowd,
) -> None:
    crowd.hold_boots()
    planned = crowd.open_the_pool()
    before = {pod["metadata"]["uid"] for pod in crowd.actor.pods()}
    crowd.replace()
    until(lambda: before.isdisjoint(pod["metadata"]["uid"] for pod in crowd.actor.pods()), what="all pods new")
    crowd.let_boot()
    crowd.wait_running()
    crowd.actor.rest()
    assert sorted(crowd.on_nodes()) == sorted(planned)
    assert sum(SIZES) / (NODES * POD_MILLICORES) > 0.99
    assert {millicores(node["status"]["allocatable"]["cpu"]) for node in crowd.actor.nodes()} == {POD_MILLICORES}


@pytest.mark.long("full nodes whose pods are replaced")
def test_pods_of_nodes_that_fail_to_boot_get_other_nodes_and_the_rest_runs_as_planned(crowd: Crowd) -> None:
    crowd.actor.world.stack.agent_knob("faults", {"fault": "stops-while-booting", "every": DYING})
    before = dead(crowd.actor)
    planned = crowd.open_the_pool()
    until(lambda: len(dead(crowd.actor) - before) >= NODES // DYING, what="some instances dead", limit=60)
    crowd.actor.world.stack.agent_knob("faults", {"clear": True})
    crowd.wait_running()
    crowd.actor.rest()
    nodes = [Counter(sizes) for sizes in crowd.on_nodes()]
    kept = [
        sizes for sizes in planned if any(Counter(sizes) <= there for there in nodes)
    ]  # one with room to spare may hold more by now
    assert len(kept) >= NODES - NODES // DYING


@pytest.mark.long("full nodes whose pods are replaced")
def test_a_later_deployment_of_higher_priority_preempts_no_planned_pod(crowd: Crowd) -> None:
    crowd.actor.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000}
    )
    crowd.hold_boots()
    planned = crowd.open_the_pool()
    crowd.actor.create(deployment("urgent", replicas=URGENT, cpu="700m", priorityClassName="urgent"))
    until(lambda: len(crowd.actor.instances()) > NODES, what="instances for the urgent", limit=60)
    crowd.let_boot()
    crowd.wait_running(others=URGENT)
    crowd.actor.rest()
    assert sorted(crowd.on_nodes()) == sorted(planned)

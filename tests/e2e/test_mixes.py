"""The web, batch and constrained mixes: all pods run within their constraints, on nodes at the planned price.

The test uses twenty pods of each mix; `JOINER_MIX_PODS=1000` (`make mix-test`) a thousand, and prints a line for each.
"""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import WatchTimeout, summary, until
from joiner_local.demo.cost_report import price_per_hour
from tests.e2e.stack_actions import Actor
from tests.e2e.workload_mixes import Mix, mix
from tests.plan_checker import check_plan

pytestmark = pytest.mark.e2e

NUMBER: Final = int(os.environ.get("JOINER_MIX_PODS", "20"))
PATIENCE: Final = 60 + 0.6 * NUMBER  # seconds until all run, on a busy machine
LOOK: Final = 60.0  # seconds from one sweep to the next: the schedule is held in these tests
SPOT_MOVES: Final = 0.02  # as a share: spot prices are others by the time they are asked for again
UNSCHEDULABLE: Final = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
PODS: Final = "/api/v1/namespaces/default/pods"

Offer = tuple[str, str, str]
"""Instance type, zone, capacity type."""


@dataclass(frozen=True, slots=True)
class MixScenario:
    """A mix of pods in an empty cluster; all exist before the pools, so that one plan has all of them."""

    actor: Actor
    mix: Mix
    known: list[
        dict[str, Any]
    ]  # scale-ups before they came: one that a pod's ring began may still run when the pools are made

    def come(self) -> None:
        kube = self.actor.world.kube
        self.actor.create(*self.mix.daemons)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda pod: kube.create(PODS, pod), self.mix.pods))
        until(lambda: len(self.pods()) == len(self.mix.pods), what="all pods made")
        self.actor.rest(limit=PATIENCE)

    def pods(self) -> list[Object]:
        """Return the pods without those of the DaemonSet."""
        return [pod for pod in self.actor.pods() if "ownerReferences" not in pod["metadata"]]

    def run(self) -> float:
        """Create the pools, wait until every pod runs and no execution runs; return the seconds until all pods ran."""
        began = time.monotonic()
        self.actor.create(*self.mix.pools)
        while not self._all_run() and time.monotonic() - began < PATIENCE:
            self.actor.sweep()
        took = time.monotonic() - began
        waiting = [pod["metadata"]["name"] for pod in self.pods() if pod["status"].get("phase") != "Running"]
        assert waiting == []
        self.actor.rest(limit=PATIENCE)
        return took

    def _all_run(self) -> bool:
        with suppress(WatchTimeout):
            until(
                lambda: all(pod["status"].get("phase") == "Running" for pod in self.pods()),
                what="every pod running",
                limit=LOOK,
            )
            return True
        return False

    def as_planned(self) -> list[float]:
        """Return for each execution with launches the share of its planned pods that run on their planned node."""
        summaries = [summary(self.actor.world, execution["executionArn"]) for execution in self.actor.since(self.known)]
        return [float(each["placedAsPlanned"]) for each in summaries if each.get("launched")]

    def misplaced(self) -> list[str]:
        """Return each violated constraint of each running pod, found by the independent checker."""
        kube = self.actor.world.kube
        placed: dict[str, list[str]] = {}
        waiting = []
        for pod in self.pods():
            placed.setdefault(pod["spec"]["nodeName"], []).append(f"default/{pod['metadata']['name']}")
            waiting.append({**pod, "spec": {**pod["spec"], "nodeName": None}, "status": UNSCHEDULABLE})
        daemons = [pod for pod in self.actor.pods() if "ownerReferences" in pod["metadata"]]
        lists = {
            "pods": [*waiting, *daemons],
            "nodes": self.actor.nodes(),
            "daemonsets": kube.items("/apis/apps/v1/namespaces/default/daemonsets"),
        }
        there = [{"node": node, "claim": None, "pods": pods} for node, pods in placed.items()]
        return check_plan(lists, {}, {"nodes": [], "existing": there, "pending": []})

    def offers(self) -> Counter[Offer]:
        """What EC2 shows of the instances."""
        return Counter(
            (each["InstanceType"], each["Placement"]["AvailabilityZone"], each.get("InstanceLifecycle", "on-demand"))
            for each in self.actor.instances()
        )

    def price_per_hour(self, offer: Offer) -> float:
        """Return the price of all instances at EC2's current prices."""
        instance_type, zone, capacity_type = offer
        if capacity_type == "on-demand":
            return price_per_hour(self.actor.world.client("pricing"), instance_type)
        response = self.actor.world.client("ec2").describe_spot_price_history(
            InstanceTypes=[instance_type],
            AvailabilityZone=zone,
            StartTime=datetime.now(UTC),
            ProductDescriptions=["Linux/UNIX"],
        )
        return float(response["SpotPriceHistory"][0]["SpotPrice"])


@pytest.fixture
def scene(deployed: Actor, request: pytest.FixtureRequest) -> Iterator[MixScenario]:
    deployed.clean()
    made = MixScenario(deployed, mix(request.param, NUMBER), deployed.executions())
    made.come()
    yield made
    deployed.clean()


ALSO: Final = pytest.mark.long("the constrained mix") if NUMBER == 20 else ()


@pytest.mark.parametrize(
    "scene", [pytest.param("web", marks=ALSO), pytest.param("batch", marks=ALSO), "constrained"], indirect=True
)
def test_every_pod_of_a_mix_runs_within_its_constraints_on_nodes_at_the_planned_price(
    scene: MixScenario, request: pytest.FixtureRequest
) -> None:
    took = scene.run()
    plans = scene.actor.plans_since(scene.known)
    nodes = [node for plan in plans.values() for node in plan["nodes"]]
    offers = scene.offers()
    planned, paid = defaultdict[str, float](float), defaultdict[str, float](float)
    for node in nodes:
        planned[node["capacityType"]] += node["priceParts"]["instance"]  # EC2 is asked for the instance's price
    for offer, count in offers.items():
        paid[offer[2]] += count * scene.price_per_hour(offer)
    executions = len({key.split("/")[1] for key in plans})
    print(
        f"{request.node.callspec.id}: {len(scene.mix.pods)} pods run on {offers.total()} nodes after {took:.0f} s; "
        f"${sum(planned.values()):.2f} an hour was planned, by {len(plans)} plans of {executions} executions, "
        f"and is what EC2 asks for: ${sum(paid.values()):.2f}; "
        f"bound as planned: {', '.join(f'{share:.1%}' for share in scene.as_planned())}"
    )

    assert scene.misplaced() == []
    assert offers.total() == len(nodes) == len(scene.actor.nodes())
    assert offers.keys() <= {offer_of(each) for node in nodes for each in (node, *node["alternatives"])}
    assert paid["on-demand"] == pytest.approx(planned["on-demand"], abs=1e-6)
    spot = [
        {offer_of(each) for each in (node, *node["alternatives"])} for node in nodes if node["capacityType"] == "spot"
    ]
    prices = {offer: scene.price_per_hour(offer) for offer in set().union(*spot)}
    cheapest = sum(min(map(prices.__getitem__, offers)) for offers in spot)
    assert cheapest - 1e-6 <= paid["spot"] <= planned["spot"] * (1 + SPOT_MOVES), (
        "EC2 chooses one of each node's offers"
    )


def offer_of(planned: Mapping[str, Any]) -> Offer:
    return planned["instanceType"], planned["zone"], planned["capacityType"]

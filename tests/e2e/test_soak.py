"""A time of everything at once: Deployments grow and shrink, Spot Instances are interrupted, capacity is short,
functions fail and executions are stopped, while nodes are consolidated; in the middle the pool and the class change.

Every disruption is watched (`disruption_rules`). At the end the workload is fixed, and Joiner comes to rest: no
orphan; no pod waited longer than the troubles explain; no node was consolidated before it had the pool's least age, and
none replaced as drifted that was launched after the changes; the price is at most 6 % above that of a plan of all pods
from nothing, and at most 6 % and one node above the bound; nothing changes any more.

`JOINER_SOAK_SECONDS=1200` (`make chaos-test`) runs twenty minutes; the default is a short run. The seed is printed, and
`JOINER_SOAK_SEED` gives it again.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from joiner.adapters import documents
from joiner.adapters.store import Store
from joiner.disruption.proposal import Proposal
from joiner.disruption.survey_digest import CHANGED_SECONDS
from joiner.planning import Snapshot
from joiner.planning.planner import plan
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import instances
from tests.e2e.pod_witness import PodWitness
from tests.e2e.random_changes import RandomChanges
from tests.e2e.retirement_listing import retirements_since
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_invariants import violations
from tests.e2e.stack_manifests import deployment, node_class, pool_of_many_offerings

pytestmark = pytest.mark.e2e

SECONDS: Final = float(os.environ.get("JOINER_SOAK_SECONDS", "20"))
SEED: Final = int(os.environ.get("JOINER_SOAK_SEED", "20261124"))
SIZES: Final = {"small": "200m", "web": "500m", "db": "1500m", "batch": "900m"}
MOST: Final = 8
BUDGET: Final = 4
"""Nodes that may leave at once: half of the cluster. A replacement takes at most so many nodes together; with two, the
price stays up to 10 % above the planned one although every replacement of two nodes would be more expensive.
"""
LEAST_AGE: Final = 45
"""Seconds: `joiner.dev/consolidation-least-node-age`."""
GUARDED: Final = 4
GUARD: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guarded"
"""Until the end it allows one eviction, so that two nodes with guarded pods are never repacked together."""
VOLUNTARY: Final = {"empty", "consolidated", "drifted"}
LONGEST_WAIT: Final = 150.0
"""Seconds. A failed invocation is found by the next sweep, a minute later at most; the next one may fail, too."""
HURRIED: Final = SECONDS <= 60
"""Whether the end does not wait for the schedule: sweeps follow one another, and back-offs are forgotten."""
REST_WITHIN: Final = 480.0 if HURRIED else 1800.0
SWEEP_SECONDS: Final = 60
DISRUPTION_SECONDS: Final = 60
"""From a sweep to the first instance that DISRUPT launches or retires: two proposals, 15 seconds apart, on a busy
machine."""
REST_FOR: Final = CHANGED_SECONDS[-1] + SWEEP_SECONDS + DISRUPTION_SECONDS
"""Seconds without a change: after surveys that found nothing, the next one waits so long, also for a changed cluster.
"""
RESTFUL_PASSES: Final = 2
"""Hurried passes in a row, of a sweep and everything that it starts, that change nothing."""
AGED_AFTER: Final = LEAST_AGE + 15
"""Seconds without a change after which every node has the least age, and the time of its last pod event is over."""
TROUBLED: Final = ("BACKOFF", "HELD", "UNAVAILABLE")
"""What remains of troubles that are over. A pool backs off for up to half an hour after failed replacements."""
FORGOTTEN: Final = ("PROPOSED", *TROUBLED)
PACE: Final = 0.2
PLANNED_WITHIN: Final = timedelta(seconds=60)
"""So long after a change a launch may still follow the pool or the class of before."""
ABOVE_PLAN: Final = 1.06
POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLASSES: Final = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"


def soak_pool() -> Object:
    pool = pool_of_many_offerings(
        "soak",
        {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "5s",
            "budgets": [{"nodes": str(BUDGET)}],
        },
    )
    pool["metadata"]["annotations"] = {
        "joiner.dev/consolidation-least-node-age": f"{LEAST_AGE}s",
        "joiner.dev/spot-to-spot-consolidation": "true",
        "joiner.dev/spot-to-spot-least-types": "1",
    }
    return pool


def guarded_deployments() -> Iterator[Object]:
    """Yield pods that nothing but disruptions ends: some with a PodDisruptionBudget, and one that must not be
    disrupted.
    """
    yield deployment("guarded", replicas=GUARDED, cpu="700m")
    yield {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    kept = deployment("kept", cpu="300m")
    kept["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    yield kept


@dataclass
class Soak:
    """One run: the random changes, and what was observed."""

    changes: RandomChanges
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    seen: PodWitness = field(init=False)
    changed: datetime | None = None
    """When pool or class were changed the last time."""

    def __post_init__(self) -> None:
        self.seen = PodWitness(self.actor)

    @property
    def actor(self) -> Actor:
        return self.changes.actor

    def run(self, seconds: float) -> None:
        """Change things at random; in the middle change the class, and then the pool."""
        changes, chance, began = self.changes, self.changes.chance, time.monotonic()
        due = {self.change_class: seconds * 0.4, self.change_pool: seconds * 0.6}
        next_trouble = 5.0
        while (passed := time.monotonic() - began) < seconds:
            changes.act(changes.scale, changes.scale, changes.scale, changes.roll_out)
            for change in [each for each, at in due.items() if at <= passed]:
                changes.act(change)
                del due[change]
            if passed > next_trouble:
                changes.act(
                    changes.interrupt,
                    changes.interrupt,
                    changes.lose,
                    changes.shorten_capacity,
                    changes.fail_function,
                    changes.fail_function,
                    changes.stop_execution,
                    changes.sweep,
                )
                next_trouble = passed + chance.uniform(5, 15)
            time.sleep(chance.uniform(0.5, 4))
        changes.end_troubles()

    def change_class(self) -> None:
        """Change a tag of the class: all nodes of the pool are drifted."""
        self.actor.world.kube.merge(f"{CLASSES}/soak", {"spec": {"tags": {"changed": "true"}}})
        self.changed = datetime.now(UTC)

    def change_pool(self) -> None:
        """Change a label of the pool's template: all nodes of the pool are drifted."""
        labels = {"spec": {"template": {"metadata": {"labels": {"changed": "true"}}}}}
        self.actor.world.kube.merge(f"{POOLS}/soak", labels)
        self.changed = datetime.now(UTC)

    def rest(self) -> None:
        """Fix the workload, and wait until nothing changes any more, without the traces of troubles."""
        self.actor.forget(*TROUBLED)
        wanted = {app: self.changes.chance.randint(2, MOST) for app in SIZES}
        for app, replicas in wanted.items():
            self.actor.scale(app, replicas)
        self.actor.end("kept")  # its node cannot be replaced, at whatever price
        self.actor.world.kube.merge(GUARD, {"spec": {"maxUnavailable": GUARDED}})  # nor several with guarded pods
        end = time.monotonic() + REST_WITHIN
        (self._pass_until if HURRIED else self._wait_until)(end)
        assert {app: self.actor.running(app) for app in wanted} == wanted

    def _wait_until(self, end: float) -> None:
        """Wait until nothing has changed for a time, by Joiner's own schedule."""
        last, since = self._state(), time.monotonic()
        while time.monotonic() - since < REST_FOR:
            assert time.monotonic() < end, f"still changing {REST_WITHIN:.0f} s after the last change: {last}"
            time.sleep(2)
            if (now := self._state()) != last or self._works():
                last, since = now, time.monotonic()

    def _pass_until(self, end: float) -> None:
        """Run sweeps until some in a row change nothing, as if minutes had passed between them."""
        self.actor.knob("schedules/hold", held=True)
        self.actor.knob("faults/pace", factor=PACE)
        last, same, since = self._state(), 0, time.monotonic()
        while same < RESTFUL_PASSES or time.monotonic() - since < AGED_AFTER:
            assert time.monotonic() < end, f"still changing {REST_WITHIN:.0f} s after the last change: {last}"
            self.actor.forget(*FORGOTTEN)
            self.actor.sweep()
            self.actor.rest(limit=REST_WITHIN)
            now = self._state()
            last, same, since = now, *((same + 1, since) if now == last else (0, time.monotonic()))
        self.actor.knob("faults/pace", factor=1)

    def _state(self) -> tuple[frozenset[str], frozenset[tuple[str, str]], int]:
        pods = self.actor.pods()
        return (
            frozenset(each["InstanceId"] for each in self.actor.instances()),
            frozenset((pod["metadata"]["name"], pod["spec"].get("nodeName", "")) for pod in pods),
            sum(pod["status"].get("phase") != "Running" for pod in pods),
        )

    def _works(self) -> bool:
        """Return whether an execution launches or removes nodes; a look for nodes to disrupt changes nothing."""
        machines = (self.actor.world.scale_up_arn, self.actor.world.retire_arn, self.actor.world.retire_empty_arn)
        names = {arn.rpartition(":")[2] for arn in machines}
        return any(arn.split(":")[6] in names for arn in self.actor.knob("running-executions")["executions"])

    def retirements(self) -> list[tuple[datetime, dict[str, Any]]]:
        return sorted(retirements_since(self.actor, self.began), key=lambda each: each[0])

    def involuntary(self) -> set[str]:
        """Return the instances that were hit, or retired for a reason that is not voluntary."""
        taken = {claim["instance"] for _, claim in self.retirements() if claim["reason"] not in VOLUNTARY}
        return taken | self.changes.struck

    def too_young(self) -> list[str]:
        """Return the consolidated nodes that did not have the pool's least age, and the drifted ones that were launched
        after the last change of pool and class.
        """
        launched = {each["InstanceId"]: each["LaunchTime"] for each in instances(self.actor.world.client("ec2"))}
        found = []
        for begun, claim in self.retirements():
            since = launched.get(claim["instance"])
            age = (begun - since).total_seconds() if since else LEAST_AGE
            if claim["reason"] == "consolidated" and age < LEAST_AGE and claim["instance"] not in self.involuntary():
                found.append(f"{claim['claim']} was consolidated after {age:.0f} s")
            planned = self.changed and self.changed + PLANNED_WITHIN
            if claim["reason"] == "drifted" and since and planned and since > planned:
                found.append(f"{claim['claim']} was replaced as drifted, and was launched after the last change")
        return found

    def price(self) -> float:
        return sum(float(each["metadata"]["annotations"]["joiner.dev/price-per-hour"]) for each in self.actor.claims())

    def cheapest_node(self) -> float:
        """Return the price of the cheapest node: the bound counts parts of nodes, and so few pods may not fill one."""
        return min(float(each["metadata"]["annotations"]["joiner.dev/price-per-hour"]) for each in self.actor.claims())

    def planned_price(self) -> float:
        """Return the price of a plan of all pods from nothing."""
        kube = self.actor.world.kube
        pods = [_unbound(pod) for pod in kube.items("/api/v1/namespaces/default/pods")]
        snapshot = Snapshot.from_lists({"nodepools": kube.items(POOLS), "pods": pods})
        store = Store(self.actor.world.client("s3"), self.actor.outputs["BucketName"])
        classes = documents.get_node_classes(store, self._last("node-classes/"))
        made = plan(snapshot, documents.get_catalogue(store), classes=classes)
        assert made.pending == ()
        return sum(node.price_per_hour for node in made.nodes)

    def last_proposal(self) -> Proposal:
        """Return what the last look for nodes to disrupt found."""
        store = Store(self.actor.world.client("s3"), self.actor.outputs["BucketName"])
        return documents.get_proposal(store, self._last(f"{documents.DECISIONS}/"))

    def _last(self, prefix: str) -> str:
        pages = self.actor.world.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.actor.outputs["BucketName"], Prefix=prefix)
        listed = [each for page in found for each in page.get("Contents", ())]
        return str(max(listed, key=lambda each: each["LastModified"])["Key"])


def explained(made: Proposal) -> str:
    """Return why the nodes of a proposal were kept."""
    kept = [f"{each.claim}: {each.condition}: {each.message}" for each in made.kept]
    figures = f"${made.price_per_hour}/h, bound ${made.lower_bound_per_hour}/h, {len(made.actions)} actions"
    return "\n".join([figures, *kept])


def _unbound(pod: Object) -> Object:
    """Return the pod as it was before it was bound."""
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**pod, "spec": spec, "status": {"phase": "Pending", "conditions": [unschedulable]}}


@pytest.fixture
def soak(deployed: Actor) -> Iterator[Soak]:
    deployed.clean()
    deployed.create(node_class("soak"), soak_pool())
    deployed.create(*(deployment(app, replicas=2, cpu=cpu) for app, cpu in SIZES.items()), *guarded_deployments())
    deployed.wait_running(2 * len(SIZES) + GUARDED + 1)
    deployed.rest()
    deployed.knob("schedules/hold", held=False)
    before = deployed.knob("instances")
    deployed.knob("instances", shownSeconds=3600)
    changes = RandomChanges(deployed, random.Random(SEED), SIZES, MOST)  # noqa: S311 - the same course each time
    made = Soak(changes)
    yield made
    made.seen.close()
    deployed.knob("faults/pace", factor=1)
    changes.end_troubles()
    deployed.knob("schedules/hold", held=True)
    deployed.knob("instances", **before)
    deployed.clean()


@pytest.mark.long("races of scale-ups and removals (`test_chaos`), and each way of a disruption alone")
def test_after_everything_at_once_no_rule_was_broken_and_the_cluster_rests_at_a_low_price(soak: Soak) -> None:
    print(f"JOINER_SOAK_SEED={SEED}")
    soak.run(SECONDS)
    soak.rest()

    reasons = Counter(claim["reason"] for _, claim in soak.retirements())
    price, planned, (pod, waited) = soak.price(), soak.planned_price(), soak.seen.longest_wait()
    watched = soak.actor.judge_disruptions()
    print(f"done: {dict(soak.changes.done)}; retired: {dict(reasons)}")
    print(f"{len(watched.ended)} pods ended by disruptions, {len(watched.voluntary)} nodes disrupted voluntarily")
    print(f"${price:.4f}/h at rest, ${planned:.4f}/h planned from nothing; the longest wait {waited:.0f} s, of {pod}")
    assert violations(soak.actor.world, table=soak.actor.outputs["TableName"]) == []
    assert watched.violations == []
    assert watched.voluntary
    assert soak.too_young() == []
    assert soak.seen.waiting == {}
    assert waited <= LONGEST_WAIT
    last = soak.last_proposal()
    print(explained(last))
    assert price <= planned * ABOVE_PLAN, explained(last)
    assert last.price_per_hour == pytest.approx(price, abs=1e-5), "the last look was at the cluster at rest"
    assert last.lower_bound_per_hour <= planned
    assert price <= last.lower_bound_per_hour * ABOVE_PLAN + soak.cheapest_node(), explained(last)

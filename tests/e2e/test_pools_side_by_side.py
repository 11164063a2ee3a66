"""Voluntary disruption from outside, of several pools at a time: each pool keeps its own rules.

All pools of a test stand in one cluster, because every proposal waits for 15 seconds. The time of the last proposal is
forgotten before each sweep, so that the next one is due at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool
from tests.e2e.test_consolidated_nodes import disruptions, notes

pytestmark = pytest.mark.e2e

LIMIT = 180.0
EVENTS: Final = "/api/v1/namespaces/default/events"
CLASS = "side-by-side"
LABELS = ("karpenter.sh/nodepool", "karpenter.sh/provisioner-name")
REQUIREMENTS = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}
CONSOLIDATED: Final = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}
LIMITING: Final = ("joiner.dev/consolidation-workload-cool-down", "joiner.dev/consolidation-evictions-per-day")
"""Annotations that keep nodes after a first pod of theirs was moved."""

ZONE = "Asia/Kathmandu"  # a quarter of an hour and some hours from UTC


def window(of: str) -> Mapping[str, str]:
    """Return a window that opened an hour ago in this zone. It is closed where clocks differ by hours."""
    began = datetime.now(UTC).astimezone(ZoneInfo(of)) - timedelta(hours=1)
    return {"nodes": "0", "schedule": f"{began.minute} {began.hour} * * *", "duration": "3h"}


@dataclass(frozen=True)
class HalfUsedPool:
    """A pool with nodes that a filler and one other pod fill; then the fillers end. All other pods fit on one node."""

    name: str
    nodes: int = 2
    cpu: str = "800m"
    filler: str = "1"
    disruption: Mapping[str, Any] = field(default_factory=lambda: {**CONSOLIDATED, "budgets": [{"nodes": "1"}]})
    annotations: Mapping[str, str] = field(default_factory=dict)
    label: str = LABELS[0]

    def manifests(self) -> list[Object]:
        made = node_pool(self.name, REQUIREMENTS, class_name=CLASS, disruption=self.disruption, expireAfter="Never")
        return [{**made, "metadata": {"name": self.name, "annotations": dict(self.annotations)}}]

    def deployment(self, kind: str, cpu: str) -> Object:
        selector = {self.label: self.name}
        return deployment(f"{kind}-{self.name}", replicas=self.nodes, cpu=cpu, nodeSelector=selector)


class LegacyPool(HalfUsedPool):
    """A Provisioner that consolidates."""

    def manifests(self) -> list[Object]:
        requirements = [{"key": key, "operator": "In", "values": values} for key, values in REQUIREMENTS.items()]
        selector = {"karpenter.sh/discovery": "joiner-demo"}
        spec = {"requirements": requirements, "providerRef": {"name": CLASS}, "consolidation": {"enabled": True}}
        template = {"subnetSelector": selector, "securityGroupSelector": selector}
        return [
            {
                "apiVersion": "karpenter.sh/v1alpha5",
                "kind": "Provisioner",
                "metadata": {"name": self.name},
                "spec": spec,
            },
            {
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "metadata": {"name": CLASS},
                "spec": template,
            },
        ]


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class(CLASS))
    yield deployed
    deployed.clean()


def half_use(actor: Actor, *pools: HalfUsedPool) -> None:
    """Fill the nodes of all pools, and let the fillers end."""
    actor.create(*(manifest for pool in pools for manifest in pool.manifests()))
    nodes = sum(pool.nodes for pool in pools)
    actor.create(*(pool.deployment("filler", pool.filler) for pool in pools))
    actor.wait_running(nodes)
    actor.rest()
    actor.create(*(pool.deployment("web", pool.cpu) for pool in pools))
    actor.wait_running(2 * nodes)
    actor.rest()
    actor.end(*(f"filler-{pool.name}" for pool in pools))
    actor.rest()
    assert nodes_of(actor) == {pool.name: pool.nodes for pool in pools}


def nodes_of(actor: Actor) -> Counter[str]:
    """Count the nodes by pool."""
    labels = [node["metadata"]["labels"] for node in actor.nodes()]
    return Counter(each[key] for each in labels for key in LABELS if key in each)


def disrupt(actor: Actor) -> None:
    """Run a sweep that may propose, and everything that follows."""
    actor.forget("PROPOSED")
    assert actor.sweep() == "SUCCEEDED"
    actor.rest(limit=LIMIT)


def disrupt_until(actor: Actor, done: Callable[[], bool], *, what: str) -> None:
    def look() -> bool:
        disrupt(actor)
        return done()

    until(look, what=what, limit=LIMIT)


def test_half_used_nodes_are_merged_unless_a_budget_a_cool_down_or_a_ration_keeps_them(actor: Actor) -> None:
    kathmandu = {"joiner.dev/budget-time-zone": ZONE}
    closed, open_ = ([window(of), {"nodes": "1"}] for of in (ZONE, "UTC"))
    half_use(
        actor,
        HalfUsedPool("merged"),
        LegacyPool("legacy", label=LABELS[1]),
        HalfUsedPool("closed", disruption={**CONSOLIDATED, "budgets": closed}, annotations=kathmandu),
        HalfUsedPool("open", disruption={**CONSOLIDATED, "budgets": open_}, annotations=kathmandu),
        HalfUsedPool("guarded"),
        HalfUsedPool("calm", 3, "500m", "1300m", annotations={"joiner.dev/consolidation-workload-cool-down": "1h"}),
        HalfUsedPool("rationed", 3, "500m", "1300m", annotations={"joiner.dev/consolidation-evictions-per-day": "1"}),
    )
    actor.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded", "namespace": "default"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web-guarded"}}},
        }
    )
    known, before = actor.executions(), len(disruptions(actor))
    merged = {"merged": 1, "legacy": 1, "open": 1, "closed": 2, "guarded": 2, "calm": 2, "rationed": 2}

    with watched_evictions(actor) as watched:
        disrupt_until(actor, lambda: nodes_of(actor) == merged, what="one node each of three pools")
        actor.world.kube.delete(f"{EVENTS}?fieldSelector=reason=Unconsolidatable")  # once in a quarter of an hour
        disrupt_until(
            actor,
            lambda: all(each in notes(actor, "Unconsolidatable") for each in LIMITING),
            what="a report of the cool-down, and of the evictions a day",
        )

    actor.wait_running(16)
    assert nodes_of(actor) == merged
    assert sorted(name.split("-")[1] for name in watched.evicted) == ["calm", "legacy", "merged", "open", "rationed"]
    assert actor.plans_since(known) == {}, "the pods of the removed nodes need no new node"
    assert "the budgets of NodePool/closed allow 0 more nodes for Underutilized" in notes(actor, "Unconsolidatable")
    assert "PodDisruptionBudget default/guarded allows no eviction" in notes(actor, "DisruptionBlocked")
    assert {"DisruptionTerminating", "Evicted"} <= {event["reason"] for event in actor.events()}
    outcomes = disruptions(actor)[before:]
    assert (sum(each["retired"] for each in outcomes), [each["undone"] for each in outcomes if each["undone"]]) == (
        5,
        [],
    )

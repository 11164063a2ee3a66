"""Pools whose requirements are widened after their nodes run, so that cheaper nodes become possible."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_pool
from tests.e2e.test_pools_side_by_side import disrupt

POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
POOL: Final = "karpenter.sh/nodepool"
TEAM: Final = "example.com/team"
AT_ONCE: Final = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "1s",
    "budgets": [{"nodes": "100%"}],
}
UNTOUCHED: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
"""Nothing is consolidated, and everything else is disrupted at once."""


LIMIT: Final = 150.0  # seconds


@dataclass(frozen=True)
class ChangingPool:
    """A pool of nodes of the instance types `before`. `widen` allows the types `then`, and these capacity types.

    Its Deployment has its name. `annotations` are the pool's.
    """

    name: str
    before: Sequence[str]
    then: Sequence[str] = ()
    replicas: int = 1
    cpu: str = "1100m"
    memory: str = "64Mi"
    capacity_types: Sequence[str] = ("on-demand",)
    disruption: Mapping[str, Any] = field(default_factory=lambda: AT_ONCE)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    team: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    class_name: str = "changing"
    template: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the nodes."""

    def manifest(self) -> Object:
        nodes = {"expireAfter": "Never", **self.template}
        made = node_pool(
            self.name,
            {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: self.before},
            class_name=self.class_name,
            disruption=self.disruption,
            **nodes,
        )
        made["metadata"]["annotations"] = dict(self.annotations)
        made["spec"]["limits"] = dict(self.limits)
        if self.team:
            made["spec"]["template"]["metadata"] = {"labels": {TEAM: self.team}}
        return made

    def deployment(self) -> Object:
        """Return the Deployment. The pods of a team may move to other pools of the team."""
        selector = {TEAM: self.team} if self.team else {POOL: self.name}
        made = deployment(self.name, replicas=self.replicas, cpu=self.cpu, memory=self.memory, nodeSelector=selector)
        made["spec"]["template"]["metadata"]["annotations"] = dict(self.pod_annotations)
        return made

    def widen(self, actor: Actor) -> None:
        """Allow more instance types and capacity types, which is no drift."""
        requirements = [
            {"key": CAPACITY_TYPE, "operator": "In", "values": list(self.capacity_types)},
            {"key": INSTANCE_TYPE, "operator": "In", "values": [*self.before, *self.then]},
        ]
        actor.world.kube.merge(f"{POOLS}/{self.name}", {"spec": {"template": {"spec": {"requirements": requirements}}}})


def launch(actor: Actor, *pools: ChangingPool) -> None:
    """Create the pools and their pods, and wait until all run."""
    standing = len(actor.pods())
    actor.create(*(each.manifest() for each in pools))
    actor.rest()
    actor.create(*(each.deployment() for each in pools))
    actor.wait_running(standing + sum(each.replicas for each in pools))
    actor.rest()


def annotate_pool(actor: Actor, pool: str, **annotations: str | None) -> None:
    """Set annotations `joiner.dev/...` of a pool; their names have `_` for `-`."""
    named = {f"joiner.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    actor.world.kube.merge(f"{POOLS}/{pool}", {"metadata": {"annotations": named}})


def claims_of(actor: Actor, pool: str) -> dict[str, Object]:
    """Return the claims of a pool by name."""
    return {one["metadata"]["name"]: one for one in actor.claims() if one["metadata"]["labels"].get(POOL) == pool}


def instance_of(claim: Object) -> str:
    """Return the id of the instance of a claim."""
    return str(claim["status"]["providerID"].rpartition("/")[2])


def node_of(claim: Object) -> str:
    """Return the name of the node of a claim."""
    return str(claim["status"]["nodeName"])


def condition_of(claim: Object, kind: str) -> tuple[str, str]:
    """Return status and reason of a condition; empty texts if it is missing."""
    conditions = claim.get("status", {}).get("conditions", ())
    return next(((each["status"], each["reason"]) for each in conditions if each["type"] == kind), ("", ""))


def types_by_pool(actor: Actor) -> dict[str, list[str]]:
    """Return the instance types of the claims of each pool, sorted."""
    found: dict[str, list[str]] = {}
    for claim in actor.claims():
        labels = claim["metadata"]["labels"]
        found.setdefault(labels[POOL], []).append(labels.get(INSTANCE_TYPE, ""))
    return {pool: sorted(types) for pool, types in found.items()}


def types_of(actor: Actor, *pools: str) -> list[str]:
    """Return the instance types of the claims of these pools, sorted."""
    found = types_by_pool(actor)
    return sorted(kind for pool in pools for kind in found.get(pool, ()))


def disrupt_to(actor: Actor, wanted: Mapping[str, Sequence[str]]) -> None:
    """Run sweeps that may propose, until the claims of each pool have these instance types."""
    deadline = time.monotonic() + LIMIT
    while (found := types_by_pool(actor)) != wanted and time.monotonic() < deadline:
        disrupt(actor)
    assert found == wanted


def notes_on(actor: Actor, name: str) -> str:
    """Return the texts of all events on an object."""
    return "\n".join(event.get("note", "") for event in actor.events() if event["regarding"]["name"] == name)


def disrupted_nodes(actor: Actor) -> set[str]:
    """Return the names of the nodes with the taint of disrupted nodes."""
    return {
        str(node["metadata"]["name"])
        for node in actor.nodes()
        if any(taint["key"] == "karpenter.sh/disrupted" for taint in node["spec"].get("taints", ()))
    }

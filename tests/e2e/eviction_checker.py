"""A checker that watches a cluster while nodes are disrupted: no voluntary disruption breaks a rule.

It reads the API server several times a second, from outside. A violation is a sentence. The rules:

* No more nodes of a pool carry the taint `karpenter.sh/disrupted` than its budgets allow. What the budgets of a pool
  with schedules allow during the test is given by the test.
* A PodDisruptionBudget never has fewer healthy pods than it asks for, unless it had fewer before.
* No pod that must not be disrupted is terminated on a node with the taint.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from joiner_local.control_plane.kube_api import KubeApi, Object
from tests.e2e.repeated_actions import steadily

POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"
EVERY: Final = 0.25  # seconds
POOL: Final = "karpenter.sh/nodepool"
DISRUPTED: Final = "karpenter.sh/disrupted"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


@dataclass
class EvictionRecord:
    """What was seen: violations, the pods that were terminated on disrupted nodes, and the number of observations."""

    violations: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    on_closed: dict[str, Object] = field(default_factory=dict)
    observations: int = 0


@contextmanager
def watched_evictions(kube: KubeApi, *, scheduled: Mapping[str, int] | None = None) -> Iterator[EvictionRecord]:
    """Watch during the block; fail afterwards if a rule was broken. `scheduled` says by pool how many nodes its budgets
    allow, for pools whose budgets have schedules."""
    with watch_evictions(kube, scheduled=scheduled) as watched:
        yield watched
    assert watched.violations == set()
    assert watched.observations > 0


@contextmanager
def watch_evictions(kube: KubeApi, *, scheduled: Mapping[str, int] | None = None) -> Iterator[EvictionRecord]:
    """Watch during the block."""
    watched = EvictionRecord()
    with steadily(lambda: _observe(kube, watched, scheduled or {}), seconds=EVERY):
        yield watched


def _observe(kube: KubeApi, watched: EvictionRecord, scheduled: Mapping[str, int]) -> None:
    nodes, pods = kube.items("/api/v1/nodes"), kube.items("/api/v1/pods")
    watched.violations.update(_over_budget(kube.items(POOLS), nodes, scheduled))
    watched.violations.update(_unhealthy(kube.items(BUDGETS)))
    closed = {node["metadata"]["name"] for node in nodes if _is_disrupted(node)}
    standing = {pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    for uid, pod in list(watched.on_closed.items()):
        if uid not in standing:  # without a grace period it is gone at once
            watched.evicted.add(pod["metadata"]["name"])
            del watched.on_closed[uid]
            if (pod["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true":
                watched.violations.add(f"pod {pod['metadata']['name']} was terminated, and must not be disrupted")
    watched.on_closed |= {
        pod["metadata"]["uid"]: pod for pod in pods if _moves(pod) and pod["spec"].get("nodeName") in closed
    }
    watched.observations += 1


def _over_budget(pools: Sequence[Object], nodes: Sequence[Object], scheduled: Mapping[str, int]) -> Iterator[str]:
    for pool in pools:
        name = pool["metadata"]["name"]
        mine = [node for node in nodes if node["metadata"].get("labels", {}).get(POOL) == name]
        going = sum(_is_disrupted(node) for node in mine)
        allowed = scheduled[name] if name in scheduled else _allowed(pool, len(mine))
        if going > allowed:
            yield f"{going} of {len(mine)} nodes of pool {name} are disrupted, and its budgets allow {allowed}"


def _allowed(pool: Object, nodes: int) -> int:
    found: Sequence[Mapping[str, Any]] = pool["spec"].get("disruption", {}).get("budgets", [{"nodes": "10%"}])
    assert all("schedule" not in each and "reasons" not in each for each in found), found
    return min((_amount(each["nodes"], nodes) for each in found), default=nodes)


def _amount(value: str, nodes: int) -> int:
    return math.ceil(nodes * int(value[:-1]) / 100) if value.endswith("%") else int(value)


def _unhealthy(budgets: Sequence[Object]) -> Iterator[str]:
    for budget in budgets:
        status = budget.get("status", {})
        healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        if status.get("expectedPods", 0) >= desired > healthy and status.get("disruptedPods"):
            yield f"budget {budget['metadata']['name']} has {healthy} healthy pods of {desired}"


def _is_disrupted(node: Object) -> bool:
    return any(taint["key"] == DISRUPTED for taint in node["spec"].get("taints", []))


def _moves(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or []
    return "deletionTimestamp" not in pod["metadata"] and all(owner["kind"] != "DaemonSet" for owner in owners)

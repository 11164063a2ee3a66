"""Watches every disruption of a time in which nodes also fail: whether voluntary disruptions keep their rules.

The cluster is read several times a second, from outside. Which nodes were taken involuntarily (lost, interrupted,
deleted) is known afterwards only, so the observations are kept and judged at the end. The rules:

* A voluntary disruption begins only while the nodes of its pool that leave, for any reason, are fewer than the budget.
* Of the pods of a PodDisruptionBudget none ends on a node that is disrupted voluntarily while the budget allows none.
* No pod that must not be disrupted ends on such a node.

Only pods that nothing else deletes (no scaling, no rollout) may have a PodDisruptionBudget or `do-not-disrupt`.

>>> nodes = {"a": "i-1", "b": "i-2"}
>>> seen = [Observation(0.0, {}, {}, {}), Observation(1.0, nodes, {}, {})]
>>> judge(seen, budget=1, involuntary=())
['1 s: 2 nodes leave, and the budget allows 1: i-1, i-2']
>>> judge(seen, budget=2, involuntary=())
[]
>>> judge([*seen, Observation(2.0, {**nodes, "c": "i-3"}, {}, {})], budget=2, involuntary={"i-3"})
[]
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import urllib3

from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from tests.e2e.repeated_actions import steadily

EVERY: Final = 0.25  # seconds
KNOWN_AFTER: Final = 10.0
"""Seconds after which Joiner knows that a node leaves involuntarily. A decision is made from lists that are older."""
BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"
DISRUPTED: Final = "karpenter.sh/disrupted"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


@dataclass(frozen=True, slots=True)
class GuardedPod:
    """A pod that must not be disrupted, or whose PodDisruptionBudget counts; with the name of its node."""

    name: str
    node: str
    budget: str


@dataclass(frozen=True, slots=True)
class Observation:
    """The cluster at one time (seconds): the instances of disrupted nodes by node, the guarded pods by uid, and how
    many evictions each PodDisruptionBudget allows.
    """

    at: float
    leaving: Mapping[str, str]
    guarded: Mapping[str, GuardedPod]
    allowed: Mapping[str, int]


def judge(seen: Sequence[Observation], *, budget: int, involuntary: Collection[str]) -> list[str]:
    """Return a sentence for each violation; `involuntary` are the instances that were taken for other reasons."""
    return [*_over_budget(seen, budget, involuntary), *_ended_pods(seen, involuntary)]


def _over_budget(seen: Sequence[Observation], budget: int, involuntary: Collection[str]) -> Iterator[str]:
    since: dict[str, float] = {}
    for before, now in pairwise(seen):
        leaving = set(now.leaving.values())
        new = leaving - set(before.leaving.values())
        since |= dict.fromkeys(new, now.at)
        counted = {
            one
            for one in leaving
            if one not in involuntary or (one not in new and now.at - since.get(one, now.at) > KNOWN_AFTER)
        }
        if new - set(involuntary) and len(counted) > budget:
            named = ", ".join(sorted(counted))
            yield f"{now.at:.0f} s: {len(counted)} nodes leave, and the budget allows {budget}: {named}"


def _ended_pods(seen: Sequence[Observation], involuntary: Collection[str]) -> Iterator[str]:
    for earlier, before, now in zip(seen, seen[1:], seen[2:], strict=False):
        for uid, pod in before.guarded.items():
            instance = before.leaving.get(pod.node)
            if uid in now.guarded or instance is None or instance in involuntary:
                continue
            if not pod.budget:
                yield f"{now.at:.0f} s: pod {pod.name} ended on {instance}, and must not be disrupted"
            elif not earlier.allowed.get(pod.budget) and not before.allowed.get(pod.budget):
                yield f"{now.at:.0f} s: pod {pod.name} ended on {instance}, and {pod.budget} allowed no eviction"


@contextmanager
def watched_disruptions(kube: KubeApi) -> Iterator[list[Observation]]:
    """Observe during the block."""
    seen: list[Observation] = []
    began = time.monotonic()

    def observe() -> None:
        with suppress(ApiError, urllib3.exceptions.HTTPError):  # a busy API server: the next observation follows
            seen.append(_observe(kube, time.monotonic() - began))

    with steadily(observe, seconds=EVERY):
        yield seen


def _observe(kube: KubeApi, at: float) -> Observation:
    budgets = kube.items(BUDGETS)
    nodes, pods = kube.items("/api/v1/nodes"), kube.items("/api/v1/namespaces/default/pods")
    return Observation(
        at,
        {
            node["metadata"]["name"]: node["spec"].get("providerID", "").rpartition("/")[2]
            for node in nodes
            if any(taint["key"] == DISRUPTED for taint in node["spec"].get("taints", []))
        },
        {
            pod["metadata"]["uid"]: GuardedPod(pod["metadata"]["name"], pod["spec"].get("nodeName", ""), budget)
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
            and ((budget := _budget_of(pod, budgets)) or _is_protected(pod))
        },
        {each["metadata"]["name"]: each.get("status", {}).get("disruptionsAllowed", 0) for each in budgets},
    )


def _budget_of(pod: Object, budgets: Sequence[Object]) -> str:
    labels = pod["metadata"].get("labels", {})
    matching = (each for each in budgets if each["spec"]["selector"]["matchLabels"].items() <= labels.items())
    return next((str(each["metadata"]["name"]) for each in matching), "")


def _is_protected(pod: Object) -> bool:
    return (pod["metadata"].get("annotations") or {}).get(DO_NOT_DISRUPT) == "true"

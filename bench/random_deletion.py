"""Delete random pods of a workload, and watch the pool consolidate until the cluster rests: alike with Joiner and with
Karpenter."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bench.applied_workloads import DEPLOYMENTS, PODS, POOL, WORKLOADS, Workload, deployment
from bench.benchmark_stack import to_stderr
from bench.shrinking_watch import Moment, ShrinkingWatch
from joiner_local.control_plane.kube_api import KubeApi, Object

WORKLOAD: Final = next(one for one in WORKLOADS if one.name == "W2")
REMAINING: Final = 0.4
SEED: Final = 20261123
LIMIT: Final = 900.0
POLL: Final = 1.0
SETTLED: Final = 5.0
"""Seconds after a change before which a decision may not have seen it."""
CONSOLIDATING: Final[Object] = {
    "spec": {
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}],
        }
    }
}


def scaled(share: float) -> Workload:
    """Return the workload with this share of its pods."""
    sizes = (("w2-small", "900m", "3100Mi"), ("w2-large", "3500m", "28Gi"))
    number = round(500 * share)
    return replace(WORKLOAD, deployments=tuple(deployment(name, number, cpu, memory) for name, cpu, memory in sizes))


def watch_shrinking(kube: KubeApi, workload: Workload, rests: Callable[[ShrinkingWatch], bool]) -> list[Moment]:
    """Shrink a workload that runs, and return the states of the cluster until it rests."""
    watch = ShrinkingWatch(kube)
    shrink(kube, workload)
    reported = ""
    while watch.seconds < LIMIT and not (watch.moments and watch.quiet_seconds >= SETTLED and rests(watch)):
        if watch.moments and (reported != (reported := line(watch.moments[-1]))):
            to_stderr(reported)
        time.sleep(POLL)
    watch.close()
    return watch.moments


def shrink(kube: KubeApi, workload: Workload) -> None:
    """Delete random pods: those with the lowest deletion cost are deleted first when the deployment shrinks."""
    chance = random.Random(SEED)  # noqa: S311 - the same pods each time
    low = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
    for one in workload.deployments:
        name, number = one["metadata"]["name"], one["spec"]["replicas"]
        pods = sorted(pod["metadata"]["name"] for pod in kube.items(PODS) if pod["metadata"]["labels"]["app"] == name)
        remaining = round(number * REMAINING)
        for pod in chance.sample(pods, number - remaining):
            kube.merge(f"{PODS}/{pod}", low)
        kube.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": remaining}})
    kube.merge(f"/apis/karpenter.sh/v1/nodepools/{POOL}", CONSOLIDATING)


def line(one: Moment) -> str:
    """Return one line of the report."""
    return (
        f"{one.at:6.0f} s  ${one.price:7.2f}/h  {one.nodes:3} nodes  {one.recreated:4} pods created anew"
        f"  {one.pending:3} pending"
    )

"""The workloads of the benchmarks with Karpenter instead of Joiner, on the same machine and in the same run."""

from typing import Final

from bench.applied_workloads import NODE_CLAIMS, Workload, WorkloadCost, apply_workload, price_per_hour
from bench.benchmark_stack import to_stderr
from bench.karpenter_cluster import KarpenterCluster, karpenter_cluster
from bench.random_deletion import watch_shrinking
from bench.shrinking_watch import Moment, ShrinkingWatch

IDLE_EVALUATIONS: Final = 4
"""Ten seconds lie between two, and a node to which pods were to go is no candidate for twenty."""


def apply_with_karpenter(cluster: KarpenterCluster, workload: Workload) -> WorkloadCost:
    """Apply the workload, wait until all its pods run, and return what it cost."""
    began, ended = apply_workload(cluster.kube, workload)
    claims = cluster.kube.items(NODE_CLAIMS)
    return WorkloadCost(ended - began, len(claims), sum(map(price_per_hour, claims)))


def run_with_karpenter(workload: Workload) -> WorkloadCost:
    """Apply the workload to a new cluster."""
    with karpenter_cluster(workload.largest) as cluster:
        return apply_with_karpenter(cluster, workload)


def shrink_with_karpenter(workload: Workload) -> list[Moment]:
    """Apply the workload to a new cluster, shrink it, and return the states of the cluster until it rests."""
    with karpenter_cluster(workload.largest) as cluster:
        up = apply_with_karpenter(cluster, workload)
        to_stderr(f"{workload.pods} pods, {up.nodes} nodes, ${up.price_per_hour:.2f}/h, after {up.seconds:.0f} s")
        return watch_shrinking(cluster.kube, workload, _IdleSinceChange(cluster))


class _IdleSinceChange:
    """Whether Karpenter has considered the unchanged cluster several times, and found nothing to disrupt."""

    def __init__(self, cluster: KarpenterCluster) -> None:
        self._cluster = cluster
        self._changed = -1.0
        self._before = 0

    def __call__(self, watch: ShrinkingWatch) -> bool:
        evaluations = self._cluster.idle_evaluations()
        if self._changed != (changed := watch.moments[-1].at):
            self._changed, self._before = changed, evaluations
        return evaluations >= self._before + IDLE_EVALUATIONS

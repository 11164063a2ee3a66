"""A large workload that shrinks, on a local stack: `python -m bench.consolidation_live`.

The workload W2 of `bench.workloads` (500 pods of 900m and 3100Mi, 500 of 3500m and 28Gi, types below 33 vCPUs) runs.
Then 300 random pods of each deployment are deleted, and the pool consolidates without a budget. The table shows the
price, the nodes and the pods that were created anew, over time. Karpenter's figures were recorded on the same control
plane binaries. `--share` makes the workload smaller. Compare times on a quiet machine only.

`--offline` needs no stack: the planner launches the nodes, and the waves of `joiner.disruption.consolidation` are
applied one after the other (`bench.shrunken_workload`).
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from bench import shrunken_workload
from bench.lifecycle import to_stderr
from bench.workloads import (
    BOOT_SECONDS,
    DEPLOYMENTS,
    NODE_CLAIMS,
    PODS,
    WORKLOADS,
    Workload,
    WorkloadRun,
    deployment,
)
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

WORKLOAD: Final = next(one for one in WORKLOADS if one.name == "W2")
REMAINING: Final = 0.4
SEED: Final = 20261123
LIMIT: Final = 900.0
POLL: Final = 1.0
AT_REST: Final = 100.0
"""Seconds without a change after which the cluster is at rest: more than a sweep and a disruption."""
CHEAP_SHARE: Final = 88 / 153.5
"""The price at which evictions are compared, as a share of Karpenter's price before the deletion."""
KARPENTER: Final = "Karpenter: 81 nodes, $153.5/h; after 280 s 49 nodes, $90.1/h, 177 pods created anew"
CONSOLIDATING: Final[Object] = {
    "spec": {
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}],
        }
    }
}


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster at one time: seconds since the deletion, price in $/h of all instances that are not leaving, nodes,
    pods that were created since, and pods that do not run."""

    at: float
    price: float
    nodes: int
    recreated: int
    pending: int

    @property
    def state(self) -> tuple[float, int, int, int]:
        """Return what changes over time, without the time."""
        return self.price, self.nodes, self.recreated, self.pending


@dataclass(slots=True)
class Shrinking:
    """One run: the moments at which something changed."""

    moments: list[Moment] = field(default_factory=list)

    def until(self, price: float) -> Moment | None:
        """Return the first moment with at most this price; None if there is none."""
        return next((one for one in self.moments if one.price <= price + 1e-9), None)


def scaled(share: float) -> Workload:
    """Return the workload with this share of its pods."""
    sizes = (("w2-small", "900m", "3100Mi"), ("w2-large", "3500m", "28Gi"))
    number = round(500 * share)
    return replace(WORKLOAD, deployments=tuple(deployment(name, number, cpu, memory) for name, cpu, memory in sizes))


class ShrinkingRun:
    """A stack on which the workload runs and then shrinks."""

    def __init__(self, stack: LocalStack) -> None:
        self._deployed = DemoStack.of(stack)
        self._up = WorkloadRun(stack)

    def run(self, workload: Workload) -> Shrinking:
        """Run the workload, shrink it, and return the states of the cluster until it rests."""
        up = self._up.run(workload)
        to_stderr(f"{up.running} pods run on {up.nodes} nodes, ${up.price_per_hour:.2f}/h, after {up.seconds:.0f} s")
        known = {pod["metadata"]["uid"] for pod in self._deployed.kube.items(PODS)}
        before = len(known)
        started = time.monotonic()
        self._shrink(workload)
        found = Shrinking()
        while time.monotonic() - started < LIMIT:
            moment = self._moment(known, before, time.monotonic() - started)
            if not found.moments or moment.state != found.moments[-1].state:
                found.moments.append(moment)
                to_stderr(line(moment))
            elif moment.at - found.moments[-1].at > AT_REST:
                break
            time.sleep(POLL)
        return found

    def _shrink(self, workload: Workload) -> None:
        """Delete random pods: those with the lowest deletion cost are deleted first when the deployment shrinks."""
        kube, chance = self._deployed.kube, random.Random(SEED)  # noqa: S311 - the same pods each time
        low = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}}
        for one in workload.deployments:
            name, number = one["metadata"]["name"], one["spec"]["replicas"]
            pods = sorted(
                pod["metadata"]["name"] for pod in kube.items(PODS) if pod["metadata"]["labels"]["app"] == name
            )
            remaining = round(number * REMAINING)
            for pod in chance.sample(pods, number - remaining):
                kube.merge(f"{PODS}/{pod}", low)
            kube.merge(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": remaining}})
        kube.merge("/apis/karpenter.sh/v1/nodepools/bench", CONSOLIDATING)

    def _moment(self, known: set[str], before: int, at: float) -> Moment:
        """Return the cluster now; `known` has the pods that were ever seen, `before` of them before the deletion."""
        kube = self._deployed.kube
        pods = [pod for pod in kube.items(PODS) if "deletionTimestamp" not in pod["metadata"]]
        known |= {pod["metadata"]["uid"] for pod in pods}
        claims = [claim for claim in kube.items(NODE_CLAIMS) if not _is_terminating(claim)]
        return Moment(
            at,
            price=round(
                sum(float(one["metadata"]["annotations"].get("joiner.dev/price-per-hour", 0)) for one in claims), 4
            ),
            nodes=len(claims),
            recreated=len(known) - before,
            pending=sum(pod["status"].get("phase") != "Running" for pod in pods),
        )


def _is_terminating(claim: Object) -> bool:
    conditions = claim.get("status", {}).get("conditions", ())
    return any(one["type"] == "InstanceTerminating" and one["status"] == "True" for one in conditions)


def line(one: Moment) -> str:
    """Return one line of the report."""
    return (
        f"{one.at:6.0f} s  ${one.price:7.2f}/h  {one.nodes:3} nodes  {one.recreated:4} pods created anew"
        f"  {one.pending:3} pending"
    )


def show(found: Shrinking) -> None:
    """Print the report."""
    first, last = found.moments[0], found.moments[-1]
    cheap = found.until(CHEAP_SHARE * first.price)
    print(f"before                    {line(first)}")
    print(f"{CHEAP_SHARE:.0%} of the price          {line(cheap) if cheap else 'never'}")
    print(f"at rest                   {line(last)}")
    print(KARPENTER)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.consolidation_live", description="a large workload that shrinks, and what remains of it"
    )
    parser.add_argument("--share", type=float, default=1.0, help="the share of the pods; the default is 1.0")
    parser.add_argument("--offline", action="store_true", help="without a stack, for three random deletions")
    options = parser.parse_args(arguments)
    if options.offline:
        return shrunken_workload.main()
    with tempfile.TemporaryDirectory(prefix="joiner-bench-", ignore_cleanup_errors=True) as root:
        stack = LocalStack(Path(root), boot_seconds=BOOT_SECONDS, say=to_stderr)
        with stack:
            stack.deploy()
            found = ShrinkingRun(stack).run(scaled(options.share))
    show(found)
    return 0 if not found.moments[-1].pending else 1


if __name__ == "__main__":
    sys.exit(main())

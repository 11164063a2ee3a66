"""A large workload that shrinks, on a local stack: `python -m bench.consolidation_live`.

The workload W2 of `bench.workloads` (500 pods of 900m and 3100Mi, 500 of 3500m and 28Gi, types below 33 vCPUs) runs.
Then 300 random pods of each deployment are deleted, and the pool consolidates without a budget. The table shows the
price, the nodes and the pods that were created anew: each time the price has fallen by $2, when it is first at most
$88, and at rest. Karpenter's figures were recorded on the same control plane binaries. `--share` makes the workload
smaller, and the price with it. Compare times on a quiet machine only.

`--offline` needs no stack: the planner launches the nodes, and the waves of `joiner.disruption.consolidation` are
applied one after the other (`bench.shrunken_workload`).
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench import shrunken_workload
from bench.benchmark_stack import deployed_stack, to_stderr
from bench.shrinking_watch import Moment, ShrinkingWatch, first_at, steps_of_price
from bench.workloads import (
    BOOT_SECONDS,
    DEPLOYMENTS,
    PODS,
    WORKLOADS,
    Workload,
    WorkloadRun,
    deployment,
)
from joiner.adapters.disruption_items import LastProposal
from joiner.item_keys import LAST_PROPOSAL, PROPOSED
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

WORKLOAD: Final = next(one for one in WORKLOADS if one.name == "W2")
REMAINING: Final = 0.4
SEED: Final = 20261123
LIMIT: Final = 900.0
POLL: Final = 1.0
SETTLED: Final = 5.0
"""Seconds after a change before which a proposal may not have seen it."""
STEP: Final = 2.0
"""$/h between the lines of the report."""
CHEAP: Final = 88.0
"""$/h. The price at which evictions are compared."""
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


def scaled(share: float) -> Workload:
    """Return the workload with this share of its pods."""
    sizes = (("w2-small", "900m", "3100Mi"), ("w2-large", "3500m", "28Gi"))
    number = round(500 * share)
    return replace(WORKLOAD, deployments=tuple(deployment(name, number, cpu, memory) for name, cpu, memory in sizes))


class ShrinkingRun:
    """A stack on which the workload runs and then shrinks."""

    def __init__(self, stack: LocalStack) -> None:
        self._deployed = DemoStack.of(stack)
        self._table = stack.outputs()["TableName"]
        self._up = WorkloadRun(stack)

    def run(self, workload: Workload) -> list[Moment]:
        """Run the workload, shrink it, and return the states of the cluster until it rests."""
        up = self._up.run(workload)
        to_stderr(f"{up.running} pods run on {up.nodes} nodes, ${up.price_per_hour:.2f}/h, after {up.seconds:.0f} s")
        watch = ShrinkingWatch(self._deployed.kube)
        self._shrink(workload)
        told = ""
        while watch.seconds < LIMIT and not self._rests(watch):
            if watch.moments and (told != (told := line(watch.moments[-1]))):
                to_stderr(told)
            time.sleep(POLL)
        watch.close()
        return watch.moments

    def _rests(self, watch: ShrinkingWatch) -> bool:
        """Return whether nothing has changed since a proposal without an action, which was made after the last change.

        A time without a change is not enough: a sweep may have found the lease taken, or a second proposal that
        differed from the first, so that the next one follows minutes later."""
        if not watch.moments or watch.seconds - watch.moments[-1].at < SETTLED:
            return False
        key = {"kind": {"S": PROPOSED}, "id": {"S": LAST_PROPOSAL}}
        client = self._deployed.client("dynamodb")
        item = client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        made = LastProposal.of(item) if item else LastProposal()
        changed = time.time() - (watch.seconds - watch.moments[-1].at)
        return made.idle > 0 and made.at > changed + SETTLED

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


def line(one: Moment) -> str:
    """Return one line of the report."""
    return (
        f"{one.at:6.0f} s  ${one.price:7.2f}/h  {one.nodes:3} nodes  {one.recreated:4} pods created anew"
        f"  {one.pending:3} pending"
    )


def show(found: list[Moment], cheap: float) -> None:
    """Print the report; `cheap` is the price in $/h at which evictions are compared."""
    first, last = found[0], found[-1]
    then = first_at(found, cheap)
    print(f"before                    {line(first)}")
    for one in steps_of_price(found, STEP)[1:]:
        print(f"{'':26}{line(one)}")
    print(f"{f'at most ${cheap:g}/h':26}{line(then) if then else 'never'}")
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
    with deployed_stack(BOOT_SECONDS) as stack:
        found = ShrinkingRun(stack).run(scaled(options.share))
    show(found, CHEAP * options.share)
    return 0 if not found[-1].pending else 1


if __name__ == "__main__":
    sys.exit(main())

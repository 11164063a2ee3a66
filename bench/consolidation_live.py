"""A large workload that shrinks, on a local stack: `python -m bench.consolidation_live`.

The workload W2 of `bench.workloads` (500 pods of 900m and 3100Mi, 500 of 3500m and 28Gi, types below 33 vCPUs) runs.
Then 300 random pods of each deployment are deleted, and the pool consolidates without a budget. The report shows the
price, the nodes and the pods that were created anew: each time the price has fallen by $2, when it is first at most
$88, when it is first what it is at rest, and at the last change before the rest.

With `--karpenter`, Karpenter's KWOK program (`bench.karpenter_cluster`) does the same afterwards. Without it, the
report ends with figures that were recorded on another machine, whose times cannot be compared. `--share` makes the
workload smaller, and the price with it. Compare times on a quiet machine only.

`--offline` needs no stack: the planner launches the nodes, and the waves of `joiner.disruption.consolidation` are
applied one after the other (`bench.shrunken_workload`).
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench import shrunken_workload
from bench.applied_workloads import BOOT_SECONDS, Workload
from bench.benchmark_stack import deployed_stack, to_stderr
from bench.karpenter_program import karpenter_version
from bench.karpenter_runs import shrink_with_karpenter
from bench.random_deletion import SETTLED, line, scaled, watch_shrinking
from bench.shrinking_watch import Moment, ShrinkingWatch, first_at, steps_of_price
from bench.workloads import WorkloadRun
from joiner.adapters.disruption_items import LastProposal
from joiner.item_keys import LAST_PROPOSAL, PROPOSED
from joiner_local.demo.demonstration import DemoStack
from joiner_local.stack.stack_control import LocalStack

STEP: Final = 2.0
"""$/h between the lines of the report."""
CHEAP: Final = 88.0
"""$/h. The price at which evictions are compared."""
RECORDED: Final = "81 nodes, $153.5/h; after 280 s 49 nodes, $90.1/h, 177 pods created anew"


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
        return watch_shrinking(self._deployed.kube, workload, self._rests)

    def _rests(self, watch: ShrinkingWatch) -> bool:
        """Return whether nothing has changed since a proposal without an action, which was made after the last change.

        A time without a change is not enough: a sweep may have found the lease taken, or a second proposal that
        differed from the first, so that the next one follows minutes later."""
        key = {"kind": {"S": PROPOSED}, "id": {"S": LAST_PROPOSAL}}
        client = self._deployed.client("dynamodb")
        item = client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        made = LastProposal.of(item) if item else LastProposal()
        changed = time.time() - watch.quiet_seconds
        return made.idle > 0 and made.at > changed + SETTLED


def show(name: str, found: list[Moment], cheap: float) -> None:
    """Print the report of one autoscaler; `cheap` is the price in $/h at which evictions are compared."""
    first, last = found[0], found[-1]
    then = first_at(found, cheap)
    print(name)
    print(f"{'before':26}{line(first)}")
    for one in steps_of_price(found, STEP)[1:]:
        print(f"{'':26}{line(one)}")
    print(f"{f'at most ${cheap:g}/h':26}{line(then) if then else 'never'}")
    print(f"{'final price':26}{line(first_at(found, last.price) or last)}")
    print(f"{'last change':26}{line(last)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.consolidation_live", description="a large workload that shrinks, and what remains of it"
    )
    parser.add_argument("--share", type=float, default=1.0, help="the share of the pods; the default is 1.0")
    parser.add_argument("--offline", action="store_true", help="without a stack, for three random deletions")
    parser.add_argument("--karpenter", action="store_true", help="also with Karpenter, which is built if necessary")
    options = parser.parse_args(arguments)
    if options.offline:
        return shrunken_workload.main()
    workload, cheap = scaled(options.share), CHEAP * options.share
    with deployed_stack(BOOT_SECONDS) as stack:
        found = ShrinkingRun(stack).run(workload)
    show("Joiner", found, cheap)
    if options.karpenter:
        show(f"Karpenter {karpenter_version()}", shrink_with_karpenter(workload), cheap)
    else:
        print(f"Karpenter, recorded on another machine: {RECORDED}")
    return 0 if not found[-1].pending else 1


if __name__ == "__main__":
    sys.exit(main())

"""Scale-ups of 1, 10 and 100 nodes under EC2's token buckets: ``python -m bench.launch_bursts [--nodes N ...]``.

A separate local stack refuses requests to EC2 beyond the buckets of an account (``ec2/request-limits``). Each pod fills
a node. For each size, the table has the seconds from the end of the first plan to the last fleet request, the requests
to EC2 by action and how many of them were throttled, and what the scale-up costs in $ of AWS services, the registration
of its nodes included. Nodes of one size are removed before the next size.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.billed_use import Use
from bench.use_counter import Counter, counted_stack

NODE_COUNTS: Final = (1, 10, 100)
"""A thousand local nodes take more than eight minutes on two cores with other load."""
PLANNED: Final = "Plan capacity"
LIMIT: Final = 1800
"""Seconds until all pods run."""
KNOB: Final = "ec2/request-limits"


@dataclass(frozen=True, slots=True)
class Burst:
    """One scale-up: seconds from plan to the last fleet request, EC2's requests (served, throttled) by action, use."""

    nodes: int
    seconds: float
    requests: Mapping[str, tuple[int, int]]
    use: Use


def measure(counter: Counter, nodes: int) -> Burst:
    """Scale up to this number of nodes, with full buckets."""
    counter.stack.knob(KNOB, {"on": True})
    began = time.time()
    use = counter.of(lambda: counter.scale_up(nodes, limit=LIMIT))
    requests = counter.stack.knob(KNOB, {"on": False})["requests"]
    planned = first_plan(counter, began)
    counted = {name: (int(each["served"]), int(each["refused"])) for name, each in requests.items()}
    return Burst(nodes, requests["CreateFleet"]["last"] - planned, counted, use)


def first_plan(counter: Counter, began: float) -> float:
    """Return when the first plan of the executions since `began` was made (epoch seconds)."""
    client = counter.deployed.client("stepfunctions")
    found: list[float] = []
    pages = client.get_paginator("list_executions").paginate(stateMachineArn=counter.outputs["ScaleUpArn"])
    for execution in (each for page in pages for each in page["executions"]):
        if execution["startDate"].timestamp() < began:
            continue
        history = client.get_paginator("get_execution_history").paginate(executionArn=execution["executionArn"])
        found += [
            event["timestamp"].timestamp()
            for page in history
            for event in page["events"]
            if event["type"].endswith("StateExited") and event["stateExitedEventDetails"]["name"] == PLANNED
        ]
    return min(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.launch_bursts", description="scale-ups under EC2's token buckets"
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODE_COUNTS), help="sizes of scale-ups")
    options = parser.parse_args(arguments)
    with counted_stack() as counter:
        for count in (sizes := sorted(set(options.nodes))):
            show(measure(counter, count))
            if count != sizes[-1]:
                counter.scale_down()
    return 0


def show(burst: Burst) -> None:
    """Print one scale-up."""
    console = Console(width=None if sys.stdout.isatty() else 140, soft_wrap=not sys.stdout.isatty())
    console.print(
        f"{burst.nodes} nodes: last fleet request {burst.seconds:.1f} s after the first plan, ${burst.use.dollars:.4f}"
        f" ({burst.use.transitions:.0f} transitions, {burst.use.calls:.0f} invocations, {burst.use.writes:.0f} writes)"
    )
    table = Table("request to EC2", "served", "throttled", box=None, padding=(0, 2))
    for name, (served, refused) in burst.requests.items():
        table.add_row(name, str(served), str(refused))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())

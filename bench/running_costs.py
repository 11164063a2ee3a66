"""`python -m bench.running_costs`: the monthly cost of Joiner itself, counted on a separate local stack.

A deployment is scaled from zero to 1, 10, 100 nodes and back. State transitions, Lambda GB-seconds and requests to
each service are counted. The cost of a scale-up and of the removal of its nodes is interpolated linearly between
two counts, at the number of nodes that a scale-up of that cluster adds. It includes the pass of SCALE UP that sets
or removes the finalizer of the node class. Together with the sweep of every minute, the detection of drift of every
five minutes, which resolves all node classes, and the dry runs of the class every half hour, that gives a month of a
cluster at rest, and of a small, a medium and a large one.

Prices are those of us-east-1, arm64, without any free tier. Lambda times are those of this machine: a function of
256 MB has a seventh of a core on AWS, so computing times (not waiting times) are longer there. So are the seconds
of Express executions, which mostly wait until nodes may be removed and instances shut down: `EMPTY_SECONDS` is
short, and the local EC2 fast. A minute of it costs $0.00006.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final

from rich.console import Console
from rich.table import Table

from bench.billed_use import NO_USE, Use
from bench.use_counter import EMPTY_SECONDS, counted_stack
from joiner_local.demo.change_watch import until

SWEEPS_A_MONTH: Final = 43_800

DETECTIONS_A_MONTH: Final = SWEEPS_A_MONTH / 5
"""Sweeps that resolve the node classes and detect drift (`joiner.disruption.drift_schedule`)."""

VALIDATIONS_A_MONTH: Final = SWEEPS_A_MONTH / 30
"""Detections in which the launches of a node class are tried (`joiner.lifecycle.class_verdicts`)."""

WARM_UP_MINUTES: Final = 5
"""The default of `sweep.warmUpMinutes`."""

DAYS: Final = 30.4

DISRUPTIONS_AT_REST_A_DAY: Final = 24
"""Executions of DISRUPT while nothing changes (`joiner.disruption.survey_digest`)."""

DISRUPTIONS_A_SCALE_UP: Final = 2
"""Executions of DISRUPT after a scale-up: when its nodes have been left alone for a time, and when they are gone."""

MOST_DISRUPTIONS_A_DAY: Final = 288
"""One in five minutes: executions that find nothing become that rare."""

NODE_COUNTS: Final = (1, 10, 100)


@dataclass(frozen=True, slots=True)
class Month:
    """The activity of a cluster: scale-ups and nodes a day."""

    name: str
    scale_ups: int
    nodes: int
    goal: float


MONTHS: Final = (
    Month("at rest", 0, 0, 2.0),
    Month("small", 50, 60, 2.0),
    Month("medium", 500, 600, 15.0),
    Month("large", 2000, 5000, 75.0),
)


def between(size: float, counts: Sequence[int], uses: Sequence[Use]) -> Use:
    """Return what a scale-up of `size` nodes uses, by linear interpolation between the two counts around it, or
    extrapolation from the nearest two. `counts` ascend.

    >>> uses = [Use(transitions=12), Use(transitions=30), Use(transitions=210)]
    >>> [between(size, (1, 10, 100), uses).transitions for size in (1, 2.5, 10, 55)]
    [12.0, 15.0, 30.0, 120.0]
    """
    if len(counts) == 1:
        return uses[0] * (size / counts[0])
    around = [*pairwise(zip(counts, uses, strict=True))]
    (smaller, less), (larger, more) = next((pair for pair in around if size <= pair[1][0]), around[-1])
    part = (size - smaller) / (larger - smaller)
    return less * (1 - part) + more * part


@dataclass(frozen=True, slots=True)
class Recurring:
    """What recurs whatever the scale-ups: an idle sweep, what a detection of drift adds to one, what the dry runs of a
    node class add to that, a DISRUPT, and the invocations of a sweep that keep functions warm."""

    sweep: Use = NO_USE
    detection: Use = NO_USE
    validation: Use = NO_USE
    disruption: Use = NO_USE
    warm_up: Use = NO_USE


def month(one: Month, counts: Sequence[int], uses: Sequence[Use], recurring: Recurring) -> float:
    """Return the cost of a month in $: its scale-ups with the removal of their nodes (the sizes in `counts` cost
    `uses`), a sweep each minute, a detection each five minutes, dry runs each half hour, and a DISRUPT as often as
    nodes change.

    >>> one = Month("idle but for one node a day", scale_ups=1, nodes=1, goal=1.0)
    >>> round(month(one, (1, 10), [Use(transitions=50), Use(transitions=59)], Recurring()), 3)
    0.038
    >>> rest = Month("at rest", 0, 0, 2.0)
    >>> round(month(rest, (1,), [Use()], Recurring(disruption=Use(transitions=14))), 3)
    0.255
    >>> round(month(rest, (1,), [Use()], Recurring(detection=Use(calls=2))), 5)
    0.0035
    """
    scale_up = between(one.nodes / one.scale_ups, counts, uses) if one.scale_ups else Use()
    disruptions = min(MOST_DISRUPTIONS_A_DAY, DISRUPTIONS_AT_REST_A_DAY + DISRUPTIONS_A_SCALE_UP * one.scale_ups)
    daily = one.scale_ups * scale_up.dollars + disruptions * recurring.disruption.dollars
    sweeping = recurring.sweep.dollars + recurring.warm_up.dollars / WARM_UP_MINUTES
    detecting = DETECTIONS_A_MONTH * recurring.detection.dollars + VALIDATIONS_A_MONTH * recurring.validation.dollars
    return DAYS * daily + SWEEPS_A_MONTH * sweeping + detecting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.running_costs", description="what Joiner itself costs a month"
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODE_COUNTS), help="sizes of scale-ups to count")
    options = parser.parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 140)
    with counted_stack() as counter:
        counter.of(counter.warm_up)
        warm_up = counter.of(counter.warm_up)
        until(lambda: int(time.time() / 60) % WARM_UP_MINUTES, what="a minute without a warm-up", limit=70)
        sweep = counter.of(counter.sweep)
        ups, downs, recurring = [], [], Recurring(sweep, warm_up=warm_up)
        counts = sorted(set(options.nodes))
        for count in counts:
            up = counter.of(partial(counter.scale_up, count))
            time.sleep(EMPTY_SECONDS)
            settling, disruption = counter.settle(sweep)
            ups.append(up + settling)
            if not recurring.disruption.calls:
                counter.detect_drift()  # the verdict about the class is fresh then
                detection = counter.of(counter.detect_drift) + sweep * -1
                validation = counter.of(counter.validate_classes) + (sweep + detection) * -1
                recurring = Recurring(sweep, detection, validation, disruption, warm_up)
            swept = len(counter.sweeps())
            down = counter.of(counter.scale_down)
            ended = len(counter.sweeps())
            settling, _ = counter.settle(sweep)
            downs.append(down + settling + sweep * (swept - ended))  # these sweeps would have run in any case
    report(console, counts, [ups, downs], recurring)
    return 0


def report(console: Console, counts: Sequence[int], scaled: Sequence[Sequence[Use]], recurring: Recurring) -> None:
    """Print the counts, and the months; `scaled` are the uses of scaling up, and those of scaling down."""
    ups, downs = scaled
    rows = [
        ("one idle sweep", recurring.sweep),
        ("a detection of drift", recurring.detection),
        ("dry runs of a class", recurring.validation),
        ("one DISRUPT", recurring.disruption),
        ("one warm-up", recurring.warm_up),
    ]
    for count, up, down in zip(counts, ups, downs, strict=True):
        rows += [(f"{count} up", up), (f"{count} down", down)]
    columns = (
        "transitions",
        "Express",
        "s",
        "Lambda",
        "GB-s",
        "doorbell",
        "DynamoDB writes",
        "reads",
        "S3 writes",
        "reads",
        "$",
    )
    shown = Table("", *columns, title="counted", title_justify="left", box=None, padding=(0, 1))
    for name, use in rows:
        shown.add_row(name, *(f"{each:.1f}" for each in use.numbers()), f"{use.dollars:.6f}")
    console.print(shown)
    uses = [up + down for up, down in zip(ups, downs, strict=True)]
    heads = ("cluster", "scale-ups a day", "nodes a day", "$ a month", "goal")
    bill = Table(*heads, title="a month", title_justify="left", box=None, padding=(0, 2))
    for one in MONTHS:
        cost = month(one, counts, uses, recurring)
        bill.add_row(one.name, str(one.scale_ups), str(one.nodes), f"{cost:.2f}", f"<= {one.goal:.0f}")
    console.print(bill)


if __name__ == "__main__":
    sys.exit(main())

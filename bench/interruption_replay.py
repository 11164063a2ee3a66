"""Compare plans that weigh interruptions with cheapest-only plans: ``python -m bench.interruption_replay [--days N]``.

No public record of interruptions by type and zone exists, so the history is **synthetic**: drawn once from a seed, and
the same for both kinds of plans. Each offering has a chance of an interruption in each hour: one in seven is short of
capacity (5 to 25 % an hour), the others are calm (0.02 to 0.2 %). Chances do not depend on prices. Recorded spot prices
do not exist either; they are those of ``bench.spot_alternatives``.

Each case is planned anew every day with what its own nodes experienced so far; all its nodes run for the day, and EC2
launches exactly the planned offering. The cost of a day is the price of the nodes, and for each interruption the lost
hours of the node at its on-demand price.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bench.cases import CLASSES, RecordedCase, add_case_arguments, read_catalogue, select_cases
from bench.spot_alternatives import open_to_spot, with_spot
from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.interruption_history import (
    DAY,
    Interruptions,
    SpotHours,
    SpotPlace,
    interruption_rates,
    price_interruptions,
)
from joiner.planning import Plan
from joiner.planning.effort import Effort
from joiner.planning.planner import plan

SEED: Final = 20261124
SHORT_SHARE: Final = 1 / 7
SHORT: Final = (0.05, 0.25)
CALM: Final = (0.0002, 0.002)
LOST_HOURS: Final = (0.5, 2.0)
"""The default of the setting, and the loss of batch jobs that save seldom."""
HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class History:
    """The chance of an interruption of a node in an hour, by type and zone, and the seed of what happens."""

    chances: dict[SpotPlace, float]
    seed: int

    @classmethod
    def drawn(cls, catalogue: Catalogue, seed: int) -> "History":
        """Draw the chances of all spot offerings."""
        rng = random.Random(seed)  # noqa: S311 - a benchmark that must give the same numbers again
        chances = {}
        for name, known in sorted(catalogue.types.items()):
            for one in known.offerings:
                if one.capacity_type == names.SPOT:
                    low, high = SHORT if rng.random() < SHORT_SHARE else CALM
                    chances[name, one.zone] = rng.uniform(low, high)
        return cls(chances, seed)

    def warnings(self, place: SpotPlace, nodes: int, day: int) -> int:
        """Return how many of the nodes are interrupted on a day; a replacement may be interrupted, too. Node and hour
        decide, so the first nodes of an offering have the same fate in every plan."""
        rng = random.Random(f"{self.seed}/{place}/{day}")  # noqa: S311 - as above
        return sum(rng.random() < self.chances[place] for _ in range(nodes * HOURS))


@dataclass(slots=True)
class Account:
    """What one way of planning has cost, in $: the bill, and the work that interruptions lost."""

    billed: float = 0.0
    lost: float = 0.0
    interrupted: int = 0
    hours: SpotHours = field(default_factory=SpotHours)
    warned: tuple[Interruptions, ...] = ()

    @property
    def total(self) -> float:
        """Return the sum of both."""
        return self.billed + self.lost

    def run(self, made: Plan, catalogue: Catalogue, history: History, day: int, lost_hours: float) -> None:
        """Let the nodes of a plan run for a day."""
        self.billed += sum(node.price_parts["instance"] for node in made.nodes) * HOURS
        nodes = Counter((one.instance_type, one.zone) for one in made.nodes if one.capacity_type == names.SPOT)
        for place, number in nodes.items():
            count = history.warnings(place, number, day)
            self.interrupted += count
            self.lost += count * lost_hours * (catalogue.price(*place, names.ON_DEMAND) or 0.0)
            self.warned += (Interruptions(*place, day * DAY, count),) if count else ()
        for hour in range(1, HOURS + 1):
            self.hours = self.hours.note(nodes, day * DAY + hour * 3600)


def replay(case: RecordedCase, catalogue: Catalogue, history: History, days: int, lost_hours: float) -> list[Account]:
    """Return what cheapest-only plans and plans that weigh interruptions cost over the days."""
    snapshot = open_to_spot(case.snapshot())
    accounts = []
    for weighed in (0.0, lost_hours):
        account = Account(hours=SpotHours(at=DAY))
        for day in range(1, days + 1):
            rates = interruption_rates(account.warned, account.hours, day * DAY)
            known = replace(
                catalogue,
                types={one.name: one for one in price_interruptions(catalogue.types.values(), rates, weighed)},
            )
            made = plan(snapshot, known, classes=CLASSES, effort=Effort(steps=60))
            account.run(made, catalogue, history, day, lost_hours)
        accounts.append(account)
    return accounts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code: 1 if weighing interruptions costs more than it saves."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.interruption_replay", description=(__doc__ or "").splitlines()[0]
    )
    add_case_arguments(parser, most_pods=300)
    parser.set_defaults(only="-100-s1")
    parser.add_argument("--days", type=int, default=14)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args(arguments)
    cases, catalogue = select_cases(options), with_spot(read_catalogue(options.cases))
    history = History.drawn(catalogue, options.seed)
    worse = False
    print(f"synthetic history, seed {options.seed}: {len(cases)} cases, {options.days} days")
    for lost_hours in LOST_HOURS:
        totals = [Account(), Account()]
        for case in cases:
            for total, one in zip(totals, replay(case, catalogue, history, options.days, lost_hours), strict=True):
                total.billed += one.billed
                total.lost += one.lost
                total.interrupted += one.interrupted
        for label, one in zip(("cheapest only", "weighed"), totals, strict=True):
            print(
                f"{lost_hours:>4} h lost  {label:<14} ${one.total:>10,.0f} = ${one.billed:,.0f} billed "
                f"+ ${one.lost:,.0f} of lost work in {one.interrupted:,} interruptions"
            )
        print(f"{lost_hours:>4} h lost  saving         {1 - totals[1].total / totals[0].total:>10.1%}", file=sys.stdout)
        worse = worse or totals[1].total >= totals[0].total
    return int(worse)


if __name__ == "__main__":
    raise SystemExit(main())

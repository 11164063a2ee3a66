"""Many empty nodes under a budget, over time: the rules of the sweep on a modelled clock.

A sweep starts the next one while a retirement makes place for more nodes. The clock has the time of each function and
the pauses of the state machines. The states themselves are in `tests/infra/test_sweep_executed.py`.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf

import pytest

from infra.sweep_limits import NEXT_SWEEP_SECONDS
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.checks.empty_claims import EMPTY, count_waiting_claims
from joiner.pools import Disruption, DisruptionBudget, NodeClaim, NodeClassRef, NodePool
from tests.unit.lifecycle.joining_nodes import NOON, claim, node

AGO = NOON - timedelta(hours=1)
POOL = NodePool(
    "default",
    NodeClassRef("EC2NodeClass", "default"),
    disruption=Disruption("WhenEmpty", 30, (DisruptionBudget("10%"),)),
)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def initialized(name: str) -> NodeClaim:
    made = claim(name, provider_id=f"aws:///us-east-1a/i-{name}", created=AGO).with_condition(
        "Launched", "True", at=AGO
    )
    return made.as_registered(f"node-{name}", at=AGO).as_initialized(at=AGO)


@dataclass(frozen=True)
class Seconds:
    """How long each part takes. The defaults are generous for warm functions and hundreds of nodes."""

    listing: float = 0.2
    """From the start of a sweep to its list of the claims."""
    sweep: float = 1.7
    """*Survey cluster* and *Survey instances*, one after the other."""
    start: float = 0.3
    """From the start of an execution to its first function."""
    beginning: float = 1.2
    """*Take the lease* and *Begin under the lease*: the claims have a deletion timestamp then."""
    terminating: float = 1.2
    """*Evict pods* and *Terminate instances*: the claims have the condition `InstanceTerminating` then."""


@dataclass
class EmptyingCluster:
    """Empty nodes, and when each of them was requested, began to leave, and was terminated."""

    nodes: int
    seconds: Seconds
    requested: dict[str, float] = field(default_factory=dict)
    most_leaving: int = 0

    def __post_init__(self) -> None:
        self.claims = {name: initialized(name) for name in (f"n{number:03d}" for number in range(self.nodes))}
        self.its_node = {
            name: node(f"node-{name}", provider_id=one.provider_id, taints=[]) for name, one in self.claims.items()
        }

    def begun_at(self, name: str) -> float:
        return self.requested.get(name, inf) + self.seconds.start + self.seconds.beginning

    def terminated_at(self, name: str) -> float:
        return self.begun_at(name) + self.seconds.terminating

    def claim(self, name: str, now: float) -> NodeClaim:
        begun = self.begun_at(name)
        return self.claims[name] if now < begun else replace(self.claims[name], deletion=after(begun))

    def survey(self, now: float) -> ClusterSurvey:
        there = [name for name in self.claims if now < self.terminated_at(name)]
        return ClusterSurvey(
            now=after(now),
            claims=tuple(self.claim(name, now) for name in there),
            pods=(),
            pools=(POOL,),
            nodes=tuple(self.its_node[name] for name in there),
            empty_since=dict.fromkeys(there, int(AGO.timestamp())),
            requested_until={name: int(after(when + 60).timestamp()) for name, when in self.requested.items()},
        )

    def sweep(self, start: float) -> bool:
        """Run one sweep; return whether it starts the next one."""
        seen = self.survey(start + self.seconds.listing)
        going = {due.claim.name for due in EMPTY.find(seen)}
        self.requested |= dict.fromkeys(going, start + self.seconds.sweep)
        self.most_leaving = max(self.most_leaving, len(set(self.requested) & {one.name for one in seen.claims}))
        return count_waiting_claims(seen, going) > 0


@pytest.mark.parametrize(("nodes", "within"), [(100, 180), (584, 300)])
def test_empty_nodes_leave_under_the_default_budget_within_minutes_without_a_scheduled_sweep(
    nodes: int, within: int
) -> None:
    seconds = Seconds()
    cluster, now = EmptyingCluster(nodes, seconds), 0.0

    while cluster.sweep(now):
        now += seconds.sweep + seconds.start + NEXT_SWEEP_SECONDS

    assert set(cluster.requested) == set(cluster.claims), "the last sweep of the series leaves no node to the schedule"
    assert max(map(cluster.terminated_at, cluster.claims)) <= within
    assert cluster.most_leaving <= nodes / 10 + 1

"""The clocks of functions, of EC2 and of the API server differ: nothing is launched twice, kept for ever or removed
early.

Two clocks of AWS differ by less than a second, those of nodes by more; the tests use up to half a minute between
functions, and an hour between services.
"""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.names import TERMINATION_FINALIZER
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import NOON, pending

SKEW = 30.0
SEEDS = range(4)
HOUR = timedelta(hours=1)
PODS = (pending("web-1"), pending("web-2"), pending("db-1", cpu="3"))
WHEN_EMPTY = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m", "budgets": [{"nodes": "100%"}]}


class SkewedCluster(SimulatedCluster):
    """Each reading of the clock is up to half a minute early or late."""

    chance = random.Random(0)  # noqa: S311 - a course of events
    true: datetime = NOON

    @property
    def now(self) -> datetime:
        return self.true + timedelta(seconds=self.chance.uniform(-SKEW, SKEW))

    @now.setter
    def now(self, at: datetime) -> None:
        self.true = at

    def pass_time(self, seconds: float) -> None:
        self.true += timedelta(seconds=seconds)


@pytest.fixture(params=SEEDS)
def skewed(make_cluster: MakeCluster, request: pytest.FixtureRequest) -> Iterator[SkewedCluster]:
    made = make_cluster()
    cluster = SkewedCluster(made.ledger, made.store, made.kube, machine=made.machine)
    cluster.chance = random.Random(request.param)  # noqa: S311 - a course of events
    cluster.true = NOON
    cluster.prepare(*PODS)
    yield cluster


def sweeps(cluster: SkewedCluster, count: int) -> list[tuple[str, str]]:
    """Run sweeps a minute apart; return claim and reason of the retirements that they ask for."""
    found = []
    for number in range(count):
        cluster.pass_time(60)
        answer = cluster.sweep(f"up-sweep-{number}")
        found += [(each["claim"], each["reason"]) for each in answer["retire"]]
    return found


def test_a_scale_up_whose_functions_read_different_clocks_launches_each_node_once(skewed: SkewedCluster) -> None:
    assert skewed.scale_up("up-1")
    launched = set(skewed.ec2.instances)

    assert sweeps(skewed, 3) == []

    nothing_is_left(skewed)
    assert set(skewed.ec2.instances) == launched != set()


@pytest.mark.parametrize("state", ["record_node_claims", "launch_instances", "record_launches"])
def test_an_execution_that_stops_under_different_clocks_is_completed_once(skewed: SkewedCluster, state: str) -> None:
    skewed.stop_after = state
    assert not skewed.scale_up("up-1")
    launched = set(skewed.ec2.instances)
    skewed.stop_after = ""

    assert sweeps(skewed, 4) == []

    nothing_is_left(skewed)
    assert launched <= set(skewed.ec2.instances)
    assert len(skewed.ec2.instances) == len(list_claims(skewed.kube).claims)


def test_an_empty_node_is_asked_for_after_its_time_whatever_the_clocks_show(skewed: SkewedCluster) -> None:
    skewed.kube.patch(kinds.NODEPOOLS, "default", {"spec": {"disruption": WHEN_EMPTY}})
    skewed.scale_up("up-1")
    skewed.true += HOUR
    assert sweeps(skewed, 1) == []
    claim = list_claims(skewed.kube).claims[0]
    for pod in skewed.kube.all(kinds.PODS):
        if pod["spec"].get("nodeName") == claim.node_name:
            del skewed.kube.objects["pods", "default", pod["metadata"]["name"]]

    assert sweeps(skewed, 8) == [], "the first sweep sees the node empty: ten minutes are left, and seven pass"

    asked = sweeps(skewed, 5)

    assert asked
    assert set(asked) == {(claim.name, "empty")}


@pytest.mark.parametrize("ahead", [HOUR, -HOUR], ids=["ec2 is an hour ahead", "ec2 is an hour behind"])
def test_launch_times_of_another_clock_do_not_retire_nodes(cluster: SimulatedCluster, ahead: timedelta) -> None:
    """The fake EC2 says that every instance was launched at noon."""
    cluster.now = NOON - ahead
    cluster.prepare(*PODS)
    cluster.scale_up("up-1")

    for number in range(3):
        cluster.now += timedelta(seconds=60)
        assert cluster.sweep(f"up-sweep-{number}")["retire"] == []
    nothing_is_left(cluster)


def test_a_lease_that_ends_an_hour_from_now_does_not_outlive_its_holder(cluster: SimulatedCluster) -> None:
    """Its holder read a clock that is an hour ahead, and died."""
    cluster.prepare(*PODS)
    cluster.now = NOON + HOUR
    cluster.stop_after = "plan_capacity"
    assert not cluster.scale_up("up-1")
    assert cluster.ledger.lease().until > (NOON + HOUR).timestamp()
    cluster.stop_after = ""
    cluster.now = NOON

    for number in range(2):
        cluster.now += timedelta(seconds=60)
        cluster.sweep(f"up-sweep-{number}")

    nothing_is_left(cluster)


def test_pods_and_nodes_of_the_future_are_served_like_others(cluster: SimulatedCluster) -> None:
    """Created and rejected by the scheduler an hour from now, by the clock of the API server."""
    later = f"{NOON + HOUR:%Y-%m-%dT%H:%M:%SZ}"
    pods = [dict(pod) for pod in PODS]
    for pod in pods:
        pod["metadata"] = {**pod["metadata"], "creationTimestamp": later}
        conditions = [{**one, "lastTransitionTime": later} for one in pod["status"]["conditions"]]
        pod["status"] = {**pod["status"], "conditions": conditions}
    cluster.prepare(*pods)

    assert cluster.scale_up("up-1")
    for number in range(2):
        cluster.now += timedelta(seconds=60)
        assert cluster.sweep(f"up-sweep-{number}")["retire"] == []

    nothing_is_left(cluster)


def test_a_retirement_under_different_clocks_ends_with_its_node(skewed: SkewedCluster) -> None:
    skewed.scale_up("up-1")
    sweeps(skewed, 1)
    (claim, *_) = list_claims(skewed.kube).claims
    skewed.kube.delete(kinds.NODECLAIMS, claim.name)
    assert TERMINATION_FINALIZER in claim_finalizers(skewed, claim.name)

    retire(skewed, (claim.name, "deleted"))

    assert claim.name not in {one.name for one in list_claims(skewed.kube).claims}
    assert skewed.ec2.instances[claim.instance_id]["State"]["Name"] in ("shutting-down", "terminated")


def claim_finalizers(cluster: SimulatedCluster, name: str) -> list[str]:
    return list(cluster.kube.get(kinds.NODECLAIMS, name)["metadata"]["finalizers"])

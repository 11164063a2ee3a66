"""Scale-ups of 1 to 1,000 nodes: the calls of their launches by kind, and their time under EC2's token buckets.

The calls are those of the real function against a fake EC2. Their times are simulated: the invocations of the state
machine, a few seconds for a CreateFleet, and one bucket for all requests that change something, with 50 requests and 5
more a second (EC2 user guide, "Request throttling"), although EC2 may have one for each action. Tags are left out: they
follow the fleets of the last invocation.
"""

import heapq
import itertools
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from functions.launch_instances import handler as launch_instances
from functions.record_node_claims.handler import GROUPS_AT_ONCE
from infra.launch_limits import CONCURRENT_INVOCATIONS, GROUPS_OF_CONCURRENT_INVOCATIONS, GROUPS_OF_ONE_INVOCATION
from joiner.adapters import documents
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import RESERVE, UNBOUNDED, WORKERS, TimeLeft
from joiner.adapters.payload import Execution, Task
from joiner.cluster import Resources
from joiner.launching import Launch, LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.pools import NodeClaimTemplate, NodeClass, NodeClassRef, NodePool, build_node_claim
from tests.unit.functions.fake_ec2 import FakeEc2Client, lost, refused
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CATALOGUE, CLASS, CLUSTER, NOON

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="pool-1")
SECONDS: Final = {"CreateFleet": 3.0}  # of one call; others take a fifth of a second
CAPACITY, REFILL = 50.0, 5.0  # requests, and requests a second
RESULT_BYTES: Final = 262_144
"""Limit of the input or result of a state."""


@dataclass
class CountedTable:
    """A client of DynamoDB that notes its calls."""

    client: Any
    asked: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            self.asked.append(name)
            return getattr(self.client, name)(**asked)

        return call


def planned_launches(nodes: int) -> tuple[Launch, ...]:
    offers = (LaunchOffering(0.096, "m5.large", "us-east-1a"), LaunchOffering(0.192, "m5.xlarge", "us-east-1a"))
    wanted = [
        ClaimToLaunch(
            build_node_claim(
                POOL,
                NodeClaimTemplate(requests=Resources.of(cpu=1)),
                suffix=f"{number:04}",
                lease=1,
                execution="up-1",
            ),
            POOL,
            NodeClass("default", uid="class-1"),
            CLASS,
            "on-demand",
            offers,
        )
        for number in range(nodes)
    ]
    launches, refused = group_launches(wanted, CATALOGUE, CLUSTER, execution="up-1")
    assert refused == ()
    return launches


def send_all(cluster: SimulatedCluster, nodes: int) -> tuple[list[list[str]], Counter[str], list[dict[str, Any]]]:
    """Return the calls of EC2 by launch, the calls of DynamoDB by kind, and the answers of the function."""
    launches = planned_launches(nodes)
    lease = cluster._take_lease("up-1")
    assert lease is not None
    task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, 1)
    key = documents.put_launches(cluster.store, task, launches)
    table = CountedTable(cluster.ledger._client)
    launcher = launch_instances.Launcher(
        Ledger(table, cluster.ledger._table), cluster.store, Ec2(cluster.ec2), cluster.pause
    )
    calls, answers = [], []
    for index in range(len(launches)):
        cluster.ec2.asked.clear()
        answers.append(launcher.answer(task, key, index, NOON, 2**33))
        calls.append(list(cluster.ec2.asked))
    return calls, Counter(table.asked), answers


def split_into_invocations(calls: list[list[str]]) -> list[list[list[str]]]:
    """Return the calls of the groups of each invocation, as the state machine splits them, without those for tags."""
    size = GROUPS_OF_ONE_INVOCATION if len(calls) <= GROUPS_OF_ONE_INVOCATION else GROUPS_OF_CONCURRENT_INVOCATIONS
    untagged = [[call for call in group if call != "CreateTags"] for group in calls]
    return [untagged[first : first + size] for first in range(0, len(untagged), size)]


def last_fleet_request(calls: list[list[str]]) -> float:
    """Return the second in which the last CreateFleet is sent. An invocation launches its groups together and ends with
    the slowest; then the next one begins."""
    invocations = split_into_invocations(calls)
    unfinished = [len(groups) for groups in invocations]
    waiting = list(range(len(invocations)))
    running: list[tuple[float, int, int, list[str]]] = []

    def begin(at: float) -> None:
        if waiting:
            one = waiting.pop(0)
            for group in invocations[one]:
                heapq.heappush(running, (at, next(numbers), one, group))

    numbers = itertools.count()
    for _ in range(CONCURRENT_INVOCATIONS):
        begin(0.0)
    tokens, at, last = CAPACITY, 0.0, 0.0
    while running:
        now, number, one, group = heapq.heappop(running)
        tokens, at = min(CAPACITY, tokens + (now - at) * REFILL), now
        if not group:
            unfinished[one] -= 1
            if not unfinished[one]:
                begin(now)
        elif tokens < 1:
            heapq.heappush(running, (now + 1.0, number, one, group))
        else:
            call = group.pop(0)
            tokens -= call != "DescribeLaunchTemplateVersions"
            last = now if call == "CreateFleet" else last
            heapq.heappush(running, (now + SECONDS.get(call, 0.2), number, one, group))
    return last


@pytest.mark.parametrize(("nodes", "fleets"), [(1, 1), (10, 1), (100, 2)])
def test_calls_grow_with_launches_and_not_with_nodes_but_for_their_tags(
    cluster: SimulatedCluster, nodes: int, fleets: int
) -> None:
    calls, table, answers = send_all(cluster, nodes)

    print(f"{nodes} nodes: {dict(count(calls))}, DynamoDB {dict(table)}")
    assert count(calls) == expected_calls(nodes, fleets)
    assert set(table.values()) <= {fleets, 2 * fleets}
    assert sum(each["launched"] for each in answers) == nodes


@pytest.mark.long("calls of a hundred nodes")
def test_a_thousand_nodes_are_asked_for_in_less_than_a_minute(cluster: SimulatedCluster) -> None:
    calls, table, answers = send_all(cluster, 1000)

    print(f"1000 nodes: {dict(count(calls))}, DynamoDB {dict(table)}")
    assert count(calls) == expected_calls(1000, 20)
    assert set(table.values()) <= {20, 40}
    assert sum(each["launched"] for each in answers) == 1000
    half = last_fleet_request(calls[:10])
    whole = last_fleet_request(calls)
    print(f"last CreateFleet of 500 nodes after {half:.1f} s, of 1,000 after {whole:.1f} s")
    assert half <= 20
    assert whole <= 60
    # With half of each limit to spare
    assert len(answers) < GROUPS_AT_ONCE / 2
    assert len(json.dumps(answers)) < RESULT_BYTES / 2


def count(calls: list[list[str]]) -> Counter[str]:
    return Counter(call for launch in calls for call in launch)


def expected_calls(nodes: int, fleets: int) -> dict[str, int]:
    tags = {"CreateTags": nodes} if nodes > 1 else {}  # the request names a single instance
    compared = {"DescribeLaunchTemplateVersions": fleets - 1} if fleets > 1 else {}
    return {"CreateFleet": fleets, "CreateLaunchTemplate": fleets, **compared, **tags}


@pytest.mark.parametrize("nodes", [1, 3])
def test_each_launched_instance_is_logged_whoever_names_it(cluster: SimulatedCluster, nodes: int) -> None:
    logged: list[str] = []
    listener = logging.Handler(logging.INFO)
    listener.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(launch_instances.logger.name)
    logger.addHandler(listener)
    try:
        send_all(cluster, nodes)
    finally:
        logger.removeHandler(listener)

    assert [line for line in logged if line.startswith("launched ")] == [
        "launched m5.large in us-east-1a, on-demand"
    ] * nodes


def test_groups_of_one_invocation_are_launched_once_and_found_by_the_next_try(cluster: SimulatedCluster) -> None:
    lease = cluster._take_lease("up-1")
    assert lease is not None
    task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, 1)
    launches = planned_launches(100)
    key = documents.put_launches(cluster.store, task, launches)
    launcher = launch_instances.Launcher(cluster.ledger, cluster.store, Ec2(cluster.ec2), cluster.pause)
    indexes = range(len(launches))

    first, again = (launcher.answer_all(task, key, indexes, NOON, 2**33) for _ in range(2))

    assert first == {"launched": 100, "short": 0, "failed": 0, "notLaunched": 0, "errors": []}
    assert again == first
    assert Counter(cluster.ec2.asked)["CreateFleet"] == len(launches) == 2
    assert len(cluster.ec2.instances) == 100


def test_no_fleet_waits_for_the_names_of_instances(cluster: SimulatedCluster) -> None:
    lease = cluster._take_lease("up-1")
    assert lease is not None
    task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, 1)
    launches = planned_launches(250)
    key = documents.put_launches(cluster.store, task, launches)
    launcher = launch_instances.Launcher(cluster.ledger, cluster.store, Ec2(cluster.ec2), cluster.pause)
    launcher.answer_all(task, key, range(len(launches)), NOON, 2**33)
    last = max(number for number, call in enumerate(cluster.ec2.asked) if call == "CreateFleet")

    assert len(launches) == 5
    assert set(cluster.ec2.asked[last + 1 :]) == {"CreateTags"}
    assert cluster.ec2.asked.count("CreateTags") == launch_instances.NAMED_BY_LAUNCHES


@pytest.mark.parametrize(
    ("error", "left", "calls"),
    [
        (lost("CreateTags"), UNBOUNDED, range(1, WORKERS + 1)),
        (refused("CreateTags", "RequestLimitExceeded"), UNBOUNDED, range(1, WORKERS + 1)),
        (refused("CreateTags", "InvalidInstanceID.NotFound"), UNBOUNDED, [100]),
        (None, TimeLeft(lambda: RESERVE - 1), [0]),
    ],
    ids=["no answer", "throttled", "not known yet", "no time"],
)
def test_names_are_left_to_the_sweep_when_ec2_is_busy_or_no_time_is_left(
    cluster: SimulatedCluster, error: Exception | None, left: TimeLeft, calls: Sequence[int]
) -> None:
    lease = cluster._take_lease("up-1")
    assert lease is not None
    task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, 1)
    key = documents.put_launches(cluster.store, task, planned_launches(100))
    tagging = FakeEc2Client(instances=cluster.ec2.instances)

    def fail(_operation: str, do: Any) -> Any:
        if error is not None:
            raise error
        return do()

    tagging.fault = fail
    launcher = launch_instances.Launcher(
        cluster.ledger, cluster.store, Ec2(cluster.ec2), cluster.pause, tagging=lambda: Ec2(tagging), time_left=left
    )

    assert launcher.answer_all(task, key, range(2), NOON, 2**33)["launched"] == 100
    assert tagging.asked.count("CreateTags") in calls
    assert "CreateTags" not in cluster.ec2.asked


def test_later_groups_do_not_wait_for_the_names_of_earlier_ones(cluster: SimulatedCluster) -> None:
    lease = cluster._take_lease("up-1")
    assert lease is not None
    task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, 1)
    key = documents.put_launches(cluster.store, task, planned_launches(150))
    first, second = (
        launch_instances.Launcher(cluster.ledger, cluster.store, Ec2(cluster.ec2), cluster.pause) for _ in range(2)
    )

    first.answer_all(task, key, range(2), NOON, 2**33, last=False)
    earlier = Counter(cluster.ec2.asked)
    second.answer_all(task, key, range(2, 3), NOON, 2**33, last=True)

    assert (earlier["CreateFleet"], earlier["CreateTags"]) == (2, 0)
    assert len(cluster.ec2.instances) == 150
    assert cluster.ec2.asked.count("CreateTags") == 50

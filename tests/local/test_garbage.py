"""Garbage collection against the local EC2 and DynamoDB: one instance that may not be terminated stops no other."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.collect_garbage import handler as collect_garbage
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ledger import Ledger
from joiner.adapters.pause import Pause
from joiner.names import CLUSTER_NAME_TAG, LAUNCH, NODEPOOL, cluster_tag
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws
from tests.pairings import recorded_pairings

pytestmark = pytest.mark.local

CLUSTER = "garbage"
ALIVE = ("pending", "running")
UNKNOWN = "i-00000000000000000"


class Yard:
    """Instances with this cluster's tags, and a table with their claims."""

    def __init__(self, aws: RunningAws, network: Network) -> None:
        self.aws, self.client = aws, aws.client("ec2")
        self.pad = LaunchPad.build(self.client, aws.client("ssm"), network, aws.fresh("template"))
        self.cluster, self.table = aws.fresh(CLUSTER), aws.table("memory")
        self.table_client = aws.client("dynamodb")
        self.ledger = Ledger(self.table_client, self.table)
        self.ec2 = Ec2(self.client)
        self.made: list[str] = []

    def launch(self, count: int, zone: str = "a", without: str = "") -> list[str]:
        """Launch instances with all our tags but one, each with a claim in the ledger."""
        ids = self.pad.launch(self.pad.override(zone=zone), count)
        tags = {cluster_tag(self.cluster): "owned", CLUSTER_NAME_TAG: self.cluster, NODEPOOL: "default", LAUNCH: "l-1"}
        self.client.create_tags(
            Resources=ids, Tags=[{"Key": key, "Value": value} for key, value in tags.items() if key != without]
        )
        for instance in ids:
            self.ledger.pair(instance, f"claim-of-{instance}", "l-1")
        self.made += ids
        return ids

    def protect(self, instance: str, *, on: bool = True) -> None:
        self.client.modify_instance_attribute(InstanceId=instance, DisableApiTermination={"Value": on})

    def collect(self, ids: list[str], ledger: Ledger | None = None) -> dict[str, Any]:
        pause = Pause(self.aws.client("ssm"), self.cluster)
        answer: dict[str, Any] = collect_garbage.GarbageCollection(ledger or self.ledger, self.ec2, pause).answer(
            self.cluster, ids
        )
        return answer

    def alive(self) -> set[str]:
        return {each for each in self.made if self.pad.state(each) in ALIVE}

    def known(self) -> set[str]:
        return {pairing.instance for pairing in recorded_pairings(self.table_client, self.table)}


@pytest.fixture(scope="module")
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, CLUSTER)


@pytest.fixture
def yard(local_aws: RunningAws, network: Network) -> Iterator[Yard]:
    made = Yard(local_aws, network)
    yield made
    for instance in made.made:
        made.protect(instance, on=False)
    made.ec2.terminate(made.made)


def test_one_protected_instance_among_garbage_stops_no_other(yard: Yard) -> None:
    protected, *others = yard.launch(4)
    yard.protect(protected)

    answer = yard.collect([protected, *others])

    assert answer["terminated"] == sorted(others)
    assert (answer["refused"], answer["left"]) == (1, 1)
    (reason,) = answer["reasons"]
    assert reason.startswith(f"instance {protected}: OperationNotPermitted: ")
    assert yard.alive() == {protected}


def test_an_instance_is_forgotten_only_once_its_end_was_accepted(yard: Yard) -> None:
    protected, *others = yard.launch(3)
    yard.protect(protected)
    yard.collect([protected, *others])
    assert yard.known() == {protected}

    yard.protect(protected, on=False)
    answer = yard.collect([protected])

    assert (answer["terminated"], answer["refused"]) == ([protected], 0)
    assert yard.known() == set()


def test_an_item_that_cannot_be_deleted_stops_no_other(yard: Yard) -> None:
    first, second, third = sorted(yard.launch(3))

    class Refusing(Ledger):
        def forget_instance(self, instance: str) -> None:
            if instance == second:
                raise ClientError(
                    {"Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow down"}}, "DeleteItem"
                )
            super().forget_instance(instance)

    answer = yard.collect([first, second, third], Refusing(yard.aws.client("dynamodb"), yard.table))

    assert answer["terminated"] == [first, second, third]
    assert yard.known() == {second}


@pytest.mark.parametrize("lost", ["the cluster's ownership", CLUSTER_NAME_TAG, NODEPOOL])
def test_an_instance_that_lacks_one_of_the_three_tags_of_iam_is_no_garbage(yard: Yard, lost: str) -> None:
    (stranger,) = yard.launch(1, without=cluster_tag(yard.cluster) if lost == "the cluster's ownership" else lost)
    (ours,) = yard.launch(1)

    answer = yard.collect([stranger, ours])

    assert (answer["terminated"], answer["refused"], answer["left"]) == ([ours], 0, 1)
    assert stranger in yard.alive()


def test_an_instance_that_lost_a_tag_is_still_counted_before_joiner_is_removed(yard: Yard) -> None:
    (lost,) = yard.launch(1, without=NODEPOOL)

    assert [each.id for each in yard.ec2.instances_of_cluster(yard.cluster)] == []
    assert [each.id for each in yard.ec2.instances_left_of_cluster(yard.cluster)] == [lost]


def test_a_refused_call_has_a_result_for_each_instance(yard: Yard) -> None:
    one, two, protected = yard.launch(3)
    yard.protect(protected)

    done = yard.ec2.terminate([one, UNKNOWN, protected, two])

    assert done.ended == tuple(sorted([one, two]))
    assert done.absent == (UNKNOWN,)
    assert {instance: reason.code for instance, reason in done.refused.items()} == {protected: "OperationNotPermitted"}


def test_a_protected_instance_keeps_those_of_its_zone_and_no_other_in_one_call(yard: Yard) -> None:
    protected, beside = yard.launch(2)
    (elsewhere,) = yard.launch(1, zone="b")
    yard.protect(protected)

    with pytest.raises(ClientError, match="OperationNotPermitted"):
        yard.client.terminate_instances(InstanceIds=[protected, beside, elsewhere])
    assert yard.alive() == {protected, beside}


class Script:
    """An EC2 client that answers TerminateInstances by a rule, for refusals that a healthy account does not show."""

    def __init__(self, refuse: Callable[[list[str]], str | None]) -> None:
        self.asked: list[list[str]] = []
        self._refuse = refuse

    def terminate_instances(self, *, InstanceIds: list[str]) -> dict[str, Any]:
        self.asked.append(InstanceIds)
        if code := self._refuse(InstanceIds):
            status = 503 if code == "Unavailable" else 400
            answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
            raise ClientError(answer, "TerminateInstances")
        return {}


def test_a_throttled_call_is_not_sent_again_and_nothing_more_is_sent() -> None:
    ids = [f"i-{number:04d}" for number in range(1200)]
    script = Script(lambda asked: "RequestLimitExceeded" if "i-0500" in asked else None)

    done = Ec2(script).terminate(ids)

    assert (list(done.ended), set(done.refused), done.absent) == (ids[:500], set(ids[500:]), ())
    assert all(reason.throttled for reason in done.refused.values())
    assert len(script.asked) == 2


def test_a_call_without_an_answer_is_not_sent_again_and_the_next_one_is() -> None:
    ids = [f"i-{number:04d}" for number in range(1000)]
    script = Script(lambda asked: "Unavailable" if "i-0000" in asked else None)

    done = Ec2(script).terminate(ids)

    assert (set(done.refused), list(done.ended)) == (set(ids[:500]), ids[500:])
    assert len(script.asked) == 2


def test_one_refused_instance_among_many_costs_few_calls() -> None:
    ids = [f"i-{number:04d}" for number in range(250)]
    script = Script(lambda asked: "UnauthorizedOperation" if "i-0123" in asked else None)

    done = Ec2(script).terminate(ids)

    assert {instance: reason.code for instance, reason in done.refused.items()} == {"i-0123": "UnauthorizedOperation"}
    assert list(done.ended) == [each for each in ids if each != "i-0123"]
    assert len(script.asked) <= 17

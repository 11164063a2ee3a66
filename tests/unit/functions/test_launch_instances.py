"""One launch, with any earlier attempts, and however many of its instances EC2 shows: each claim gets one instance, and
each refusal is reported.
"""

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from functions.launch_instances import handler as launch_instances
from joiner.adapters import documents, environment
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Throttled, NoAnswer
from joiner.adapters.payload import Execution, Task
from joiner.cluster import Resources
from joiner.launching import Launch, LaunchOffering, LaunchOutcome
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.pools import NodeClaimTemplate, NodeClass, NodeClassRef, NodePool, build_node_claim
from joiner.pools.resolved_node_class import PlacementGroup
from tests.unit.functions.fake_ec2 import FakeEc2Client, lost, refused
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CATALOGUE, CLASS, CLUSTER, NOON, pending

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="pool-1")
NODE_CLASS = NodeClass("default", uid="class-1")


class LaunchOfTwoClaims:
    """A held lease, and the launch of two equal claims."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        lease = cluster._take_lease("up-1")
        assert lease is not None
        self.task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, 1)
        claims = [
            build_node_claim(
                POOL, NodeClaimTemplate(requests=Resources.of(cpu=1)), suffix=suffix, lease=lease, execution="up-1"
            )
            for suffix in ("a", "b")
        ]
        offers = (LaunchOffering(0.096, "m5.large", "us-east-1a"),)
        wanted = [ClaimToLaunch(claim, POOL, NODE_CLASS, CLASS, "on-demand", offers) for claim in claims]
        (self.launch,), _ = group_launches(wanted, CATALOGUE, CLUSTER, execution="up-1")
        self.key = documents.put_launches(cluster.store, self.task, [self.launch])

    def send(self) -> dict[str, Any]:
        launcher = launch_instances.Launcher(
            self.cluster.ledger, self.cluster.store, Ec2(self.cluster.ec2), self.cluster.pause
        )
        answer: dict[str, Any] = launcher.answer(self.task, self.key, 0, NOON, 2**33)
        return answer

    def outcome(self) -> LaunchOutcome:
        record = self.cluster.ledger.launch(self.launch.id)
        assert record is not None
        assert record.closed
        return LaunchOutcome.from_json(record.outcome)

    def lose_the_answer(self) -> None:
        """Send the request; EC2 launches, and the response is lost."""

        def fault(name: str, do: Any) -> Any:
            answer = do()
            if name == "CreateFleet":
                raise lost(name)
            return answer

        self.cluster.ec2.fault = fault
        with pytest.raises(NoAnswer):
            self.send()
        self.cluster.ec2.fault = None

    def refuse(self, operation: str, error: Exception) -> None:
        def fault(name: str, do: Any) -> Any:
            if name == operation:
                raise error
            return do()

        self.cluster.ec2.fault = fault


@pytest.fixture
def pad(cluster: SimulatedCluster) -> LaunchOfTwoClaims:
    return LaunchOfTwoClaims(cluster)


def show_only(ec2: FakeEc2Client, *shown: str) -> None:
    """Make DescribeInstances, which is eventually consistent, return these instances only."""

    def fault(name: str, do: Any) -> Any:
        if name != "DescribeInstances":
            return do()
        (reservation,) = do()["Reservations"]
        return {
            "Reservations": [{"Instances": [each for each in reservation["Instances"] if each["InstanceId"] in shown]}]
        }

    ec2.fault = fault


def paired(launch: Launch, outcome: LaunchOutcome) -> dict[str, str]:
    assert sorted([*(one.claim for one in outcome.launched), *outcome.unmet]) == sorted(launch.claims)
    return {one.claim: one.instance_id for one in outcome.launched}


@pytest.mark.parametrize("shown", [(), ("i-0000",), ("i-0001",), ("i-0000", "i-0001")], ids=len)
def test_a_lost_answer_is_found_however_few_of_its_instances_are_shown(
    pad: LaunchOfTwoClaims, shown: tuple[str, ...]
) -> None:
    pad.lose_the_answer()
    show_only(pad.cluster.ec2, *shown)

    assert pad.send()["launched"] == 2
    assert paired(pad.launch, pad.outcome()) == {"default-a": "i-0000", "default-b": "i-0001"}
    assert len(pad.cluster.ec2.instances) == 2


def test_an_instance_that_was_paired_before_keeps_its_claim(pad: LaunchOfTwoClaims) -> None:
    pad.lose_the_answer()
    pad.cluster.ledger.pair("i-0001", "default-a", pad.launch.id)

    assert pad.send()["launched"] == 2
    assert paired(pad.launch, pad.outcome()) == {"default-a": "i-0001", "default-b": "i-0000"}


def test_instances_whose_names_ec2_throttles_are_launched_all_the_same(pad: LaunchOfTwoClaims) -> None:
    pad.refuse("CreateTags", refused("CreateTags", "RequestLimitExceeded"))

    assert pad.send()["launched"] == 2
    assert (pad.outcome().codes, pad.outcome().throttled) == ((), False)
    assert paired(pad.launch, pad.outcome()) == {"default-a": "i-0000", "default-b": "i-0001"}


def test_a_throttle_shows_nothing_of_what_an_earlier_send_launched(pad: LaunchOfTwoClaims) -> None:
    pad.lose_the_answer()
    pad.refuse("CreateFleet", refused("CreateFleet", "RequestLimitExceeded", status=503))
    pad.cluster.ec2.instances, there = {}, pad.cluster.ec2.instances
    with pytest.raises(Ec2Throttled):
        pad.send()

    pad.cluster.ec2.instances, pad.cluster.ec2.fault = there, None
    assert pad.send()["launched"] == 2


@pytest.mark.parametrize("operation", ["CreateLaunchTemplate", "CreateFleet"])
def test_whatever_ec2_refuses_closes_the_launch_with_its_reason(pad: LaunchOfTwoClaims, operation: str) -> None:
    pad.refuse(operation, refused(operation, "UnauthorizedOperation", "not so"))

    assert pad.send() == {
        "launch": pad.launch.id,
        "launched": 0,
        "short": 0,
        "failed": 2,
        "errors": ["UnauthorizedOperation"],
    }
    assert [failure.reason for failure in pad.outcome().failed] == ["Unauthorized"]


def test_a_request_that_boto3_does_not_send_is_refused_and_not_lost(pad: LaunchOfTwoClaims) -> None:
    pad.refuse("CreateFleet", ParamValidationError(report="Unknown parameter in input: Colour"))

    assert pad.send()["errors"] == ["InvalidRequest"]
    assert "Colour" in pad.outcome().failed[0].message


def test_a_template_without_an_answer_leaves_the_launch_open(pad: LaunchOfTwoClaims) -> None:
    pad.refuse("CreateLaunchTemplate", lost("CreateLaunchTemplate"))
    with pytest.raises(NoAnswer):
        pad.send()

    pad.cluster.ec2.fault = None
    assert pad.send()["launched"] == 2
    assert pad.cluster.ec2.asked.count("CreateFleet") == 1


def test_the_fleet_is_asked_once_and_patiently(pad: LaunchOfTwoClaims) -> None:
    config = environment.fleet_client().meta.config
    assert (config.read_timeout, config.retries["total_max_attempts"]) == (40, 1)

    fleets = FakeEc2Client(templates=pad.cluster.ec2.templates, instances=pad.cluster.ec2.instances)
    launch_instances.Launcher(
        pad.cluster.ledger, pad.cluster.store, Ec2(pad.cluster.ec2, fleets), pad.cluster.pause
    ).answer(pad.task, pad.key, 0, NOON, 2**33)
    assert fleets.asked == ["CreateFleet"]
    assert "CreateFleet" not in pad.cluster.ec2.asked


def test_a_node_in_a_placement_group_has_its_label_from_its_claim(cluster: SimulatedCluster) -> None:
    cluster.node_class = replace(cluster.node_class, placement_group=PlacementGroup("pg-1", "together", "spread"))
    cluster.prepare(pending("web-1"))

    cluster.scale_up("up-1")

    (claim,), (node,) = cluster.kube.all(kinds.NODECLAIMS), cluster.kube.all(kinds.NODES)
    labels = [each["metadata"]["labels"].get("karpenter.k8s.aws/placement-group-id") for each in (claim, node)]
    assert labels == ["pg-1", "pg-1"]


def marks(cluster: SimulatedCluster) -> set[str]:
    return {each.offering.id for each in cluster.ledger.unavailable(int(cluster.now.timestamp()))}


def test_a_lack_of_capacity_in_a_placement_group_is_no_shortage_for_other_pools(cluster: SimulatedCluster) -> None:
    cluster.node_class = replace(cluster.node_class, placement_group=PlacementGroup("pg-1", "together", "spread"))
    cluster.ec2.short.add(("m5.large", "us-east-1a"))
    cluster.prepare(pending("web-1"))

    cluster.scale_up("up-1")

    assert marks(cluster) == {"on-demand#m5.large#us-east-1a@pg-1"}
    (claim,) = cluster.kube.all(kinds.NODECLAIMS)  # planned again, where the group has capacity
    labels = claim["metadata"]["labels"]
    assert (labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"]) != (
        "m5.large",
        "us-east-1a",
    )


def test_a_lack_of_capacity_outside_of_placement_groups_is_one_of_all_pools(cluster: SimulatedCluster) -> None:
    cluster.ec2.short.add(("m5.large", "us-east-1a"))
    cluster.prepare(pending("web-1"))

    cluster.scale_up("up-1")

    assert marks(cluster) == {"on-demand#m5.large#us-east-1a"}

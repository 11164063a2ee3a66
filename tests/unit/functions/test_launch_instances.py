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
from tests.unit.functions.fake_dynamodb import MOST_OF_AN_ITEM
from tests.unit.functions.fake_ec2 import FakeEc2Client, lost, refused
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CATALOGUE, CLASS, CLUSTER, NOON, pending

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="pool-1")
NODE_CLASS = NodeClass("default", uid="class-1")
ENCODED = "Encoded authorization failure message: "


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


def refuse_each_offering(name: str, do: Any) -> Any:
    """Answer CreateFleet as EC2 does if a policy denies RunInstances: an error, with its own message, for each of the
    300 offerings that a request may have.
    """
    if name != "CreateFleet":
        return do()
    denied = "You are not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:subnet/"
    errors = [
        {"ErrorCode": "UnauthorizedOperation", "ErrorMessage": f"{denied}{number:03}. {ENCODED}{number:03}{'x' * 1500}"}
        for number in range(300)
    ]
    return {"Instances": [], "Errors": errors}


def test_a_launch_with_300_refusals_is_closed_and_the_log_has_the_first_as_ec2_gave_it(
    pad: LaunchOfTwoClaims, caplog: pytest.LogCaptureFixture
) -> None:
    pad.cluster.ec2.fault = refuse_each_offering

    answer = pad.send()

    assert (answer["failed"], answer["errors"]) == (2, ["UnauthorizedOperation"])
    (failure,) = pad.outcome().failed
    assert failure.message == (
        "You are not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:subnet/000"
    )
    whole = [reason for each in caplog.records if ENCODED in (reason := str(getattr(each, "reason", "")))]
    assert [reason.partition(ENCODED)[2] for reason in whole] == [f"000{'x' * 1500}"]


def test_an_outcome_that_does_not_fit_beside_the_launch_templates_replaces_their_content(
    pad: LaunchOfTwoClaims,
) -> None:
    def with_user_data(text: str) -> Launch:
        (template,) = pad.launch.templates
        return replace(pad.launch, templates=(replace(template, data={**template.data, "UserData": text}),))

    empty = documents.record_of(with_user_data(""), lease_number=1, execution=arn("up-1"))
    room = MOST_OF_AN_ITEM - len(empty.request) - len(empty.details) - 500  # for the other attributes
    launch = with_user_data("x" * room)
    pad.key = documents.put_launches(pad.cluster.store, pad.task, [launch])
    pad.refuse("CreateFleet", refused("CreateFleet", "UnauthorizedOperation", "not so. " * 60))

    assert pad.send()["failed"] == 2

    assert [(each.reason, each.message) for each in pad.outcome().failed] == [("Unauthorized", "")]
    record = pad.cluster.ledger.launch(launch.id)
    assert record is not None
    assert documents.launch_of(record) == replace(launch, templates=())


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

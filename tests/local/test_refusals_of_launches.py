"""What EC2 refuses of a launch beyond the schema of its calls, and that the local EC2 refuses the same: one row, one
test.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.launch_fixtures import launched
from tests.local.network_interface_refusals import INTERFACE_ROWS
from tests.local.refused_launches import TAG, Bench, LaunchRefusal, fleet, tagged
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local
NO_SPOT_REQUESTS: Final = (
    "You cannot specify tags for Spot instances requests if there are no Spot instances requests being created by "
    "the request."
)
NO_INTERFACES: Final = (
    "You cannot specify tags for network interfaces if there are no network interfaces being created by the request."
)
NO_SPOT_ROLE: Final = (
    "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances."
)
KARPENTER: Final = (
    "Karpenter adds the specification to templates of spot launches only; terraform-aws-github-runner#4561"
)
QUOTAS: Final = "EC2 user guide, EC2 Fleet quotas"
CONSISTENCY: Final = "EC2 developer guide, eventual consistency"


def without_spot_role(bench: Bench) -> Any:
    bench.aws.knob("spot-role", exists=False)
    return fleet(spot=True)(bench)


def many_templates(bench: Bench) -> Any:
    pad = bench.pad()
    config = {
        "LaunchTemplateSpecification": {"LaunchTemplateName": pad.template, "Version": "1"},
        "Overrides": [pad.override()],
    }
    capacity = {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"}
    return bench.ec2.create_fleet(
        Type="instant", LaunchTemplateConfigs=[config] * 51, TargetCapacitySpecification=capacity
    )


def two_subnets_of_a_zone(bench: Bench) -> Any:
    pad, zone = bench.pad(), "us-east-1a"
    first = bench.ec2.describe_subnets(SubnetIds=[bench.network.subnets[zone]])["Subnets"][0]
    vpc = {"VpcId": first["VpcId"], "AvailabilityZone": zone}
    bench.ec2.associate_vpc_cidr_block(VpcId=first["VpcId"], CidrBlock="100.64.0.0/24")
    other = bench.ec2.create_subnet(**vpc, CidrBlock="100.64.0.0/28")["Subnet"]["SubnetId"]
    return pad.fleet([pad.override(), pad.override(SubnetId=other)])


def interface_of_its_own(bench: Bench) -> Any:
    subnet = next(iter(bench.network.subnets.values()))
    made = bench.ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]
    nic = {"DeviceIndex": 0, "NetworkInterfaceId": made}
    return fleet(
        {"NetworkInterfaces": [nic], "SecurityGroupIds": [], "TagSpecifications": tagged("network-interface")}
    )(bench)


def in_group(strategy: str, instance_type: str = "m5.large", count: int = 1) -> Callable[[Bench], Any]:
    def call(bench: Bench) -> Any:
        name = bench.aws.fresh("group")
        bench.ec2.create_placement_group(GroupName=name, Strategy=strategy)
        pad = bench.pad(Placement={"GroupName": name})
        for zone in ("a", "b") if strategy == "cluster" else ("a",) * count:
            answer = pad.fleet([pad.override(instance_type, zone)])
        return answer

    return call


def nested(bench: Bench) -> Any:
    return fleet({"CpuOptions": {"NestedVirtualization": "enabled"}})(bench)


PLACEMENT_SOURCE: Final = "EC2 user guide, Placement groups for your Amazon EC2 instances"
UNMODELLED: Final = "the local EC2 keeps or refuses every field of a launch"
ROWS: Final = (
    *INTERFACE_ROWS,
    *(
        LaunchRefusal(
            f"{path} of a launch template",
            fleet(template),
            "UnsupportedOperation",
            f"the local EC2 has no {path} of launch templates",
            UNMODELLED,
        )
        for path, template in (
            ("EnclaveOptions", {"EnclaveOptions": {"Enabled": True}}),
            ("InstanceInitiatedShutdownBehavior", {"InstanceInitiatedShutdownBehavior": "terminate"}),
            ("InstanceMarketOptions.SpotOptions", {"InstanceMarketOptions": {"SpotOptions": {"MaxPrice": "1"}}}),
        )
    ),
    LaunchRefusal(
        "another tenancy",
        fleet({"Placement": {"Tenancy": "host"}}),
        "UnsupportedOperation",
        "the local EC2 has only the tenancies default and dedicated",
        UNMODELLED,
        pool=True,
    ),
    LaunchRefusal(
        "other CPU options",
        fleet({"CpuOptions": {"CoreCount": 1, "ThreadsPerCore": 1}}),
        "UnsupportedOperation",
        "the local EC2 has no CpuOptions CoreCount, ThreadsPerCore",
        UNMODELLED,
        pool=True,
    ),
    LaunchRefusal(
        "a fleet that ends",
        fleet(TerminateInstancesWithExpiration=True),
        "UnsupportedOperation",
        "the local EC2 has no TerminateInstancesWithExpiration of CreateFleet",
        UNMODELLED,
    ),
    LaunchRefusal(
        "CPU options of RunInstances",
        lambda bench: bench.ec2.run_instances(
            ImageId=bench.pad().image(),
            InstanceType="m5.large",
            MinCount=1,
            MaxCount=1,
            CpuOptions={"CoreCount": 1, "ThreadsPerCore": 1},
        ),
        "UnsupportedOperation",
        "the local EC2 has no CpuOptions of RunInstances",
        UNMODELLED,
    ),
    LaunchRefusal(
        "a placement group that does not exist",
        fleet({"Placement": {"GroupName": "nobody-made-it"}}),
        "InvalidPlacementGroup.Unknown",
        "The Placement Group 'nobody-made-it' is unknown.",
        PLACEMENT_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "a cluster placement group in a second zone",
        in_group("cluster"),
        "InvalidParameterValue",
        "The placement group '",
        PLACEMENT_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "a type that cannot be in a cluster placement group",
        in_group("cluster", "t3.large"),
        "InvalidParameterCombination",
        "cluster placement groups may not be used with instances of type 't3.large'.",
        PLACEMENT_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "an eighth instance of a spread placement group in a zone",
        in_group("spread", count=8),
        "InsufficientInstanceCapacity",
        "The maximum number of instances (7) in the spread placement group '",
        PLACEMENT_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "nested virtualization on a type without it",
        nested,
        "InvalidParameterCombination",
        "The instance type m5.large does not support nested virtualization.",
        "EC2 user guide, Nested virtualization",
        pool=True,
    ),
    LaunchRefusal(
        "tags for Spot requests in the template of an on-demand launch",
        fleet({"TagSpecifications": tagged("network-interface", "spot-instances-request")}),
        "InvalidParameterCombination",
        NO_SPOT_REQUESTS,
        KARPENTER,
        pool=True,
    ),
    LaunchRefusal(
        "tags for network interfaces where none is made",
        interface_of_its_own,
        "InvalidParameterCombination",
        NO_INTERFACES,
        "EC2 API reference, RunInstances",
        pool=True,
    ),
    LaunchRefusal(
        "tags for a fleet in a launch template's data",
        fleet({"TagSpecifications": tagged("fleet")}),
        "InvalidParameterValue",
        "'fleet' is not a valid taggable resource type for this operation.",
        "EC2 API reference, LaunchTemplateTagSpecificationRequest",
        pool=True,
    ),
    *(
        LaunchRefusal(
            f"tags for {kind} in CreateFleet",
            fleet(spot=True, TagSpecifications=tagged(kind)),
            "InvalidParameterValue",
            f"'{kind}' is not a valid taggable resource type for this operation.",
            "karpenter-provider-aws#4550: CreateFleet does not tag requests for spot or interfaces",
        )
        for kind in ("spot-instances-request", "network-interface")
    ),
    LaunchRefusal(
        "a spot launch in an account without the service-linked role",
        without_spot_role,
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        NO_SPOT_ROLE,
        "EC2 user guide, service-linked role for Spot Instances",
        pool=True,
    ),
    LaunchRefusal(
        "301 overrides",
        fleet(overrides=301),
        "InvalidParameterValue",
        "The number of overrides (301) exceeds the maximum of 300 for one fleet.",
        QUOTAS,
    ),
    LaunchRefusal(
        "two subnets of a zone",
        two_subnets_of_a_zone,
        "InvalidFleetConfig",
        "The fleet configuration contains duplicate instance pools.",
        "aws-plugin-for-slurm#19, terraform-aws-github-runner#5297",
    ),
    LaunchRefusal(
        "51 launch templates",
        many_templates,
        "InvalidParameterValue",
        "The number of launch templates (51) exceeds the maximum of 50 for one fleet.",
        QUOTAS,
    ),
    *(
        LaunchRefusal(
            f"{what} of an instance a moment after its launch",
            call,
            "InvalidInstanceID.NotFound",
            "The instance ID",
            CONSISTENCY,
        )
        for what, call in (
            ("CreateTags", lambda bench: bench.ec2.create_tags(Resources=[bench.hidden()], Tags=TAG)),
            ("DescribeInstances", lambda bench: bench.ec2.describe_instances(InstanceIds=[bench.hidden()])),
            ("TerminateInstances", lambda bench: bench.ec2.terminate_instances(InstanceIds=[bench.hidden()])),
        )
    ),
)


@pytest.fixture(scope="module")
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, "refusals-of-launches")


@pytest.fixture
def bench(local_aws: RunningAws, network: Network) -> Iterator[Bench]:
    yield Bench(local_aws, network)
    local_aws.knob("visibility", seconds=0)
    local_aws.knob("spot-role", exists=True)
    local_aws.knob("early-terminations", clear=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_the_local_ec2_refuses(bench: Bench, row: LaunchRefusal) -> None:
    if row.pool:
        answer = row.call(bench)
        assert launched(answer) == []
        found = [(error["ErrorCode"], error["ErrorMessage"]) for error in answer["Errors"]]
    else:
        with pytest.raises(ClientError) as refused:
            row.call(bench)
        error = refused.value.response["Error"]
        found = [(error["Code"], error["Message"])]

    assert [(code, message.startswith(row.message)) for code, message in found] == [(row.code, True)], found


@pytest.mark.parametrize("spot", [True, False], ids=["spot", "on-demand"])
def test_what_a_launch_creates_may_be_tagged(bench: Bench, spot: bool) -> None:
    kinds = ("network-interface", "spot-instances-request") if spot else ("network-interface",)

    answer = fleet(
        {"TagSpecifications": tagged(*kinds)}, spot=spot, TagSpecifications=tagged("fleet", "instance", "volume")
    )(bench)

    assert (len(launched(answer)), answer["Errors"]) == (1, [])


def test_the_spot_role_that_a_person_creates_lets_spot_launch_again(bench: Bench) -> None:
    assert without_spot_role(bench)["Errors"]

    bench.aws.client("iam").create_service_linked_role(AWSServiceName="spot.amazonaws.com")

    assert len(launched(fleet(spot=True)(bench))) == 1


def test_a_new_instance_is_shown_after_a_while(bench: Bench) -> None:
    bench.aws.knob("visibility", seconds=3)
    pad = bench.pad()
    (instance,) = launched(pad.fleet([pad.override()]))
    named = [{"Name": "instance-id", "Values": [instance]}]
    assert bench.ec2.describe_instances(Filters=named)["Reservations"] == []

    eventually(lambda: bench.ec2.describe_instances(Filters=named)["Reservations"])
    bench.ec2.create_tags(Resources=[instance], Tags=TAG)
    assert pad.state(instance) in ("pending", "running")


def test_an_instance_can_end_at_its_launch_and_has_the_reason(bench: Bench) -> None:
    bench.aws.knob(
        "early-terminations", instanceType="m5.large", code="Client.VolumeLimitExceeded", afterSeconds=0.1, count=1
    )
    pad = bench.pad()
    dying, living = launched(pad.fleet([pad.override()], 2))

    eventually(lambda: pad.state(dying) == "terminated")
    assert pad.instance(dying)["StateReason"] == {
        "Code": "Client.VolumeLimitExceeded",
        "Message": "Client.VolumeLimitExceeded: Volume limit exceeded",
    }
    assert pad.state(living) == "running"


def test_a_knob_of_early_terminations_without_a_request_shows_the_rules_and_adds_none(local_aws: RunningAws) -> None:
    before = local_aws.knob("early-terminations", clear=True)
    bare = local_aws.knob("early-terminations")
    added = local_aws.knob("early-terminations", instanceType="m5.large", count=2)
    with pytest.raises(Exception, match="count is 0: give a number from 1 on"):
        local_aws.knob("early-terminations", count=0)
    shown = local_aws.knob("early-terminations")
    local_aws.knob("early-terminations", clear=True)

    rule = {"instanceType": "m5.large", "code": "Client.InternalError", "afterSeconds": 0.5, "count": 2}
    assert (before, bare, added, shown) == ({"rules": []}, {"rules": []}, {"rules": [rule]}, {"rules": [rule]})

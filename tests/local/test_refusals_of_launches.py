"""What EC2 refuses of a launch beyond the schema of its calls, and that the local EC2 refuses the same: one row, one
test.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.launch_pad import LaunchPad, launched
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

TAG: Final = [{"Key": "a", "Value": "1"}]
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


class Bench:
    """An account with a network, and calls that EC2 refuses."""

    def __init__(self, aws: RunningAws, network: Network) -> None:
        self.aws, self.network = aws, network
        self.ec2 = aws.client("ec2")

    def pad(self, **data: Any) -> LaunchPad:
        return LaunchPad.build(self.ec2, self.aws.client("ssm"), self.network, self.aws.fresh("template"), **data)

    def hidden(self) -> str:
        """Return an instance that was launched a moment ago."""
        self.aws.knob("visibility", seconds=60)
        pad = self.pad()
        return launched(pad.fleet([pad.override()]))[0]


def tagged(*kinds: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": TAG} for kind in kinds]


@dataclass(frozen=True, slots=True)
class LaunchRefusal:
    """A call that AWS refuses. `pool`: AWS refuses this pool of the fleet only, in the response's `Errors`."""

    what: str
    call: Callable[[Bench], Any]
    code: str
    message: str
    source: str
    pool: bool = False


def fleet(
    template: dict[str, Any] | None = None, *, spot: bool = False, overrides: int = 1, **more: Any
) -> Callable[[Bench], Any]:
    def call(bench: Bench) -> Any:
        pad = bench.pad(**(template or {}))
        return pad.fleet([pad.override() for _ in range(overrides)], spot=spot, **more)

    return call


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


def interface_of_its_own(bench: Bench) -> Any:
    subnet = next(iter(bench.network.subnets.values()))
    made = bench.ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]
    nic = {"DeviceIndex": 0, "NetworkInterfaceId": made}
    return fleet(
        {"NetworkInterfaces": [nic], "SecurityGroupIds": [], "TagSpecifications": tagged("network-interface")}
    )(bench)


def six_groups(bench: Bench) -> Any:
    vpc = bench.ec2.describe_security_groups(GroupIds=[bench.network.security_group])["SecurityGroups"][0]["VpcId"]
    made = [
        bench.ec2.create_security_group(VpcId=vpc, GroupName=bench.aws.fresh("group"), Description="of a test")
        for _ in range(6)
    ]
    return fleet({"SecurityGroupIds": [each["GroupId"] for each in made]})(bench)


def interfaces(*given: dict[str, Any], instance_type: str = "m5.large") -> Callable[[Bench], Any]:
    def call(bench: Bench) -> Any:
        pad = bench.pad(NetworkInterfaces=list(given), SecurityGroupIds=[])
        return pad.fleet([pad.override(instance_type)])

    return call


def nic(card: int = 0, device: int = 0, kind: str = "interface", **more: Any) -> dict[str, Any]:
    return {"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": kind, **more}


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


INTERFACE_SOURCE: Final = "EC2 user guide, Multiple network interfaces for your Amazon EC2 instances"

PLACEMENT_SOURCE: Final = "EC2 user guide, Placement groups for your Amazon EC2 instances"

UNMODELLED: Final = "the local EC2 keeps or refuses every field of a launch"

ROWS: Final = (
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
        fleet({"Placement": {"Tenancy": "dedicated"}}),
        "UnsupportedOperation",
        "the local EC2 has only the tenancy default",
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
        "a public address of a launch with two interfaces",
        interfaces(nic(AssociatePublicIpAddress=False), nic(device=1)),
        "InvalidParameterCombination",
        "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        "EC2 API reference, InstanceNetworkInterfaceSpecification",
        pool=True,
    ),
    LaunchRefusal(
        "security groups of the launch beside interfaces",
        fleet({"NetworkInterfaces": [nic()]}),
        "InvalidParameterCombination",
        "Network interfaces and an instance-level security groups may not be specified on the same request",
        "EC2 API reference, RunInstances",
        pool=True,
    ),
    LaunchRefusal(
        "interfaces without a primary one",
        interfaces(nic(device=1)),
        "InvalidParameterValue",
        "A primary network interface with network card 0 and device 0 must be specified.",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "two interfaces in one place",
        interfaces(nic(), nic()),
        "InvalidParameterValue",
        "Each network interface requires a unique device index.",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "an interface on a card that the type lacks",
        interfaces(nic(), nic(card=1, device=1)),
        "InvalidParameterValue",
        "The network card index 1 is not valid for m5.large.",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "more interfaces than a card has",
        interfaces(*(nic(device=device) for device in range(4))),
        "AttachmentLimitExceeded",
        "Interface count 4 exceeds the limit for m5.large, network card 0",
        INTERFACE_SOURCE,
        pool=True,
    ),
    LaunchRefusal(
        "EFA on a type without it",
        interfaces(nic(kind="efa")),
        "InvalidParameterCombination",
        "Interface type efa is not supported on network card 0 of m5.large.",
        "EC2 user guide, Elastic Fabric Adapter",
        pool=True,
    ),
    LaunchRefusal(
        "addresses of an interface for EFA only",
        interfaces(nic(), nic(device=1, kind="efa-only", Ipv4PrefixCount=1), instance_type="p4d.24xlarge"),
        "InvalidParameterCombination",
        "IP addresses cannot be specified for network interfaces of type efa-only.",
        "EC2 user guide, Elastic Fabric Adapter",
        pool=True,
    ),
    LaunchRefusal(
        "more prefixes than an interface takes",
        interfaces(nic(Ipv4PrefixCount=10)),
        "PrivateIpAddressLimitExceeded",
        "Number of private addresses will exceed limit for m5.large: 10 prefixes.",
        "EC2 user guide, Prefix delegation for Amazon EC2 network interfaces",
        pool=True,
    ),
    LaunchRefusal(
        "timeouts on a type that is not based on Nitro",
        interfaces(nic(ConnectionTrackingSpecification={"UdpTimeout": 45}), instance_type="m4.large"),
        "InvalidParameterCombination",
        "Connection tracking timeouts are not supported on m4.large, which is no Nitro instance.",
        "EC2 user guide, Security group connection tracking",
        pool=True,
    ),
    LaunchRefusal(
        "a timeout out of range",
        interfaces(nic(ConnectionTrackingSpecification={"UdpTimeout": 61})),
        "InvalidParameterValue",
        "Invalid value '61' for UdpTimeout. It must be from 30 to 60.",
        "EC2 user guide, Security group connection tracking",
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
        "more security groups than an interface may have",
        six_groups,
        "SecurityGroupsPerInterfaceLimitExceeded",
        "The maximum number of security groups per interface has been reached.",
        "Amazon VPC user guide, Amazon VPC quotas; EC2 API reference, Error codes",
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
    bench.aws.knob("visibility", seconds=0.3)
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

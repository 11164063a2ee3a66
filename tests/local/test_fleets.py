"""CreateFleet of type instant as EC2 documents it: which pools launch, what the instances are, and how each request is
refused.
"""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner.launching.ec2_error_codes import SHORTAGES
from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.launch_fixtures import LaunchPad, chosen, errors, launched, tags
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

A, B, C = "us-east-1a", "us-east-1b", "us-east-1c"


@pytest.fixture(scope="module")
def pad(local_aws: RunningAws) -> LaunchPad:
    network = seed_network(local_aws.endpoint, "fleets")
    options = {"HttpTokens": "required", "HttpPutResponseHopLimit": 2}
    name = local_aws.fresh("template")
    return LaunchPad.build(local_aws.client("ec2"), local_aws.client("ssm"), network, name, MetadataOptions=options)


@pytest.fixture
def aws(local_aws: RunningAws) -> Iterator[RunningAws]:
    """Return the AWS; restore sufficient capacity afterwards."""
    yield local_aws
    local_aws.knob("capacity", clear=True)


def refusal(error: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = error.value.response["Error"]["Code"]
    return code


def test_lowest_price_takes_the_cheapest_type(pad: LaunchPad) -> None:
    overrides = [pad.override(instance_type) for instance_type in ("m5.large", "r5.large", "c5.large")]

    answer = pad.fleet(overrides, 3, strategy="lowest-price")

    assert (chosen(answer), answer["Errors"]) == ([("c5.large", A, 3)], [])


def test_prioritized_takes_the_lowest_number_first(pad: LaunchPad) -> None:
    overrides = [pad.override("c5.large", Priority=2.0), pad.override("m5.large", Priority=1.0)]

    assert chosen(pad.fleet(overrides, strategy="prioritized")) == [("m5.large", A, 1)]


def test_an_answer_has_the_zones_of_its_instances(pad: LaunchPad) -> None:
    group = pad.fleet([pad.override(zone="b")])["Instances"][0]

    assert (group["SubnetId"], group["AvailabilityZone"], group["Lifecycle"]) == (
        pad.network.subnets[B],
        B,
        "on-demand",
    )
    assert group["AvailabilityZoneId"].startswith("use1-az")
    assert group["LaunchTemplateAndOverrides"]["LaunchTemplateSpecification"]["Version"] == "1"


def test_the_next_pool_gives_what_one_lacks_and_the_lack_is_reported(pad: LaunchPad, aws: RunningAws) -> None:
    aws.knob("capacity", instanceType="c5.large", zone=A, lifecycle="on-demand", available=2)
    aws.knob("capacity", instanceType="c5.large", zone=B, lifecycle="on-demand", available=0)

    answer = pad.fleet([pad.override("c5.large", zone) for zone in ("a", "b", "c")], 5)

    assert chosen(answer) == [("c5.large", A, 2), ("c5.large", C, 3)]
    assert errors(answer) == [
        ("InsufficientInstanceCapacity", "c5.large", A),
        ("InsufficientInstanceCapacity", "c5.large", B),
    ]


def test_a_fleet_may_be_fulfilled_in_part(pad: LaunchPad, aws: RunningAws) -> None:
    aws.knob("capacity", instanceType="m5.large", available=2)

    answer = pad.fleet([pad.override("m5.large", zone) for zone in ("a", "b")], 5)

    assert sum(count for _, _, count in chosen(answer)) == 2
    assert {code for code, _, _ in errors(answer)} == {"InsufficientInstanceCapacity"}


def test_without_any_capacity_there_are_errors_only(pad: LaunchPad, aws: RunningAws) -> None:
    aws.knob("capacity", lifecycle="spot", available=0)

    answer = pad.fleet([pad.override("m5.large"), pad.override("c5.large")], spot=True)

    assert (launched(answer), [code for code, _, _ in errors(answer)]) == ([], ["UnfulfillableCapacity"] * 2)
    assert chosen(pad.fleet([pad.override("m5.large")])) == [("m5.large", A, 1)]  # on-demand is another pool


@pytest.mark.parametrize("code", sorted({*SHORTAGES, "RequestLimitExceeded", "InternalError", "PendingVerification"}))
def test_a_pool_can_refuse_for_any_reason_that_ec2_has(pad: LaunchPad, aws: RunningAws, code: str) -> None:
    aws.knob("capacity", instanceType="m5.large", available=0, errorCode=code)

    assert errors(pad.fleet([pad.override("m5.large")])) == [(code, "m5.large", A)]


def test_price_capacity_optimized_avoids_a_shallow_pool_that_is_cheaper(pad: LaunchPad, aws: RunningAws) -> None:
    overrides = [pad.override("c5.large", zone) for zone in ("a", "b")]
    cheapest = chosen(pad.fleet(overrides, spot=True, strategy="price-capacity-optimized"))[0][1]
    aws.knob("capacity", instanceType="c5.large", zone=cheapest, lifecycle="spot", available=3)

    other = chosen(pad.fleet(overrides, spot=True, strategy="price-capacity-optimized"))[0][1]

    assert {cheapest, other} == {A, B}


def test_diversified_spreads_over_all_pools(pad: LaunchPad) -> None:
    overrides = [pad.override("m5.large", zone) for zone in ("a", "b", "c")]

    answer = pad.fleet(overrides, 6, spot=True, strategy="diversified")

    assert sorted(chosen(answer)) == [("m5.large", A, 2), ("m5.large", B, 2), ("m5.large", C, 2)]


def test_weights_count_towards_the_target(pad: LaunchPad) -> None:
    answer = pad.fleet([pad.override("m5.large", WeightedCapacity=2.0)], 5)

    assert chosen(answer) == [("m5.large", A, 3)]


def test_all_or_nothing_launches_nothing_where_no_type_has_enough(pad: LaunchPad, aws: RunningAws) -> None:
    aws.knob("capacity", instanceType="m5.large", available=2)
    aws.knob("capacity", instanceType="c5.large", available=1)
    gang = {"AllocationStrategy": "lowest-price", "SingleInstanceType": True, "MinTargetCapacity": 3}

    answer = pad.fleet([pad.override("m5.large"), pad.override("c5.large")], 3, OnDemandOptions=gang)
    assert launched(answer) == []

    aws.knob("capacity", instanceType="m5.large", available=3)
    answer = pad.fleet([pad.override("m5.large"), pad.override("c5.large")], 3, OnDemandOptions=gang)
    assert chosen(answer) == [("m5.large", A, 3)]


def test_an_instance_has_all_of_template_and_override(pad: LaunchPad) -> None:
    disk = {
        "DeviceName": "/dev/xvda",
        "Ebs": {"VolumeSize": 40, "VolumeType": "gp3", "Encrypted": True, "Iops": 4000, "Throughput": 250},
    }
    asked = {"joiner.dev/launch": "l-1", "karpenter.sh/nodepool": "default"}
    specifications = [
        {"ResourceType": kind, "Tags": [{"Key": key, "Value": value} for key, value in asked.items()]}
        for kind in ("instance", "volume", "fleet")
    ]
    answer = pad.fleet(
        [pad.override(BlockDeviceMappings=[disk])],
        user_data=b"#!/bin/sh\nexit 0\n",
        spot=True,
        TagSpecifications=specifications,
    )
    identity = launched(answer)[0]
    instance = pad.instance(identity)

    assert (instance["InstanceType"], instance["SubnetId"], instance["ImageId"]) == (
        "m5.large",
        pad.network.subnets[A],
        pad.image(),
    )
    assert (instance["InstanceLifecycle"], instance["SpotInstanceRequestId"][:4]) == ("spot", "sir-")
    assert instance["IamInstanceProfile"]["Arn"].endswith(f"instance-profile/{pad.network.instance_profile}")
    assert [group["GroupId"] for group in instance["SecurityGroups"]] == [pad.network.security_group]
    assert (instance["MetadataOptions"]["HttpTokens"], instance["MetadataOptions"]["HttpPutResponseHopLimit"]) == (
        "required",
        2,
    )
    user_data = pad.ec2.describe_instance_attribute(InstanceId=identity, Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(user_data) == b"#!/bin/sh\nexit 0\n"

    by_instance = [{"Name": "attachment.instance-id", "Values": [identity]}]
    (volume,) = pad.ec2.describe_volumes(Filters=by_instance)["Volumes"]
    assert [volume[key] for key in ("Size", "VolumeType", "Encrypted", "Iops", "Throughput")] == [
        40,
        "gp3",
        True,
        4000,
        250,
    ]
    assert volume["Attachments"][0]["Device"] == instance["RootDeviceName"]
    (interface,) = pad.ec2.describe_network_interfaces(Filters=by_instance)["NetworkInterfaces"]
    (fleet,) = pad.ec2.describe_fleets(FleetIds=[answer["FleetId"]])["Fleets"]
    assert [tags(each) for each in (instance, volume, fleet)] == [asked] * 3
    assert tags(interface) == {}
    assert (fleet["Type"], fleet["FulfilledCapacity"], fleet["Instances"][0]["InstanceIds"]) == (
        "instant",
        1.0,
        [identity],
    )


def test_without_a_mapping_the_root_volume_is_that_of_the_image(pad: LaunchPad) -> None:
    (device,) = pad.instance(pad.launch()[0])["BlockDeviceMappings"]
    (volume,) = pad.ec2.describe_volumes(VolumeIds=[device["Ebs"]["VolumeId"]])["Volumes"]

    assert (device["DeviceName"], volume["Size"], volume["VolumeType"]) == ("/dev/xvda", 20, "gp3")


def test_the_same_client_token_launches_once(pad: LaunchPad, aws: RunningAws) -> None:
    token = aws.fresh("token")
    first = pad.fleet([pad.override()], 2, ClientToken=token)
    again = pad.fleet([pad.override()], 2, ClientToken=token)

    assert (again["FleetId"], launched(again)) == (first["FleetId"], launched(first))
    with pytest.raises(ClientError) as error:
        pad.fleet([pad.override()], 3, ClientToken=token)
    assert refusal(error) == "IdempotentParameterMismatch"


def test_a_dry_run_launches_nothing(pad: LaunchPad) -> None:
    with pytest.raises(ClientError) as error:
        pad.fleet([pad.override()], DryRun=True)

    assert refusal(error) == "DryRunOperation"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "image"}, "InvalidAMIID.Malformed"),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"IamInstanceProfile": {"Name": "nobody"}}, "InvalidParameterValue"),
        ({"InstanceType": "m6g.large"}, "InvalidParameterValue"),  # an arm64 type, an x86_64 image
        ({"AvailabilityZone": B}, "InvalidParameterValue"),  # not the subnet's
    ],
)
def test_what_run_instances_refuses_is_an_error_of_that_pool_only(
    pad: LaunchPad, changed: dict[str, Any], code: str
) -> None:
    answer = pad.fleet([pad.override(**changed), pad.override("c5.large")], strategy="lowest-price")

    assert chosen(answer) == [("c5.large", A, 1)]
    assert [error[0] for error in errors(answer)] == [code]


def test_an_unknown_instance_profile_is_named_in_its_error(pad: LaunchPad) -> None:
    (error,) = pad.fleet([pad.override(IamInstanceProfile={"Name": "nobody"})])["Errors"]

    assert error["ErrorMessage"] == (
        "Value (nobody) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
    )


def test_a_type_that_is_not_offered_in_the_zone_is_no_valid_configuration(pad: LaunchPad) -> None:
    by_type = [{"Name": "instance-type", "Values": ["trn1.2xlarge"]}]
    offered = pad.ec2.describe_instance_type_offerings(LocationType="availability-zone", Filters=by_type)[
        "InstanceTypeOfferings"
    ]
    assert A not in [offering["Location"] for offering in offered]

    assert errors(pad.fleet([pad.override("trn1.2xlarge")])) == [("InvalidFleetConfiguration", "trn1.2xlarge", A)]


def test_an_unknown_security_group_is_an_error_of_the_pool(pad: LaunchPad, aws: RunningAws) -> None:
    other = LaunchPad.build(
        pad.ec2, pad.ssm, pad.network, aws.fresh("template"), SecurityGroupIds=["sg-0123456789abcdef0"]
    )

    assert [code for code, _, _ in errors(other.fleet([other.override()]))] == ["InvalidGroup.NotFound"]


def test_an_unknown_instance_type_refuses_the_call(pad: LaunchPad) -> None:
    with pytest.raises(ClientError) as error:
        pad.fleet([pad.override("zz.large"), pad.override()])

    assert refusal(error) == "InvalidParameterValue"


def test_a_missing_launch_template_refuses_the_call(pad: LaunchPad) -> None:
    for wanted, code in [
        ({"LaunchTemplateName": "nowhere", "Version": "$Latest"}, "InvalidLaunchTemplateName.NotFoundException"),
        (
            {"LaunchTemplateId": "lt-0123456789abcdef0", "Version": "$Latest"},
            "InvalidLaunchTemplateId.NotFoundException",
        ),
        ({"LaunchTemplateName": pad.template, "Version": "7"}, "InvalidLaunchTemplateId.VersionNotFound"),
    ]:
        with pytest.raises(ClientError) as error:
            pad.ec2.create_fleet(
                Type="instant",
                LaunchTemplateConfigs=[{"LaunchTemplateSpecification": wanted, "Overrides": [pad.override()]}],
                TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
            )
        assert refusal(error) == code


def test_user_data_has_at_most_sixteen_kilobytes(pad: LaunchPad) -> None:
    answer = pad.fleet([pad.override()], user_data=b"x" * 16_385)

    assert [error["ErrorMessage"] for error in answer["Errors"]] == ["User data is limited to 16384 bytes"]


def test_user_data_that_is_not_base64_is_no_launch_template(pad: LaunchPad, aws: RunningAws) -> None:
    with pytest.raises(ClientError) as error:
        pad.ec2.create_launch_template(
            LaunchTemplateName=aws.fresh("template"), LaunchTemplateData={"UserData": "hello!"}
        )

    assert refusal(error) == "InvalidUserData.Malformed"


def test_a_full_subnet_is_a_named_error(pad: LaunchPad) -> None:
    vpc = pad.ec2.create_vpc(CidrBlock="10.7.0.0/24")["Vpc"]["VpcId"]
    # 11 addresses
    subnet = pad.ec2.create_subnet(VpcId=vpc, CidrBlock="10.7.0.0/28", AvailabilityZone=A)["Subnet"]["SubnetId"]
    group = pad.ec2.create_security_group(GroupName="small", Description="small", VpcId=vpc)["GroupId"]
    small = LaunchPad.build(pad.ec2, pad.ssm, pad.network, f"small-{subnet}", SecurityGroupIds=[group])

    answer = small.fleet([small.override(SubnetId=subnet)], 15)

    assert (len(launched(answer)), errors(answer)) == (11, [("InsufficientFreeAddressesInSubnet", "m5.large", A)])
    pad.ec2.terminate_instances(InstanceIds=launched(answer))
    eventually(lambda: pad.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"] == 11)


def test_more_than_a_thousand_instances_are_one_call(pad: LaunchPad) -> None:
    answer = pad.fleet([pad.override("m5.large", zone) for zone in ("a", "b")], 1_100)

    ids = launched(answer)
    assert (len(set(ids)), answer["Errors"]) == (1_100, [])
    for start in range(0, len(ids), 1_000):
        pad.ec2.terminate_instances(InstanceIds=ids[start : start + 1_000])

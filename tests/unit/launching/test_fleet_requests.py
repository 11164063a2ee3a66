"""Claims become fleet requests: the content of the requests, and which claims share one."""

import base64
import json
import random
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.launching import Launch, LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.pools import BlockDevice, MetadataOptions, NodeClass
from tests.unit.launching.launch_scenario import (
    CATALOGUE,
    CLUSTER,
    MODERN,
    TEMPLATE,
    launches,
    override,
    resolved,
    wanted,
)

M5 = LaunchOffering(0.096, "m5.large", "us-east-1a")
C5 = LaunchOffering(0.085, "c5.large", "us-east-1b")
ARM = LaunchOffering(0.077, "m6g.large", "us-east-1b")
GPU = LaunchOffering(1.006, "g5.xlarge", "us-east-1a")
TAGS = {
    "kubernetes.io/cluster/prod": "owned",
    "eks:eks-cluster-name": "prod",
    "karpenter.sh/nodepool": "default",
    "karpenter.sh/provisioner-name": "default",
    "karpenter.k8s.aws/ec2nodeclass": "default",
}


def tags(specifications: list[dict[str, Any]], kind: str) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for one in specifications if one["ResourceType"] == kind for tag in one["Tags"]}


def template(node_class: NodeClass = TEMPLATE) -> dict[str, Any]:
    return dict(launches(wanted("x", node_class=node_class))[0].templates[0].data)


def test_the_request_for_the_first_node_of_scenario_c() -> None:
    launch = launches(wanted("x", M5, C5))[0]

    request = dict(launch.request)
    specifications = request.pop("TagSpecifications")
    assert request == {
        "ClientToken": launch.token,
        "Type": "instant",
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": launch.templates[0].name, "Version": "1"},
                "Overrides": [
                    {
                        "InstanceType": "m5.large",
                        "SubnetId": "subnet-a2",
                        "AvailabilityZone": "us-east-1a",
                        "Priority": 0.0,
                    },
                    {
                        "InstanceType": "c5.large",
                        "SubnetId": "subnet-b1",
                        "AvailabilityZone": "us-east-1b",
                        "Priority": 1.0,
                    },
                ],
            }
        ],
    }
    assert [one["ResourceType"] for one in specifications] == ["fleet", "instance", "volume"]
    of_launch = {**TAGS, "joiner.dev/launch": launch.id, "joiner.dev/execution": "up-1"}
    assert tags(specifications, "fleet") == tags(specifications, "volume") == of_launch
    (claim,) = launch.claims
    assert tags(specifications, "instance") == {**of_launch, "karpenter.sh/nodeclaim": claim, "Name": claim}


def test_an_instance_keeps_the_name_that_its_class_sets() -> None:
    (launch,) = launches(wanted("x", node_class=replace(TEMPLATE, tags={"Name": "web"})))
    own = tags(launch.request["TagSpecifications"], "instance")

    assert (own["Name"], own["karpenter.sh/nodeclaim"]) == ("web", *launch.claims)


def test_instances_of_several_claims_are_launched_without_the_name_of_one() -> None:
    (launch,) = launches(wanted("x"), wanted("y"))

    assert len(launch.claims) == 2
    assert tags(launch.request["TagSpecifications"], "instance").keys() & {"karpenter.sh/nodeclaim", "Name"} == set()


def test_scenario_cs_template_has_its_40_gib_volume_profile_and_groups() -> None:
    launch = launches(wanted("x"))[0]

    data = dict(launch.templates[0].data)
    text = base64.b64decode(data.pop("UserData")).decode()
    assert text.startswith("MIME-Version: 1.0\n")
    assert data == {
        "TagSpecifications": [
            {"ResourceType": "network-interface", "Tags": [{"Key": key, "Value": TAGS[key]} for key in sorted(TAGS)]}
        ],
        "ImageId": "ami-x86_64-standard",
        "IamInstanceProfile": {"Name": "prod-default-profile"},
        "SecurityGroupIds": ["sg-1"],
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/xvda", "Ebs": {"DeleteOnTermination": True, "VolumeSize": 40, "VolumeType": "gp3"}}
        ],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 1,
            "HttpTokens": "required",
            "InstanceMetadataTags": "disabled",
        },
        "Monitoring": {"Enabled": False},
        "CapacityReservationSpecification": {"CapacityReservationPreference": "none"},
    }
    assert launch.templates[0].tags == TAGS
    assert launch.templates[0].name.startswith("joiner/prod/")


def test_a_spot_request_is_price_capacity_optimized_without_a_maximum_price() -> None:
    request = launches(wanted("x", capacity_type="spot"))[0].request

    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert "OnDemandOptions" not in request
    assert request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "spot"
    assert "Price" not in json.dumps(request)


def test_only_templates_of_spot_launches_tag_requests_for_spot() -> None:
    on_demand, spot = (launches(wanted("x", capacity_type=each))[0].templates[0] for each in ("on-demand", "spot"))

    assert [one["ResourceType"] for one in on_demand.data["TagSpecifications"]] == ["network-interface"]
    assert [one["ResourceType"] for one in spot.data["TagSpecifications"]] == [
        "network-interface",
        "spot-instances-request",
    ]
    assert tags(spot.data["TagSpecifications"], "spot-instances-request") == TAGS
    assert on_demand.name != spot.name


def test_claims_of_two_capacity_types_never_share_a_fleet_or_a_template() -> None:
    both = launches(wanted("x"), wanted("y", capacity_type="spot"))

    assert [launch.request["TargetCapacitySpecification"]["DefaultTargetCapacityType"] for launch in both] == [
        "on-demand",
        "spot",
    ]
    assert not {one.name for one in both[0].templates} & {one.name for one in both[1].templates}


def test_a_request_has_at_most_as_many_overrides_as_ec2_allows() -> None:
    offers = [
        LaunchOffering(0.1 + index / 1000, "m5.large", f"us-east-1{zone}") for index in range(200) for zone in "abc"
    ]
    (launch,) = launches(wanted("x", *offers))

    assert sum(len(config["Overrides"]) for config in launch.request["LaunchTemplateConfigs"]) == 300


def test_a_node_pool_has_no_provisioner_tag() -> None:
    launch = launches(wanted("x", pool=MODERN, node_class=NodeClass("default")))[0]

    assert launch.templates[0].tags == {
        key: value for key, value in TAGS.items() if key != "karpenter.sh/provisioner-name"
    }


def test_the_users_tags_never_replace_ours() -> None:
    launch = launches(wanted("x", node_class=replace(TEMPLATE, tags={"team": "a", "karpenter.sh/nodepool": "other"})))[
        0
    ]

    assert launch.templates[0].tags == {**TAGS, "team": "a"}


def test_without_block_devices_the_volumes_of_the_family_are_used() -> None:
    assert template(replace(TEMPLATE, block_devices=()))["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"DeleteOnTermination": True, "Encrypted": True, "VolumeSize": 20, "VolumeType": "gp3"},
        }
    ]


def test_every_setting_of_the_class_reaches_the_template() -> None:
    content = template(
        replace(
            TEMPLATE,
            metadata_options=MetadataOptions("enabled", "enabled", 2, "optional"),
            detailed_monitoring=True,
            associate_public_ip_address=False,
            block_devices=(
                BlockDevice(
                    "/dev/xvda",
                    10,
                    "io2",
                    iops=1000,
                    throughput=250,
                    encrypted=True,
                    kms_key_id="key",
                    snapshot_id="snap-1",
                    delete_on_termination=False,
                    initialization_rate=200,
                    root=True,
                ),
            ),
        )
    )

    assert content["MetadataOptions"]["HttpPutResponseHopLimit"] == 2
    assert content["Monitoring"] == {"Enabled": True}
    assert content["NetworkInterfaces"] == [{"DeviceIndex": 0, "AssociatePublicIpAddress": False, "Groups": ["sg-1"]}]
    assert "SecurityGroupIds" not in content
    assert content["BlockDeviceMappings"][0]["Ebs"] == {
        "DeleteOnTermination": False,
        "Encrypted": True,
        "Iops": 1000,
        "KmsKeyId": "key",
        "SnapshotId": "snap-1",
        "Throughput": 250,
        "VolumeInitializationRate": 200,
        "VolumeSize": 10,
        "VolumeType": "io2",
    }


def test_each_architecture_starts_from_its_own_image() -> None:
    launch = launches(wanted("x", ARM, M5))[0]

    assert [data.data["ImageId"] for data in launch.templates] == ["ami-arm64-standard", "ami-x86_64-standard"]
    assert (override(launch, 0)["InstanceType"], override(launch, 1)["InstanceType"]) == ("m6g.large", "m5.large")
    assert (launch.image_of("m6g.large"), launch.image_of("m5.large")) == ("ami-arm64-standard", "ami-x86_64-standard")


def test_a_type_with_gpus_starts_from_the_image_with_their_driver() -> None:
    assert launches(wanted("x", GPU))[0].image_of("g5.xlarge") == "ami-x86_64-nvidia"


def test_an_offering_in_a_zone_without_a_subnet_is_not_requested() -> None:
    launch = launches(wanted("x", LaunchOffering(0.01, "m5.large", "us-east-1f"), M5))[0]

    assert [one["AvailabilityZone"] for one in launch.request["LaunchTemplateConfigs"][0]["Overrides"]] == [
        "us-east-1a"
    ]


def test_a_claim_without_any_offer_left_is_refused_and_the_others_go_on() -> None:
    grouped, refused = group_launches(
        [wanted("hopeless", LaunchOffering(0.01, "m5.large", "us-east-1f")), wanted("fine")],
        CATALOGUE,
        CLUSTER,
        execution="up-1",
    )

    assert [launch.claims for launch in grouped] == [("default-fine",)]
    assert [(one.claim, one.reason) for one in refused] == [("default-hopeless", "NothingToLaunch")]


def test_a_claim_whose_user_data_is_too_long_is_refused() -> None:
    long = replace(TEMPLATE, user_data="#!/bin/sh\n" + "x" * 20_000)

    _, refused = group_launches([wanted("x", node_class=long)], CATALOGUE, CLUSTER, execution="up-1")

    assert refused[0].reason == "UserDataSizeLimitExceeded"


SIMILAR = tuple(
    LaunchOffering(0.1 + number / 100, name, f"us-east-1{zone}")
    for number, (name, zone) in enumerate(product(("m5.large", "c5.large", "g5.xlarge"), "abc"))
)[:8]


def offered(launch: Launch) -> set[tuple[str, str]]:
    """Return the types and zones that EC2 may choose from."""
    configs = launch.request["LaunchTemplateConfigs"]
    return {(one["InstanceType"], one["AvailabilityZone"]) for config in configs for one in config["Overrides"]}


def test_claims_with_nearly_the_same_offers_share_a_request_for_what_they_have_in_common() -> None:
    (launch,) = launches(wanted("a", *SIMILAR), wanted("b", *SIMILAR[:-1]), wanted("c", *SIMILAR[:-2]))

    assert launch.claims == ("default-a", "default-b", "default-c")
    assert offered(launch) == set(product(("m5.large", "c5.large"), ("us-east-1a", "us-east-1b", "us-east-1c")))
    assert launch.request["TargetCapacitySpecification"]["TotalTargetCapacity"] == 3


def test_a_shared_request_keeps_three_quarters_of_the_offers_of_each_claim() -> None:
    grouped = launches(wanted("a", *SIMILAR), wanted("b", *SIMILAR[:-3]))

    assert [launch.claims for launch in grouped] == [("default-a",), ("default-b",)]


def test_claims_that_prefer_different_offers_share_no_request() -> None:
    grouped = launches(wanted("a", *SIMILAR), wanted("b", *SIMILAR[1:]))

    assert [launch.claims for launch in grouped] == [("default-a",), ("default-b",)]


@given(st.lists(st.frozensets(st.integers(0, 7), min_size=1), min_size=1, max_size=8), st.randoms())
def test_every_offer_of_a_request_is_an_offer_of_each_of_its_claims(
    chosen: list[frozenset[int]], chance: random.Random
) -> None:
    offers = {f"default-{index}": [SIMILAR[number] for number in sorted(which)] for index, which in enumerate(chosen)}
    claims = [wanted(name.removeprefix("default-"), *some) for name, some in offers.items()]
    grouped = launches(*claims)

    assert sorted(name for launch in grouped for name in launch.claims) == sorted(offers)
    for launch in grouped:
        for name in launch.claims:
            assert offered(launch) <= {(one.instance_type, one.zone) for one in offers[name]}
    chance.shuffle(claims)
    assert launches(*claims) == grouped


def test_claims_of_the_same_offers_share_a_request() -> None:
    grouped = launches(wanted("b", M5, C5), wanted("a", M5, C5), wanted("c", C5))

    assert [launch.claims for launch in grouped] == [("default-a", "default-b"), ("default-c",)]
    assert [launch.request["TargetCapacitySpecification"]["TotalTargetCapacity"] for launch in grouped] == [2, 1]
    assert len({template.name for launch in grouped for template in launch.templates}) == 1


@pytest.mark.parametrize(
    "other",
    [
        wanted("b", capacity_type="spot"),
        wanted("b", pool=replace(MODERN, name="other")),
        wanted("b", C5),
        wanted("b", node_class=replace(TEMPLATE, user_data="#!/bin/sh\n")),
    ],
    ids=["capacity type", "pool", "offers", "user data"],
)
def test_claims_whose_nodes_differ_have_requests_of_their_own(other: ClaimToLaunch) -> None:
    assert len(launches(wanted("a"), other)) == 2


def test_a_request_asks_for_fifty_nodes_at_most() -> None:
    grouped = launches(*(wanted(f"{number:03}") for number in range(120)))

    assert sorted(len(launch.claims) for launch in grouped) == [20, 50, 50]


def test_a_request_names_sixty_types_and_three_hundred_offers_at_most() -> None:
    offers = [LaunchOffering(number / 100, "m5.large", f"us-east-1{'abc'[number % 3]}") for number in range(400)]

    launch = launches(wanted("x", *offers))[0]

    assert len(launch.request["LaunchTemplateConfigs"][0]["Overrides"]) == 300


def test_another_round_is_another_launch() -> None:
    first, second = launches(wanted("a")), launches(wanted("a"), attempt=1)

    assert (first[0].id, first[0].token) != (second[0].id, second[0].token)
    assert len(first[0].token) <= 64


def test_each_change_of_a_template_changes_its_name() -> None:
    bigger = replace(TEMPLATE, block_devices=(BlockDevice("/dev/xvda", 50, "gp3"),))

    assert launches(wanted("a"))[0].templates[0].name != launches(wanted("a", node_class=bigger))[0].templates[0].name


def test_a_class_that_is_not_resolved_launches_nothing() -> None:
    _, refused = group_launches([wanted("a", resolved=resolved(subnets=()))], CATALOGUE, CLUSTER, execution="up-1")

    assert [one.reason for one in refused] == ["NothingToLaunch"]


@given(st.permutations([("a", (M5,)), ("b", (M5, C5)), ("c", (M5,)), ("d", (ARM, M5)), ("e", (M5, C5))]))
def test_the_order_in_which_claims_arrive_changes_nothing(order: list[tuple[str, tuple[LaunchOffering, ...]]]) -> None:
    claims = [wanted(suffix, *offers) for suffix, offers in order]

    assert [launch.request_json() for launch in launches(*claims)] == [
        launch.request_json() for launch in launches(*sorted(claims, key=lambda one: one.claim.name))
    ]


@given(st.lists(st.sampled_from([(M5,), (C5,), (M5, C5), (ARM, C5), (GPU,)]), max_size=130))
def test_every_claim_is_in_exactly_one_launch(choices: list[tuple[LaunchOffering, ...]]) -> None:
    claims = [wanted(f"{number:03}", *offers) for number, offers in enumerate(choices)]

    grouped = launches(*claims)

    assert Counter(name for launch in grouped for name in launch.claims) == Counter(one.claim.name for one in claims)
    for launch in grouped:
        assert launch.request["TargetCapacitySpecification"]["TotalTargetCapacity"] == len(launch.claims) <= 50
        assert Launch.from_json(json.loads(json.dumps(launch.to_json()))) == launch

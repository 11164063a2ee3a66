"""Nodes accept as many pods as their plan reckons with, where the image would count interfaces without addresses."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from joiner.adapters.documents import details_of
from joiner.catalogue import Catalogue
from joiner.catalogue.instance_types import Interfaces
from joiner.cluster import Resources
from joiner.launching import Launch, LaunchOffering
from joiner.launching.launch_grouping import group_launches
from joiner.pools import KubeletConfiguration, NodeClass
from joiner.pools.node_class import EFA_ONLY, NetworkInterface
from tests.unit.launching.launch_scenario import CLUSTER, MODERN, TEMPLATE, instance_type, resolved, wanted
from tests.unit.launching.test_user_data import config

INTERFACES = {"m5.large": Interfaces(3, 10), "c5.large": Interfaces(3, 10), "m5.4xlarge": Interfaces(8, 30)}
MODERN_CLASS = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023")


def catalogue(*, reserved: int) -> Catalogue:
    """Return types as the catalogue has them with this value of `nodes.reservedInterfaces`."""
    return Catalogue.of(
        [
            replace(instance_type(name), interfaces=each, capacity=Resources({"pods": each.pods(reserved)}))
            for name, each in INTERFACES.items()
        ]
    )


def launched(node_class: NodeClass = MODERN_CLASS, *, reserved: int = 0, **changes: Any) -> Launch:
    offers = [LaunchOffering(0.1 * at, name, "us-east-1a") for at, name in enumerate(INTERFACES, 1)]
    one = wanted("a", *offers, pool=MODERN, node_class=node_class, resolved=resolved(node_class), **changes)
    (made,), refused = group_launches([one], catalogue(reserved=reserved), CLUSTER, execution="up-1")
    assert refused == ()
    return made


def pods_by_type(launch: Launch) -> dict[str, Any]:
    """Return the maxPods in the user data of each instance type; None: there is none."""
    texts = {one.name: base64.b64decode(one.data["UserData"]).decode() for one in launch.templates}
    return {
        override["InstanceType"]: config(texts[one["LaunchTemplateSpecification"]["LaunchTemplateName"]])["spec"][
            "kubelet"
        ]["config"].get("maxPods")
        for one in launch.request["LaunchTemplateConfigs"]
        for override in one["Overrides"]
    }


def test_user_data_has_no_number_where_the_image_computes_it() -> None:
    launch = launched()

    assert pods_by_type(launch) == dict.fromkeys(INTERFACES)
    assert len(launch.templates) == 1


def test_reserved_interfaces_reach_the_kubelet_of_each_type() -> None:
    launch = launched(reserved=1)

    assert pods_by_type(launch) == {"m5.large": 20, "c5.large": 20, "m5.4xlarge": 205}
    assert len(launch.templates) == 2


def test_interfaces_of_the_class_without_addresses_reach_the_kubelet() -> None:
    interfaces = (NetworkInterface(0, 0), NetworkInterface(0, 1, EFA_ONLY))
    launch = launched(replace(MODERN_CLASS, network_interfaces=interfaces), reserved=1)

    assert pods_by_type(launch) == {"m5.large": 11, "c5.large": 11, "m5.4xlarge": 176}


def test_the_number_of_the_class_holds() -> None:
    own = replace(MODERN_CLASS, kubelet=KubeletConfiguration({"maxPods": 50}))

    assert set(pods_by_type(launched(own, reserved=1)).values()) == {50}


def test_the_number_of_the_users_own_user_data_holds() -> None:
    text = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: {config: {maxPods: 30}}}\n"

    assert pods_by_type(launched(replace(MODERN_CLASS, user_data=text), reserved=1)) == dict.fromkeys(INTERFACES)


def test_a_comment_about_the_number_changes_nothing_and_an_encoded_one_holds() -> None:
    text = base64.b64encode(b"spec: {kubelet: {config: {maxPods: 30}}}\n").decode()
    encoded = (
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n'
        f"Content-Type: application/node.eks.aws\nContent-Transfer-Encoding: base64\n\n{text}\n--b--\n"
    )
    comment = replace(MODERN_CLASS, user_data="#!/bin/sh\n# maxPods: see the wiki\necho hello\n")

    assert set(pods_by_type(launched(comment, reserved=1)).values()) == {20, 205}
    assert pods_by_type(launched(replace(MODERN_CLASS, user_data=encoded), reserved=1)) == dict.fromkeys(INTERFACES)


def test_long_user_data_allows_fewer_templates_so_that_a_launch_fits_its_item() -> None:
    known = [
        replace(instance_type(f"m5.{at}x"), capacity=Resources({"pods": at}), interfaces=Interfaces(3, 10))
        for at in range(3, 62)
    ]
    offers = [LaunchOffering(0.1 * at, one.name, "us-east-1a") for at, one in enumerate(known, 1)]
    long = replace(MODERN_CLASS, user_data="#!/bin/sh\n" + "echo 0123456789\n" * 900)
    one = wanted("a", *offers, pool=MODERN, node_class=long, resolved=resolved(long))
    (launch,), _ = group_launches([one], Catalogue.of(known), CLUSTER, execution="up-1")

    assert 5 < len(launch.templates) < 15
    assert len(details_of(launch)) + len(launch.request_json()) < 300_000


@pytest.mark.parametrize("reserved", [0, 1])
def test_a_class_of_custom_images_without_user_data_is_launched(reserved: int) -> None:
    """Its images may have all that a node needs to join."""
    own = replace(MODERN_CLASS, ami_family="Custom", user_data=None)
    there = replace(resolved(MODERN_CLASS), ami_family="Custom")
    offers = [LaunchOffering(0.1 * at, name, "us-east-1a") for at, name in enumerate(INTERFACES, 1)]
    two = [
        wanted("a", *offers, pool=MODERN, node_class=own, resolved=there),
        wanted("b", *offers, pool=MODERN, node_class=MODERN_CLASS, resolved=resolved(MODERN_CLASS)),
    ]

    made, refused = group_launches(two, catalogue(reserved=reserved), CLUSTER, execution="up-1")

    assert refused == ()
    empty, full = sorted(made, key=lambda one: one.claims)
    assert (empty.claims, full.claims) == ((two[0].claim.name,), (two[1].claim.name,))
    assert [each.data["UserData"] for each in empty.templates] == [""]


def test_claims_share_a_launch_whose_types_have_different_numbers() -> None:
    offers = [LaunchOffering(0.1 * at, name, "us-east-1a") for at, name in enumerate(INTERFACES, 1)]
    two = [
        wanted(name, *offers, pool=MODERN, node_class=MODERN_CLASS, resolved=resolved(MODERN_CLASS)) for name in "ab"
    ]
    (launch,), _ = group_launches(two, catalogue(reserved=1), CLUSTER, execution="up-1")

    assert len(launch.claims) == 2 and pods_by_type(launch)["m5.4xlarge"] == 205


def test_a_request_has_no_more_templates_than_ec2_takes() -> None:
    known = [
        replace(instance_type(f"m5.{at}x"), capacity=Resources({"pods": at}), interfaces=Interfaces(3, 10))
        for at in range(3, 62)
    ]
    offers = [LaunchOffering(0.1 * at, one.name, "us-east-1a") for at, one in enumerate(known, 1)]
    one = wanted("a", *offers, pool=MODERN, node_class=MODERN_CLASS, resolved=resolved(MODERN_CLASS))
    (launch,), _ = group_launches([one], Catalogue.of(known), CLUSTER, execution="up-1")

    configs = launch.request["LaunchTemplateConfigs"]
    assert len(launch.templates) == len(configs) == 50
    assert [[each["InstanceType"] for each in one["Overrides"]] for one in configs] == [
        [one.name] for one in known[:50]
    ]

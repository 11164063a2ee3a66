"""The network interfaces of launch templates: by card for EFA, as declared, with timeouts and prefixes."""

from dataclasses import replace
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.catalogue.instance_features import EFA, InstanceFeatures
from joiner.cluster import Resources
from joiner.launching import LaunchOffering
from joiner.launching.launch_grouping import group_launches
from joiner.launching.node_interfaces import build_interface_fields, find_interface_problems
from joiner.pools import NodeClass
from joiner.pools.node_class import ConnectionTracking, NetworkInterface
from tests.unit.launching.launch_scenario import CATALOGUE, CLUSTER, SUBNETS, TEMPLATE, resolved, wanted

PLAIN = NodeClass("default")
TWO_CARDS = NodeClass(
    "hpc", network_interfaces=(NetworkInterface(0, 0), NetworkInterface(0, 1, "efa-only"), NetworkInterface(1, 1))
)


def built(node_class: NodeClass, features: InstanceFeatures | None = None) -> dict[str, Any]:
    return build_interface_fields(node_class, ["sg-1"], features or InstanceFeatures())


def places(fields: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(nic["NetworkCardIndex"], nic["DeviceIndex"], nic["InterfaceType"]) for nic in fields["NetworkInterfaces"]]


def test_a_plain_class_names_its_security_groups_only() -> None:
    assert built(PLAIN) == {"SecurityGroupIds": ["sg-1"]}


def test_each_card_with_efa_gets_one_interface_of_that_type() -> None:
    assert places(built(PLAIN, InstanceFeatures(cards=(15,) * 4, efa=4))) == [
        (0, 0, "efa"),
        (1, 1, "efa"),
        (2, 1, "efa"),
        (3, 1, "efa"),
    ]


def test_a_first_card_without_efa_gets_a_plain_primary_interface() -> None:
    assert places(built(PLAIN, InstanceFeatures(cards=(4, 4, 4), efa=2, efa_card=1))) == [
        (0, 0, "interface"),
        (1, 1, "efa"),
        (2, 1, "efa"),
    ]


def test_every_declared_interface_has_the_security_groups_of_the_class() -> None:
    fields = built(TWO_CARDS)

    assert places(fields) == [(0, 0, "interface"), (0, 1, "efa-only"), (1, 1, "interface")]
    assert [nic["Groups"] for nic in fields["NetworkInterfaces"]] == [["sg-1"]] * 3


def test_timeouts_are_set_where_there_are_addresses_and_prefixes_on_the_primary_interface() -> None:
    tracking = ConnectionTracking(tcp_established=600, udp_stream=90)

    fields = built(replace(TWO_CARDS, connection_tracking=tracking, ip_prefix_count=2))

    timeouts = {"TcpEstablishedTimeout": 600, "UdpStreamTimeout": 90}
    assert [nic.get("ConnectionTrackingSpecification") for nic in fields["NetworkInterfaces"]] == [
        timeouts,
        None,
        timeouts,
    ]
    assert [nic.get("Ipv4PrefixCount") for nic in fields["NetworkInterfaces"]] == [2, None, None]


def test_only_a_single_interface_can_have_a_public_address() -> None:
    public = replace(PLAIN, associate_public_ip_address=True)

    assert built(public) == {
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": ["sg-1"], "AssociatePublicIpAddress": True}]
    }
    for fields in (
        built(replace(TWO_CARDS, associate_public_ip_address=False)),
        built(public, InstanceFeatures(cards=(15, 15), efa=2)),
    ):
        assert all("AssociatePublicIpAddress" not in nic for nic in fields["NetworkInterfaces"])


@pytest.mark.parametrize(
    ("public", "given", "reasons"),
    [
        (True, False, [("PublicAddressNotPossible", "error")]),
        (None, True, [("NoPublicAddress", "warning")]),
        (None, False, []),
        (False, True, []),
    ],
)
def test_several_interfaces_exclude_public_addresses(
    public: bool | None, given: bool, reasons: list[tuple[str, str]]
) -> None:
    several = replace(TEMPLATE, network_interfaces=TWO_CARDS.network_interfaces, associate_public_ip_address=public)
    subnets = [{**one, "MapPublicIpOnLaunch": given} for one in SUBNETS]

    found = resolved(several, subnets=subnets)

    assert [(one.reason, one.severity) for one in found.problems if "Address" in one.reason] == reasons
    assert {subnet.public for subnet in found.subnets} == {False}


def test_a_node_with_efa_that_cannot_have_its_public_address_is_not_launched() -> None:
    types = {
        "hpc6.large": InstanceFeatures(efa=1),
        "p4.large": InstanceFeatures(cards=(15, 15), efa=2),
    }
    catalogue = Catalogue.of(
        replace(CATALOGUE.types["m5.large"], name=name, features=features) for name, features in types.items()
    )
    one, two = (LaunchOffering(price, name, "us-east-1a") for price, name in zip((1.0, 2.0), types, strict=True))
    asking = wanted("x", one, two, node_class=replace(TEMPLATE, associate_public_ip_address=True))
    asking = replace(asking, claim=replace(asking.claim, requests=Resources({EFA: 1})))

    (launch,), no_refusal = group_launches([asking], catalogue, CLUSTER, execution="up-1")
    no_launch, (refusal,) = group_launches([replace(asking, offers=(two,))], catalogue, CLUSTER, execution="up-1")

    assert (set(launch.images), no_refusal, no_launch) == ({"hpc6.large"}, (), ())
    assert refusal.reason == "PublicAddressNotPossible"


def test_one_declared_interface_is_no_problem() -> None:
    single = NodeClass("one", network_interfaces=(NetworkInterface(0, 0),), associate_public_ip_address=True)

    assert find_interface_problems(single) == []
    assert built(single)["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is True

"""What the fields of a node class become on the instances that the local EC2 launches: interfaces, timeouts, the
processor.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner.adapters.ec2_client import Ec2
from joiner.catalogue import Catalogue
from joiner.catalogue.instance_features import EFA
from joiner.cluster import Requirements, Resources
from joiner.launching import LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.launch_template_comparison import compare_launch_templates
from joiner.names import PLACEMENT_PARTITION
from joiner.pools import (
    BlockDevice,
    Image,
    NodeClaimTemplate,
    NodeClass,
    NodeClassRef,
    NodePool,
    ResolvedNodeClass,
    SecurityGroup,
    Subnet,
    build_node_claim,
)
from joiner.pools.node_class import ConnectionTracking, NetworkInterface
from joiner.pools.resolved_node_class import PlacementGroup
from joiner_cli.catalogue_files import packaged_catalogue
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.ipv6_ranges import ipv6_range
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws
from tests.unit.launching.launch_scenario import CLUSTER

pytestmark = pytest.mark.local

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="pool-1")
PLAIN = NodeClass("default", uid="class-1")
ZONE = "us-east-1a"


@pytest.fixture(scope="module")
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, "launched-options")


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return packaged_catalogue()


class OptionLauncher:
    """Launches one node of a class with the templates and the fleet request that a scale-up sends."""

    def __init__(self, aws: RunningAws, network: Network, catalogue: Catalogue) -> None:
        self.aws, self.network, self.catalogue = aws, network, catalogue
        self.ec2 = aws.client("ec2")
        self.templates: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
        self.pad = LaunchPad(self.ec2, aws.client("ssm"), network, "")

    def instance(
        self,
        node_class: NodeClass,
        instance_type: str,
        group: PlacementGroup | None = None,
        *,
        efa: int = 0,
        pool: NodePool = POOL,
    ) -> dict[str, Any]:
        image = Image(self.pad.image(), "amd64", Requirements())
        resolved = ResolvedNodeClass(
            "default",
            "EC2NodeClass",
            subnets=(Subnet(self.network.subnets[ZONE], ZONE),),
            security_groups=(SecurityGroup(self.network.security_group),),
            images=(image,),
            instance_profile=self.network.instance_profile,
            placement_group=group,
        )
        template = NodeClaimTemplate(requests=Resources({"cpu": 1000, EFA: efa}).without_zeros())
        claim = build_node_claim(pool, template, suffix="x", lease=1, execution="up-1")
        offer = LaunchOffering(1.0, instance_type, ZONE)
        wanted = ClaimToLaunch(claim, pool, node_class, resolved, "on-demand", (offer,))
        (launch,), refused = group_launches([wanted], self.catalogue, CLUSTER, execution=self.aws.fresh("up"))
        assert refused == ()
        for each in launch.templates:
            self.ec2.create_launch_template(LaunchTemplateName=each.name, LaunchTemplateData=each.data)
        self.templates = [(each.data, self._described(each.name)) for each in launch.templates]
        try:
            answer = self.ec2.create_fleet(**launch.request)
        finally:
            for each in launch.templates:
                self.ec2.delete_launch_template(LaunchTemplateName=each.name)
        assert answer["Errors"] == []
        return self.pad.instance(answer["Instances"][0]["InstanceIds"][0])

    def _described(self, name: str) -> dict[str, Any]:
        versions = self.ec2.describe_launch_template_versions(LaunchTemplateName=name)["LaunchTemplateVersions"]
        data: dict[str, Any] = versions[0]["LaunchTemplateData"]
        return data


@pytest.fixture
def launcher(local_aws: RunningAws, network: Network, catalogue: Catalogue) -> OptionLauncher:
    return OptionLauncher(local_aws, network, catalogue)


def interfaces(instance: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Return card, device and kind of each interface."""
    return sorted(
        (nic["Attachment"]["NetworkCardIndex"], nic["Attachment"]["DeviceIndex"], nic["InterfaceType"])
        for nic in instance["NetworkInterfaces"]
    )


def test_a_node_of_an_efa_pod_has_an_efa_interface_on_each_card(launcher: OptionLauncher) -> None:
    with_efa = launcher.instance(PLAIN, "p4d.24xlarge", efa=4)
    without = launcher.instance(PLAIN, "p4d.24xlarge")

    assert interfaces(with_efa) == [(0, 0, "efa"), (1, 1, "efa"), (2, 1, "efa"), (3, 1, "efa")]
    assert interfaces(without) == [(0, 0, "interface")]


def test_declared_interfaces_are_launched_with_the_groups_of_the_class(launcher: OptionLauncher) -> None:
    declared = (NetworkInterface(0, 0), NetworkInterface(0, 1, "efa-only"), NetworkInterface(1, 1))

    instance = launcher.instance(replace(PLAIN, network_interfaces=declared), "p4d.24xlarge")

    assert interfaces(instance) == [(0, 0, "interface"), (0, 1, "efa-only"), (1, 1, "interface")]
    groups = {group["GroupId"] for nic in instance["NetworkInterfaces"] for group in nic["Groups"]}
    assert groups == {launcher.network.security_group}
    # The instance has the groups of its primary interface: drift compares them
    assert [group["GroupId"] for group in instance["SecurityGroups"]] == [launcher.network.security_group]


def test_timeouts_and_prefixes_are_those_of_the_primary_interface(launcher: OptionLauncher) -> None:
    tracking = ConnectionTracking(tcp_established=600, udp_stream=90, udp=45)

    (nic,) = launcher.instance(replace(PLAIN, connection_tracking=tracking, ip_prefix_count=2), "m5.large")[
        "NetworkInterfaces"
    ]

    timeouts = {"TcpEstablishedTimeout": 600, "UdpStreamTimeout": 90, "UdpTimeout": 45}
    assert nic["ConnectionTrackingConfiguration"] == timeouts
    assert len(nic["Ipv4Prefixes"]) == 2


def test_a_node_of_an_ipv6_cluster_has_one_ipv6_address_on_its_primary_interface(launcher: OptionLauncher) -> None:
    with ipv6_range(launcher.ec2, launcher.network.subnets[ZONE]) as addresses:
        instance = launcher.instance(replace(PLAIN, ip_family="ipv6"), "m5.large")

    ((wanted, described),) = launcher.templates
    assert compare_launch_templates(wanted, described) == ()
    (nic,) = instance["NetworkInterfaces"]
    (given,) = nic["Ipv6Addresses"]
    assert (given["Ipv6Address"], given["IsPrimaryIpv6"]) == (instance["Ipv6Address"], True)
    assert ipaddress.ip_address(given["Ipv6Address"]) in addresses
    assert instance["PrivateIpAddress"]


def test_a_node_of_an_ipv4_cluster_has_no_ipv6_address_in_the_same_subnet(launcher: OptionLauncher) -> None:
    with ipv6_range(launcher.ec2, launcher.network.subnets[ZONE]):
        instance = launcher.instance(PLAIN, "m5.large")

    assert instance["NetworkInterfaces"][0].get("Ipv6Addresses", []) == []
    assert "Ipv6Address" not in instance


def test_nested_virtualization_is_set_on_the_processor(launcher: OptionLauncher) -> None:
    instance = launcher.instance(replace(PLAIN, nested_virtualization="enabled"), "m8i.large")

    assert instance["CpuOptions"]["NestedVirtualization"] == "enabled"


def test_a_node_runs_in_the_placement_group_of_its_class(launcher: OptionLauncher) -> None:
    name = launcher.aws.fresh("group")
    made = launcher.ec2.create_placement_group(GroupName=name, Strategy="partition", PartitionCount=3)["PlacementGroup"]
    group = PlacementGroup(made["GroupId"], name, made["Strategy"])

    places = [launcher.instance(PLAIN, "m5.large", group)["Placement"] for _ in range(3)]

    assert [(place["GroupName"], place["GroupId"]) for place in places] == [(name, made["GroupId"])] * 3
    assert sorted(place["PartitionNumber"] for place in places) == [1, 2, 3]


def test_a_node_runs_in_the_partition_that_its_pool_requires(launcher: OptionLauncher) -> None:
    name = launcher.aws.fresh("group")
    made = launcher.ec2.create_placement_group(GroupName=name, Strategy="partition", PartitionCount=3)["PlacementGroup"]
    group = PlacementGroup(made["GroupId"], name, made["Strategy"], made["PartitionCount"])
    pool = replace(POOL, requirements=Requirements.from_labels({PLACEMENT_PARTITION: "3"}))

    places = [launcher.instance(PLAIN, "m5.large", group, pool=pool)["Placement"] for _ in range(2)]

    assert [place["PartitionNumber"] for place in places] == [3, 3]


def test_a_placement_group_is_found_by_name_and_by_id_with_the_zones_of_its_instances(
    launcher: OptionLauncher,
) -> None:
    name = launcher.aws.fresh("group")
    made = launcher.ec2.create_placement_group(GroupName=name, Strategy="cluster")["PlacementGroup"]
    ec2 = Ec2(launcher.ec2)
    before = ec2.zones_of_placement_group(name)

    launcher.instance(PLAIN, "m5.large", PlacementGroup(made["GroupId"], name, "cluster"))

    assert [one["GroupId"] for one in ec2.placement_group(name)] == [made["GroupId"]]
    assert [one["GroupName"] for one in ec2.placement_group(identifier=made["GroupId"])] == [name]
    assert ec2.placement_group("nobody-made-it") == ec2.placement_group(identifier="pg-0") == []
    assert (before, ec2.zones_of_placement_group(name)) == ([], [ZONE])


def test_every_field_of_our_templates_is_described_as_it_was_created(launcher: OptionLauncher) -> None:
    everything = replace(
        PLAIN,
        network_interfaces=(NetworkInterface(0, 0),),
        connection_tracking=ConnectionTracking(udp=45),
        ip_prefix_count=1,
        nested_virtualization="enabled",
        associate_public_ip_address=False,
        detailed_monitoring=True,
        block_devices=(BlockDevice("/dev/xvda", 30, "gp3", iops=4000, throughput=200, encrypted=True, root=True),),
    )

    launcher.instance(everything, "m8i.large")

    ((asked, described),) = launcher.templates
    assert compare_launch_templates(asked, described) == ()
    assert asked.keys() == described.keys()


@pytest.mark.parametrize("protected", [True, False])
def test_a_protected_instance_is_not_terminated(launcher: OptionLauncher, protected: bool) -> None:
    (made,) = launcher.ec2.run_instances(
        ImageId=launcher.pad.image(), InstanceType="m5.large", MinCount=1, MaxCount=1, DisableApiTermination=protected
    )["Instances"]

    if protected:
        with pytest.raises(ClientError, match="OperationNotPermitted"):
            launcher.ec2.terminate_instances(InstanceIds=[made["InstanceId"]])
    else:
        launcher.ec2.terminate_instances(InstanceIds=[made["InstanceId"]])

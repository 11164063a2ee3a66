"""Instance types that cannot have what a node class sets are not offered; those that can have it say how much."""

from collections.abc import Mapping

import pytest

from joiner.catalogue import Catalogue, InstanceType, compute_allocatable, compute_capacity
from joiner.catalogue.class_compatibility import find_class_conflict, find_incompatibility
from joiner.catalogue.instance_features import EFA, InstanceFeatures
from joiner.cluster import Requirements
from joiner.pools import ImageTerm, NodeClass, NodeClassRef, NodePool
from joiner.pools.node_class import ConnectionTracking, NetworkInterface
from joiner_cli.catalogue_files import packaged_catalogue

PRIMARY = NetworkInterface(0, 0)
GRAVITON_1 = "amiFamily: images of AL2023 do not boot on a1.large, they need Graviton2 or newer"
HPC = NodeClass("hpc", network_interfaces=(PRIMARY, NetworkInterface(0, 1, "efa-only"), NetworkInterface(1, 1)))


@pytest.fixture(scope="module")
def types() -> Mapping[str, InstanceType]:
    return packaged_catalogue().types


@pytest.mark.parametrize(
    ("name", "node_class", "reason"),
    [
        ("m5.large", NodeClass("default"), ""),
        ("m5.large", NodeClass("vms", nested_virtualization="disabled"), ""),
        (
            "m5.large",
            NodeClass("vms", nested_virtualization="enabled"),
            "cpuOptions.nestedVirtualization: m5.large cannot run virtual machines",
        ),
        ("m8i.large", NodeClass("vms", nested_virtualization="enabled"), ""),
        (
            "m4.large",
            NodeClass("idle", connection_tracking=ConnectionTracking(udp=45)),
            "connectionTracking: m4.large is not based on Nitro",
        ),
        ("m4.large", NodeClass("prefixes", ip_prefix_count=1), "ipPrefixCount: m4.large is not based on Nitro"),
        ("m5.large", NodeClass("prefixes", ip_prefix_count=9), ""),
        (
            "m5.large",
            NodeClass("prefixes", ip_prefix_count=10),
            "ipPrefixCount: an interface of m5.large takes at most 9 prefixes",
        ),
        ("m5.large", HPC, "networkInterfaces: m5.large has no network card 1"),
        ("p4d.24xlarge", HPC, ""),
        (
            "m5.large",
            NodeClass("four", network_interfaces=(PRIMARY, *(NetworkInterface(0, index) for index in (1, 2, 3)))),
            "networkInterfaces: the network card 0 of m5.large has 3 interfaces",
        ),
        (
            "m5.large",
            NodeClass("efa", network_interfaces=(PRIMARY, NetworkInterface(0, 1, "efa-only"))),
            "networkInterfaces: m5.large has 0 EFA interfaces from its card 0 on",
        ),
        (
            "p6-b300.48xlarge",
            NodeClass("efa", network_interfaces=(PRIMARY, NetworkInterface(0, 1, "efa-only"))),
            "networkInterfaces: p6-b300.48xlarge has 16 EFA interfaces from its card 1 on",
        ),
        ("a1.large", NodeClass("default"), GRAVITON_1),
        ("a1.large", NodeClass("default", ami_family="AL2023"), GRAVITON_1),
        (
            "a1.large",
            NodeClass("own", ami_family="Custom", image_terms=(ImageTerm(alias="al2023@latest"),)),
            GRAVITON_1,
        ),
        ("a1.large", NodeClass("own", ami_family="Custom", image_terms=(ImageTerm(id="ami-1"),)), ""),
        ("a1.large", NodeClass("own", "AWSNodeTemplate", launch_template="mine"), ""),
        ("a1.large", NodeClass("default", ami_family="Bottlerocket"), ""),
        ("m6g.large", NodeClass("default"), ""),
    ],
)
def test_a_type_lacks_what_the_class_sets(
    types: Mapping[str, InstanceType], name: str, node_class: NodeClass, reason: str
) -> None:
    assert find_incompatibility(types[name], node_class) == reason


def test_declared_efa_interfaces_are_the_efa_of_a_node_and_serve_no_pods(types: Mapping[str, InstanceType]) -> None:
    known = types["p4d.24xlarge"]

    has = compute_capacity(known, HPC)

    assert has[EFA] == compute_allocatable(known, HPC)[EFA] == 1
    assert has["pods"] == 14 * 49 + 2
    assert EFA not in compute_capacity(known, NodeClass("plain"))
    assert compute_capacity(known, NodeClass("plain"), efa=True)[EFA] == 4


@pytest.mark.parametrize("features", [InstanceFeatures(), InstanceFeatures((15, 15), 1, 1, True, False)])
def test_features_survive_the_catalogue_document(features: InstanceFeatures) -> None:
    assert InstanceFeatures.from_json(features.to_json()) == features


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        (
            "m5",
            "NodePool/vms: spec.template.spec.nodeClassRef is EC2NodeClass/vms: no instance type that meets the pool's "
            "requirements can have what its class sets; for example, cpuOptions.nestedVirtualization: m5.12xlarge "
            "cannot run virtual machines: change the class, or the requirements of the pool",
        ),
        ("m8i", ""),
    ],
)
def test_a_pool_without_a_type_for_its_class_has_a_problem_with_the_field(
    types: Mapping[str, InstanceType], family: str, problem: str
) -> None:
    requirements = Requirements.from_labels({"karpenter.k8s.aws/instance-family": family})
    pool = NodePool("vms", NodeClassRef("EC2NodeClass", "vms"), requirements=requirements)

    found = find_class_conflict(pool, NodeClass("vms", nested_virtualization="enabled"), Catalogue(types))

    assert ("" if found is None else str(found)) == problem

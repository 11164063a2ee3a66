"""Instance types that cannot have what a node class sets are not offered; those that can have it say how much."""

from collections.abc import Mapping

import pytest

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, compute_allocatable, compute_capacity
from joiner.catalogue.class_compatibility import (
    find_class_conflict,
    find_exclusion,
    find_unused_instance_store,
    list_exclusions,
)
from joiner.catalogue.instance_features import EFA, InstanceFeatures
from joiner.cluster import Requirements
from joiner.pools import Image, ImageTerm, NodeClass, NodeClassRef, NodePool, ResolvedNodeClass
from joiner.pools.node_class import ConnectionTracking, ImageFamily, NetworkInterface
from joiner.pools.resolved_node_class import PlacementGroup
from joiner_cli.catalogue_files import packaged_catalogue

PRIMARY = NetworkInterface(0, 0)
GRAVITON_1 = "spec.amiFamily: images of AL2023 do not boot on a1.large, they need Graviton2 or newer"
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
            "spec.cpuOptions.nestedVirtualization: m5.large cannot run virtual machines",
        ),
        ("m8i.large", NodeClass("vms", nested_virtualization="enabled"), ""),
        (
            "m4.large",
            NodeClass("idle", connection_tracking=ConnectionTracking(udp=45)),
            "spec.connectionTracking: m4.large is not based on Nitro",
        ),
        ("m4.large", NodeClass("prefixes", ip_prefix_count=1), "spec.ipPrefixCount: m4.large is not based on Nitro"),
        ("m5.large", NodeClass("prefixes", ip_prefix_count=9), ""),
        (
            "m5.large",
            NodeClass("prefixes", ip_prefix_count=10),
            "spec.ipPrefixCount: an interface of m5.large takes at most 9 prefixes",
        ),
        ("m5.large", HPC, "spec.networkInterfaces: m5.large has no network card 1"),
        ("p4d.24xlarge", HPC, ""),
        (
            "m5.large",
            NodeClass("four", network_interfaces=(PRIMARY, *(NetworkInterface(0, index) for index in (1, 2, 3)))),
            "spec.networkInterfaces: the network card 0 of m5.large has 3 interfaces",
        ),
        (
            "m5.large",
            NodeClass("efa", network_interfaces=(PRIMARY, NetworkInterface(0, 1, "efa-only"))),
            "spec.networkInterfaces: m5.large has 0 EFA interfaces from its card 0 on",
        ),
        (
            "p6-b300.48xlarge",
            NodeClass("efa", network_interfaces=(PRIMARY, NetworkInterface(0, 1, "efa-only"))),
            "spec.networkInterfaces: p6-b300.48xlarge has 16 EFA interfaces from its card 1 on",
        ),
        ("a1.large", NodeClass("default"), GRAVITON_1),
        ("a1.large", NodeClass("default", ami_family="AL2023"), GRAVITON_1),
        (
            "a1.large",
            NodeClass("own", ami_family="Custom", image_terms=(ImageTerm(alias="al2023@latest"),)),
            GRAVITON_1.replace("amiFamily", "amiSelectorTerms"),
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
    found = find_exclusion(types[name], node_class)

    assert ("" if found is None else str(found)) == reason


def test_a_class_that_is_not_declared_has_the_images_that_were_assumed(types: Mapping[str, InstanceType]) -> None:
    al2023, bottlerocket = (
        ResolvedNodeClass("x", "EC2NodeClass", ami_family=one) for one in ("AL2023", "Bottlerocket")
    )

    assert str(find_exclusion(types["a1.large"], None, al2023)) == GRAVITON_1
    assert find_exclusion(types["a1.large"], None, bottlerocket) is None


WINDOWS = NodeClass("windows", ami_family="Windows2022", image_terms=(ImageTerm(alias="windows2022@latest"),))
AMD64_ONLY = ResolvedNodeClass(
    "windows",
    "EC2NodeClass",
    images=(Image("ami-1", "amd64", Requirements.from_labels({names.ARCH: "amd64"})),),
    placement_group=PlacementGroup("pg-1", "near", "cluster"),
)


@pytest.mark.parametrize(
    ("name", "node_class", "reason"),
    [
        ("m5.large", WINDOWS, ""),
        ("m6g.large", WINDOWS, "spec.amiSelectorTerms: its images are for amd64, and m6g.large is arm64"),
        ("m6g.large", None, "spec.amiSelectorTerms: its images are for amd64, and m6g.large is arm64"),
        (
            "m6g.large",
            NodeClass("default", "AWSNodeTemplate"),
            "spec.amiFamily: its images are for amd64, and m6g.large is arm64",
        ),
        (
            "m6g.large",
            NodeClass("default", "Inline", launch_template="mine"),
            "spec.provider.launchTemplate (its amiSelector): its images are for amd64, and m6g.large is arm64",
        ),
        (
            "t3.large",
            WINDOWS,
            "spec.placementGroupSelector: t3.large cannot be in a cluster placement group, which near is",
        ),
        (
            "m4.large",
            NodeClass("default", ip_family="ipv6"),
            "m4.large is not based on Nitro, which the ipFamily ipv6 of the cluster needs",
        ),
    ],
)
def test_a_type_lacks_an_image_a_placement_group_or_addresses(
    types: Mapping[str, InstanceType], name: str, node_class: NodeClass | None, reason: str
) -> None:
    found = find_exclusion(types[name], node_class, AMD64_ONLY)

    assert ("" if found is None else str(found)) == reason


@pytest.mark.parametrize(
    ("known", "families", "noted"),
    [(["m5"], (None,), True), (["m5", "m5d"], (None,), False), ([], (None,), False), (["m5"], ("Windows2022",), False)],
    ids=["no store", "a store", "no type", "Windows, which has a warning of its own"],
)
def test_a_pool_whose_types_have_no_instance_store_has_a_note_about_its_policy(
    types: Mapping[str, InstanceType], known: list[str], families: tuple[ImageFamily | None], noted: bool
) -> None:
    striped = NodeClass("fast", ami_family=families[0], instance_store_policy="RAID0")
    pool = NodePool("web", striped.ref)

    found = find_unused_instance_store(pool, striped, (types[f"{each}.large"].labels for each in known))

    assert (found is not None) == noted
    if found:
        assert str(found) == (
            "NodePool/web: spec.template.spec.nodeClassRef is EC2NodeClass/fast: spec.instanceStorePolicy of it "
            "changes nothing here, because no instance type of the pool has an instance store: require "
            "karpenter.k8s.aws/instance-local-nvme, or remove the field"
        )


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
            "NodePool/vms: spec.template.spec.nodeClassRef is EC2NodeClass/vms: this class excludes every instance "
            "type that the pool allows; spec.cpuOptions.nestedVirtualization: m5.12xlarge cannot run virtual machines: "
            "change this field of the class, or allow other instance types",
        ),
        ("m8i", ""),
    ],
)
def test_a_pool_without_a_type_for_its_class_has_a_problem_with_the_field(
    types: Mapping[str, InstanceType], family: str, problem: str
) -> None:
    requirements = Requirements.from_labels({"karpenter.k8s.aws/instance-family": family})
    pool = NodePool("vms", NodeClassRef("EC2NodeClass", "vms"), requirements=requirements)

    excluded = list_exclusions(pool, NodeClass("vms", nested_virtualization="enabled"), Catalogue(types))
    found = find_class_conflict(pool, excluded)

    assert ("" if found is None else str(found)) == problem


@pytest.mark.parametrize(
    ("node_class", "field"),
    [
        (NodeClass("a"), "spec.amiFamily"),
        (NodeClass("a", image_terms=(ImageTerm(alias="al2023@latest"),)), "spec.amiSelectorTerms"),
        (NodeClass("a", ami_family="AL2023", image_terms=(ImageTerm(alias="al2023@latest"),)), "spec.amiSelectorTerms"),
    ],
)
def test_the_field_that_decides_the_family_is_named(node_class: NodeClass, field: str) -> None:
    found = find_exclusion(InstanceType("a1.large"), node_class)

    assert found is not None
    assert found.field == field

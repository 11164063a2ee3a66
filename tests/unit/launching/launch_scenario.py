"""A small cluster for the tests of launching: scenario c's pool and class, two types, three zones."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner.catalogue import Catalogue, InstanceType
from joiner.cluster import Resources
from joiner.launching import Launch, LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.node_class_answers import NodeClassAnswers
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from joiner.launching.node_class_resolution import resolve_node_class
from joiner.launching.node_images import list_image_parameters
from joiner.pools import (
    BlockDevice,
    NodeClaimTemplate,
    NodeClass,
    NodeClassRef,
    NodePool,
    ResolvedNodeClass,
    SecurityGroupTerm,
    SubnetTerm,
    build_node_claim,
)

VERSION: Final = "1.36"
CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
OF_CLUSTER: Final = AllowedResources(tags={"karpenter.sh/discovery": ("prod",)})
CEILINGS: Final = NodeClassPolicy(
    ("KarpenterNodeRole-prod", "special"),
    "prod-default-profile",
    ("amazon", "self"),
    account="123456789012",
    subnets=OF_CLUSTER,
    security_groups=OF_CLUSTER,
    snapshots=OF_CLUSTER,
    snapshot_owners=("amazon",),
    kms_keys=("arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",),
)


@dataclass(frozen=True, slots=True)
class Demo:
    """The response of DescribeCluster."""

    name: str = "prod"
    endpoint: str = "https://ABC.gr7.us-east-1.eks.amazonaws.com"
    certificate_authority: str = base64.b64encode(CERTIFICATE).decode()
    version: str = VERSION
    service_cidr: str = "10.100.0.0/16"


CLUSTER: Final = Demo()
TEMPLATE: Final = NodeClass(
    "default",
    "AWSNodeTemplate",
    subnet_terms=(SubnetTerm({"karpenter.sh/discovery": "prod"}),),
    security_group_terms=(SecurityGroupTerm({"karpenter.sh/discovery": "prod"}),),
    block_devices=(BlockDevice("/dev/xvda", 40, "gp3", delete_on_termination=True),),
)
POOL: Final = NodePool("default", TEMPLATE.ref, kind="Provisioner", uid="u-1", labels={"team": "a"})
MODERN: Final = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="u-2")
TAGGED: Final = [{"Key": "karpenter.sh/discovery", "Value": "prod"}]
SUBNETS: Final = tuple(
    {
        "SubnetId": f"subnet-{zone}{number}",
        "AvailabilityZone": f"us-east-1{zone}",
        "AvailableIpAddressCount": free,
        "Tags": TAGGED,
    }
    for zone, number, free in (("a", 1, 10), ("a", 2, 200), ("b", 1, 100), ("c", 1, 50))
)
GROUPS: Final = ({"GroupId": "sg-1", "GroupName": "nodes", "Tags": TAGGED},)


def parameters(node_class: NodeClass = TEMPLATE) -> dict[str, str]:
    """Return an image id for each of the class's parameters; it shows architecture and variant."""
    return {one.name: "ami-" + "-".join(one.name.split("/")[7:9]) for one in list_image_parameters(node_class, VERSION)}


def found(**answers: Any) -> NodeClassAnswers:
    return NodeClassAnswers(**{"subnets": SUBNETS, "security_groups": GROUPS, "parameters": parameters(), **answers})


def resolved(node_class: NodeClass = TEMPLATE, **answers: Any) -> ResolvedNodeClass:
    return resolve_node_class(node_class, found(**answers), CEILINGS, cluster=CLUSTER.name, kubernetes_version=VERSION)


def instance_type(name: str, arch: str = "amd64", **more: str) -> InstanceType:
    return InstanceType(name, labels={"kubernetes.io/arch": arch, "node.kubernetes.io/instance-type": name, **more})


CATALOGUE: Final = Catalogue.of(
    [
        instance_type("m5.large"),
        instance_type("c5.large"),
        instance_type("m6g.large", "arm64"),
        instance_type("g5.xlarge", **{"karpenter.k8s.aws/instance-gpu-count": "1"}),
    ]
)


def wanted(suffix: str, *offers: LaunchOffering, **changes: Any) -> ClaimToLaunch:
    pool = changes.pop("pool", POOL)
    claim = build_node_claim(
        pool, NodeClaimTemplate(requests=Resources.of(cpu=1)), suffix=suffix, lease=7, execution="up-1"
    )
    one = ClaimToLaunch(
        claim, pool, TEMPLATE, resolved(), "on-demand", offers or (LaunchOffering(0.096, "m5.large", "us-east-1a"),)
    )
    return replace(one, **changes)


def launches(*claims: ClaimToLaunch, execution: str = "up-1", attempt: int = 0) -> tuple[Launch, ...]:
    grouped, refused = group_launches(claims, CATALOGUE, CLUSTER, execution=execution, attempt=attempt)
    assert refused == ()
    return grouped


def override(launch: Launch, config: int = 0, index: int = 0) -> Mapping[str, Any]:
    chosen: Mapping[str, Any] = launch.request["LaunchTemplateConfigs"][config]["Overrides"][index]
    return chosen

"""The launch template of a user that a legacy node class names: which one is used, and what it may contain.

As in Karpenter v0.31, the latest version counts. Nodes get the content of the template in one of Joiner's own launch
templates (``joiner.pools.launch_template_version``). The content is read only of a template that the settings allow,
because IAM cannot limit which templates a role reads, and user data may contain secrets. A field that would get lost on
this way, or that Joiner's permissions or plans do not allow, is refused by its name. Source: EC2 API reference,
ResponseLaunchTemplateData.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.pools import LaunchTemplateVersion, NodeClass, NodeClassProblem
from joiner.pools.codecs.node_class_fields import OUR_TAGS
from joiner.pools.launch_template_version import decode_user_data, list_groups, list_template_tags
from joiner.pools.node_class import field_path

CONDITION: Final = "ValidationSucceeded"
INTERFACE_FIELDS: Final = frozenset(
    {
        "AssociatePublicIpAddress",
        "ConnectionTrackingSpecification",
        "DeviceIndex",
        "Groups",
        "InterfaceType",
        "Ipv4PrefixCount",
        "NetworkCardIndex",
    }
)
ALIKE: Final = ("AssociatePublicIpAddress", "ConnectionTrackingSpecification", "Ipv4PrefixCount")
"""Fields of a network interface that a node class has once for all interfaces with addresses."""

USED: Final[Mapping[str, frozenset[str] | None]] = {
    "BlockDeviceMappings": frozenset({"DeviceName", "Ebs"}),
    "CpuOptions": frozenset({"NestedVirtualization"}),
    "IamInstanceProfile": None,
    "ImageId": None,
    "MetadataOptions": frozenset(
        {"HttpEndpoint", "HttpProtocolIpv6", "HttpPutResponseHopLimit", "HttpTokens", "State"}
    ),
    "Monitoring": None,
    "NetworkInterfaces": INTERFACE_FIELDS,
    "Placement": frozenset({"GroupId", "GroupName"}),
    "SecurityGroupIds": None,
    "SecurityGroups": None,
    "TagSpecifications": None,
    "UserData": None,
}
"""The fields of a template that nodes get, with their own fields; None if they get all of these."""

EBS_FIELDS: Final = frozenset(
    {
        "DeleteOnTermination",
        "Encrypted",
        "Iops",
        "KmsKeyId",
        "SnapshotId",
        "Throughput",
        "VolumeInitializationRate",
        "VolumeSize",
        "VolumeType",
    }
)
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "EbsOptimized": "nodes have the default of their instance type",
    "InstanceType": "the requirements of the pool decide the instance type",
    "NetworkInterfaces.DeleteOnTermination": "Joiner's interfaces end with their instance",
    "NetworkInterfaces.Description": "Joiner's interfaces have none",
}
HARMLESS: Final[Mapping[str, object]] = {
    "CapacityReservationSpecification.CapacityReservationPreference": "none",
    "MetadataOptions.InstanceMetadataTags": "disabled",
    "Placement.Tenancy": "default",
}
"""Values that equal what Joiner sets, or the default of EC2."""

REASONS: Final[Mapping[str, str]] = {
    "CapacityReservationSpecification": "reservations are selected by capacityReservationSelectorTerms of an "
    "EC2NodeClass",
    "CpuOptions": "plans count the default vCPUs of an instance type",
    "CreditSpecification": "plans and prices assume the default credits of burstable types",
    "DisableApiTermination": "Joiner could not terminate the node",
    "InstanceMarketOptions": "the requirements of the pool decide the capacity type",
    "InstanceRequirements": "the requirements of the pool decide the instance type",
    "KeyName": "Joiner's role may use no key pair: write the key into the user data, or use Session Manager",
    "MetadataOptions": "pods on the host network must not read the tags of the instance",
    "NetworkInterfaces": "subnetSelector decides the subnets, and EC2 the addresses",
    "Placement": "subnetSelector decides the zone, and the requirements of the pool decide the tenancy "
    "(karpenter.k8s.aws/instance-tenancy)",
}
NOT_KEPT: Final = "Joiner does not set it on instances"


SETTING: Final = "nodeClasses.launchTemplates in clusters/NAME.yaml"


@dataclass(frozen=True, slots=True)
class DescribedTemplate:
    """EC2's description of a launch template, which does not have its content. `latest` is the number of its latest
    version."""

    id: str
    name: str
    latest: int
    tags: Mapping[str, str]

    @classmethod
    def from_ec2(cls, answer: Mapping[str, Any]) -> "DescribedTemplate":
        """Read an item of DescribeLaunchTemplates."""
        tags = {str(tag["Key"]): str(tag.get("Value", "")) for tag in answer.get("Tags") or ()}
        latest = int(answer["LatestVersionNumber"])
        return cls(answer["LaunchTemplateId"], answer["LaunchTemplateName"], latest, tags)

    def with_version(self, answer: Mapping[str, Any]) -> LaunchTemplateVersion:
        """Return the version in an item of DescribeLaunchTemplateVersions."""
        return LaunchTemplateVersion(
            self.id, self.name, version=int(answer["VersionNumber"]), data=answer["LaunchTemplateData"]
        )


def refuse_template(
    node_class: NodeClass, ceilings: NodeClassPolicy, found: DescribedTemplate | None = None
) -> list[NodeClassProblem]:
    """Return why the settings do not allow the template that the class names, before its content is read.

    Without a description (`found`), only settings that allow no template at all refuse it.
    """
    allowed = ceilings.launch_templates
    if not node_class.launch_template:
        return []
    if allowed is None:
        message = (
            f"the settings allow no launch template: allow {node_class.launch_template} by its id or by a tag in "
            f"{SETTING}, and deploy"
        )
    elif found is None or allowed.allows(found.id, found.tags):
        return []
    else:
        message = (
            f"the settings do not allow the launch template {found.name} ({found.id}); they allow {allowed}: "
            f"{'tag it so, or ' if allowed.tags else ''}add it to {SETTING} and deploy"
        )
    return [_problem(node_class, "LaunchTemplateNotAllowed", message)]


def explain_absence(node_class: NodeClass, found: DescribedTemplate | None = None) -> list[NodeClassProblem]:
    """Return that the template that the class names does not exist; or, with its description (`found`), that the latest
    version was deleted after the template was described."""
    message = f"there is no launch template {node_class.launch_template}: create it, or name another"
    if found:
        message = (
            f"version {found.latest}, the latest of the launch template {found.name} ({found.id}), was deleted while "
            f"Joiner read it: the next resolution of the class reads the latest version again"
        )
    return [_problem(node_class, "LaunchTemplateNotFound", message)]


def find_content_problems(node_class: NodeClass, version: LaunchTemplateVersion) -> list[NodeClassProblem]:
    """Return why nodes cannot have the content of a version, and which of its fields have no effect."""
    shown = f"version {version.version} of {version.name}"
    problems = [
        _problem(node_class, "LaunchTemplateNotSupported", f"{shown} {each}") for each in _list_refusals(version.data)
    ]
    if unused := [name for name in _list_fields(version.data) if name in WITHOUT_EFFECT]:
        message = "; ".join(f"{name} has no effect: {WITHOUT_EFFECT[name]}" for name in unused)
        problems.append(replace(_problem(node_class, "WithoutEffect", f"{shown}: {message}"), severity="info"))
    return problems


def _problem(node_class: NodeClass, reason: str, message: str) -> NodeClassProblem:
    return NodeClassProblem(CONDITION, reason, f"{field_path(node_class, 'launchTemplate')}: {message}")


def _list_refusals(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the content of a template, each with its remedy."""
    for path in _list_fields(data):
        if not _is_used(path) and path not in WITHOUT_EFFECT:
            yield f"sets {path}: {REASONS.get(path.partition('.')[0], NOT_KEPT)}: remove it"
    if not data.get("ImageId"):
        yield "names no image: set ImageId"
    if decode_user_data(str(data.get("UserData") or "")) is None:
        yield "has user data that is no text, such as compressed user data: write it as text"
    yield from _list_interface_refusals(data)
    for key in sorted(list_template_tags(data)):
        if key in OUR_TAGS or key.startswith("kubernetes.io/cluster/"):
            yield f"sets the tag {key}: Joiner sets this tag itself, and its permissions depend on it: remove it"
    if wrong := _differing_tags(data):
        yield f"gives {wrong} different values for different resources: Joiner gives each resource all tags"


def _list_interface_refusals(data: Mapping[str, Any]) -> Iterator[str]:
    groups = list_groups(data)
    if not any(groups) and not data.get("SecurityGroups"):
        yield "names no security group, for which EC2 takes the default group of the VPC: set SecurityGroupIds"
    if len(set(groups)) > 1:
        yield "has interfaces with different security groups: Joiner gives all of them to each interface"
    interfaces = data.get("NetworkInterfaces") or ()
    if interfaces and not any((each.get("DeviceIndex") or 0) == 0 for each in interfaces):
        yield "has no interface with the device index 0: EC2 needs one"
    for each in interfaces:
        if (kind := each.get("InterfaceType") or "interface") not in ("interface", "efa-only"):
            yield f"has an interface of the type {kind}: pods that request vpc.amazonaws.com/efa get such interfaces"
    addressed = [each for each in interfaces if each.get("InterfaceType") != "efa-only"]
    for name in ALIKE:
        if any((each.get(name) or None) != (addressed[0].get(name) or None) for each in addressed):
            yield f"has interfaces with different values of {name}: give all of them the same"


def _is_used(path: str) -> bool:
    name, _, inner = path.partition(".")
    if name == "BlockDeviceMappings" and inner.startswith("Ebs."):
        return inner.removeprefix("Ebs.") in EBS_FIELDS
    fields = USED.get(name, frozenset())
    return fields is None or inner in fields


def _list_fields(data: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields that are set and matter, two levels deep, and three for volumes, sorted.

    >>> _list_fields({"KeyName": "mine", "HibernationOptions": {"Configured": False}, "Placement": {"Tenancy": "host"}})
    ['KeyName', 'Placement.Tenancy']
    """
    found: set[str] = set()
    for name, value in data.items():
        entries = value if isinstance(value, list) else [value]
        fields = [each for each in entries if isinstance(each, Mapping)]
        if fields and name not in ("IamInstanceProfile", "TagSpecifications"):
            found.update(f"{name}.{inner}" for each in fields for inner in _list_inner(name, each))
        elif not _is_unset(value):
            found.add(name)
    return sorted(found)


def _list_inner(name: str, fields: Mapping[str, Any]) -> Iterator[str]:
    for inner, value in fields.items():
        if _is_unset(value) or HARMLESS.get(f"{name}.{inner}") == value:
            continue
        if inner == "Ebs":
            yield from (f"Ebs.{each}" for each, given in value.items() if not _is_unset(given))
        else:
            yield inner


def _is_unset(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_unset(each) for each in value.values())
    return not value


def _differing_tags(data: Mapping[str, Any]) -> str:
    """Return the keys of tags that have several values."""
    values: dict[str, set[str]] = {}
    for key, value in _tags(data.get("TagSpecifications") or ()):
        values.setdefault(key, set()).add(value)
    return ", ".join(sorted(key for key, given in values.items() if len(given) > 1))


def _tags(specifications: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for specification in specifications:
        for tag in specification.get("Tags") or ():
            yield str(tag["Key"]), str(tag.get("Value", ""))

"""A version of a launch template that a legacy node class names, and the node class that it stands for.

The class of a node then is the declared class with the fields that the template decides. Joiner does not launch from
the user's template itself, but from one of its own with the same content: so its tags, its limits on what node classes
may name, and its comparison of templates hold. Source: Karpenter v0.31, "Node Templates" (spec.launchTemplate); EC2 API
reference, ResponseLaunchTemplateData.

>>> version = LaunchTemplateVersion("lt-1", "mine", 3, {"ImageId": "ami-1", "SecurityGroupIds": ["sg-1"]})
>>> complete = complete_class(NodeClass("default", "AWSNodeTemplate", launch_template="mine"), version)
>>> complete.ami_family, complete.image_terms[0].id, complete.security_group_terms[0].id
('Custom', 'ami-1', 'sg-1')
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from joiner.pools.node_class import (
    EFA_ONLY,
    BlockDevice,
    ConnectionTracking,
    ImageTerm,
    MetadataOptions,
    NetworkInterface,
    NodeClass,
    PlacementGroupTerm,
    SecurityGroupTerm,
)

PARAMETER: Final = "resolve:ssm:"
"""The beginning of an image that is the value of a parameter."""

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LaunchTemplateVersion:
    """One version of a launch template of a user; ``data`` is ResponseLaunchTemplateData."""

    id: str
    name: str
    version: int
    data: Data

    def without_user_data(self) -> "LaunchTemplateVersion":
        """Return the version with all that decides the capacity of a node."""
        return replace(self, data={name: value for name, value in self.data.items() if name != "UserData"})

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form of the value."""
        return {"id": self.id, "name": self.name, "version": self.version, "data": dict(self.data)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> "LaunchTemplateVersion":
        """Read the JSON form of the value, as `to_json` returns it."""
        return cls(raw["id"], raw["name"], raw["version"], raw["data"])


def complete_class(node_class: NodeClass, version: LaunchTemplateVersion | None) -> NodeClass:
    """Return the class with the fields that the launch template decides; unchanged without a template.

    Fields that the template does not set have the defaults of the class. Its tags are added to those of the class,
    which take precedence.
    """
    if version is None:
        return node_class
    data = version.data
    interfaces = data.get("NetworkInterfaces") or ()
    # An efa-only interface has no addresses; those with addresses are alike (launching/user_launch_templates.py)
    addressed: Data = next((each for each in interfaces if each.get("InterfaceType") != EFA_ONLY), {})
    profile = data.get("IamInstanceProfile") or {}
    name = profile.get("Name") or str(profile.get("Arn") or "").rpartition("/")[2]
    return replace(
        node_class,
        ami_family="Custom",
        image_terms=_read_image(str(data.get("ImageId") or "")),
        security_group_terms=_read_groups(data),
        instance_profile=name or None,
        block_devices=tuple(_read_device(each) for each in data.get("BlockDeviceMappings") or ()),
        user_data=decode_user_data(str(data.get("UserData") or "")) or None,
        tags={**list_template_tags(data), **node_class.tags},
        metadata_options=_read_metadata_options(data.get("MetadataOptions") or {}, node_class.metadata_options),
        detailed_monitoring=bool((data.get("Monitoring") or {}).get("Enabled")),
        associate_public_ip_address=addressed.get("AssociatePublicIpAddress"),
        ip_prefix_count=addressed.get("Ipv4PrefixCount") or 0,
        connection_tracking=_read_tracking(addressed.get("ConnectionTrackingSpecification") or {}),
        network_interfaces=_read_interfaces(interfaces),
        nested_virtualization=(data.get("CpuOptions") or {}).get("NestedVirtualization"),
        placement_group=_read_placement(data.get("Placement") or {}),
    )


def decode_user_data(encoded: str) -> str | None:
    """Return user data as text; None if it is no text, for example because it is compressed.

    >>> decode_user_data("IyEvYmluL3NoCg==")
    '#!/bin/sh\\n'
    >>> decode_user_data("H4sIAAAA") is None
    True
    """
    try:
        return base64.b64decode("".join(encoded.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def list_template_tags(data: Data) -> dict[str, str]:
    """Return the tags that a template gives to what it launches. Joiner gives all of them to each resource."""
    return {
        str(tag["Key"]): str(tag.get("Value", ""))
        for specification in data.get("TagSpecifications") or ()
        for tag in specification.get("Tags") or ()
    }


def list_groups(data: Data) -> list[tuple[str, ...]]:
    """Return the security groups of the template: one item, or one for each of its network interfaces."""
    interfaces = data.get("NetworkInterfaces") or ()
    of_interfaces = [tuple(sorted(each.get("Groups") or ())) for each in interfaces]
    own = tuple(sorted(data.get("SecurityGroupIds") or ()))
    return of_interfaces if any(of_interfaces) else [own]


def _read_groups(data: Data) -> tuple[SecurityGroupTerm, ...]:
    by_id = sorted({each for groups in list_groups(data) for each in groups})
    by_name = data.get("SecurityGroups") or ()
    return (*(SecurityGroupTerm(id=each) for each in by_id), *(SecurityGroupTerm(name=each) for each in by_name))


def _read_image(image: str) -> tuple[ImageTerm, ...]:
    if image.startswith(PARAMETER):
        return (ImageTerm(ssm_parameter=image.removeprefix(PARAMETER)),)
    return (ImageTerm(id=image),) if image else ()


def _read_device(mapping: Data) -> BlockDevice:
    ebs = mapping.get("Ebs") or {}
    return BlockDevice(
        device_name=str(mapping.get("DeviceName") or ""),
        size_gib=ebs.get("VolumeSize"),
        volume_type=ebs.get("VolumeType"),
        iops=ebs.get("Iops"),
        throughput=ebs.get("Throughput"),
        encrypted=ebs.get("Encrypted"),
        kms_key_id=ebs.get("KmsKeyId"),
        snapshot_id=ebs.get("SnapshotId"),
        delete_on_termination=ebs.get("DeleteOnTermination"),
        initialization_rate=ebs.get("VolumeInitializationRate"),
    )


def _read_metadata_options(given: Data, default: MetadataOptions) -> MetadataOptions:
    """Return the options; those that the template does not set are the defaults of the class, IMDSv2 only."""
    return MetadataOptions(
        http_endpoint=given.get("HttpEndpoint") or default.http_endpoint,
        http_protocol_ipv6=given.get("HttpProtocolIpv6") or default.http_protocol_ipv6,
        http_put_response_hop_limit=given.get("HttpPutResponseHopLimit") or default.http_put_response_hop_limit,
        http_tokens=given.get("HttpTokens") or default.http_tokens,
    )


def _read_interfaces(interfaces: Sequence[Data]) -> tuple[NetworkInterface, ...]:
    """Return the interfaces; none for a single ordinary one, which is the default of a class."""
    read = tuple(
        NetworkInterface(
            card=each.get("NetworkCardIndex") or 0,
            device=each.get("DeviceIndex") or 0,
            kind=EFA_ONLY if each.get("InterfaceType") == EFA_ONLY else "interface",
        )
        for each in interfaces
    )
    return () if read in ((), (NetworkInterface(0, 0),)) else read


def _read_tracking(given: Data) -> ConnectionTracking | None:
    if not given:
        return None
    return ConnectionTracking(
        tcp_established=given.get("TcpEstablishedTimeout"),
        udp_stream=given.get("UdpStreamTimeout"),
        udp=given.get("UdpTimeout"),
    )


def _read_placement(given: Data) -> PlacementGroupTerm | None:
    name, identifier = given.get("GroupName") or "", given.get("GroupId") or ""
    return PlacementGroupTerm("" if identifier else name, identifier) if name or identifier else None

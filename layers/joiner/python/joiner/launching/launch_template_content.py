"""Launch templates: all that EC2 wants to know of a node beside its type, zone and capacity type.

A template's name is a digest of its content, so equal content is one template. A template that exists already is
compared with the content that was wanted before it is used (`template_content`): any principal that may create launch
templates could have made it. Source: EC2 API reference, RequestLaunchTemplateData.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from joiner import names
from joiner.launching.launch import LaunchTemplate
from joiner.pools import BlockDevice, NodeClass, NodePool, ResolvedNodeClass
from joiner.pools.node_class import ImageFamily

FAMILY_DEVICES: Mapping[ImageFamily, tuple[BlockDevice, ...]] = {
    "AL2": (BlockDevice("/dev/xvda", 20, "gp3", encrypted=True),),
    "AL2023": (BlockDevice("/dev/xvda", 20, "gp3", encrypted=True),),
}
"""The volumes of a node whose class names none; an image of one's own keeps its own."""


TAGGED: Mapping[bool, tuple[str, ...]] = {
    False: ("network-interface",),
    True: ("network-interface", "spot-instances-request"),
}
"""What a template tags, by whether its launches are for spot: only kinds of resources that each such launch creates."""


def build_launch_template(
    node_class: NodeClass,
    resolved: ResolvedNodeClass,
    pool: NodePool,
    *,
    cluster: str,
    image: str,
    user_data: str,
    capacity_type: str,
) -> LaunchTemplate:
    """The template of a class's nodes of one capacity type that start from ``image`` with this user data (text).

    EC2 refuses a launch that tags Spot requests and makes none, so the capacity type is part of a template's content.
    """
    tags = build_owner_tags(cluster, pool, node_class)
    groups = [group.id for group in resolved.security_groups]
    options = node_class.metadata_options
    data: dict[str, Any] = {
        "ImageId": image,
        "UserData": base64.b64encode(user_data.encode()).decode(),
        "IamInstanceProfile": {"Name": resolved.instance_profile},
        "MetadataOptions": {
            "HttpEndpoint": options.http_endpoint,
            "HttpProtocolIpv6": options.http_protocol_ipv6,
            "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
            "HttpTokens": options.http_tokens,
            "InstanceMetadataTags": "disabled",  # a pod on the node's network must not read our tags
        },
        "Monitoring": {"Enabled": node_class.detailed_monitoring},
        # The fleet tags instances and volumes; interfaces and requests for spot take their tags from here only
        "TagSpecifications": [_tagged(kind, tags) for kind in TAGGED[capacity_type == names.SPOT]],
    }
    if node_class.associate_public_ip_address is None:
        data["SecurityGroupIds"] = groups
    else:
        public = node_class.associate_public_ip_address
        data["NetworkInterfaces"] = [{"DeviceIndex": 0, "AssociatePublicIpAddress": public, "Groups": groups}]
    if devices := node_class.block_devices or FAMILY_DEVICES.get(resolved.ami_family, ()):
        data["BlockDeviceMappings"] = [build_device_mapping(device) for device in devices]
    digest = hashlib.sha256(json.dumps([data, tags], sort_keys=True).encode()).hexdigest()[:16]
    return LaunchTemplate(name=f"joiner/{cluster}/{digest}", data=data, tags=tags)


def build_device_mapping(device: BlockDevice) -> dict[str, Any]:
    """One mapping, with only what is said; a volume goes with its instance unless it is said to stay."""
    said = {
        "DeleteOnTermination": True if device.delete_on_termination is None else device.delete_on_termination,
        "Encrypted": device.encrypted,
        "Iops": device.iops,
        "KmsKeyId": device.kms_key_id,
        "SnapshotId": device.snapshot_id,
        "Throughput": device.throughput,
        "VolumeInitializationRate": device.initialization_rate,
        "VolumeSize": device.size_gib,
        "VolumeType": device.volume_type,
    }
    return {"DeviceName": device.device_name, "Ebs": {key: value for key, value in said.items() if value is not None}}


def build_owner_tags(cluster: str, pool: NodePool, node_class: NodeClass) -> dict[str, str]:
    """Whose a resource is: the user's own tags, and over them ours, on which permissions hang. A Provisioner's carry
    both pool tags.
    """
    ours = {
        names.cluster_tag(cluster): "owned",
        names.CLUSTER_NAME_TAG: cluster,
        names.NODEPOOL: pool.name,
        names.NODECLASS: node_class.name,
    }
    if pool.legacy:
        ours[names.PROVISIONER] = pool.name
    return {**node_class.tags, **ours}


def _tagged(kind: str, tags: Mapping[str, str]) -> dict[str, Any]:
    return {"ResourceType": kind, "Tags": [{"Key": key, "Value": tags[key]} for key in sorted(tags)]}

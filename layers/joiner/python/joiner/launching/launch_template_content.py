"""Launch templates: the content of a launch except instance type, zone and capacity type.

The name of a template is a digest of its content, so equal content is one template. An existing template is compared
with the wanted content before it is used (`launch_template_comparison`): any principal that may create launch templates
could have created it. Source: EC2 API reference, RequestLaunchTemplateData.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from joiner import names
from joiner.catalogue.instance_features import InstanceFeatures
from joiner.launching.image_families.image_family_registry import default_devices
from joiner.launching.launch import LaunchTemplate
from joiner.launching.node_interfaces import NO_FEATURES, build_interface_fields
from joiner.pools import BlockDevice, NodeClass, NodePool, ResolvedNodeClass
from joiner.pools.capacity_reservations import CAPACITY_BLOCK, CapacityReservation
from joiner.pools.resolved_node_class import PlacementGroup

INTERRUPTIBLE_MARKET: Final = "interruptible-capacity-reservation"

TAGGED: Mapping[bool, tuple[str, ...]] = {
    False: ("network-interface",),
    True: ("network-interface", "spot-instances-request"),
}
"""The resource types that a template tags, by whether its launches are for spot. Each such launch creates all of
them.
"""


def build_launch_template(
    node_class: NodeClass,
    resolved: ResolvedNodeClass,
    pool: NodePool,
    *,
    cluster: str,
    image: str,
    user_data: str,
    capacity_type: str,
    reservation: CapacityReservation | None = None,
    features: InstanceFeatures = NO_FEATURES,
    tenancy: str = names.DEFAULT_TENANCY,
) -> LaunchTemplate:
    """Return the template for nodes of a class with one capacity type, ``image`` and user data (text).

    EC2 refuses tags for Spot requests in a launch that makes none, so the capacity type is part of the content.
    ``reservation`` is the capacity reservation of the nodes; other nodes use none, not even an open one.
    ``features`` are those of the instance type if a pod of the nodes requests EFA. The ``tenancy`` is set only if it is
    not the default: a VPC may have dedicated hardware as its own default.
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
            "InstanceMetadataTags": "disabled",  # pods on the host network must not read the tags
        },
        "Monitoring": {"Enabled": node_class.detailed_monitoring},
        **_reservation_fields(reservation),
        **_placement_fields(resolved.placement_group, pool, tenancy),
        # The fleet tags instances and volumes; interfaces and Spot requests get their tags only from here
        "TagSpecifications": [_tagged(kind, tags) for kind in TAGGED[capacity_type == names.SPOT]],
    }
    data |= build_interface_fields(node_class, groups, features)
    if node_class.nested_virtualization:
        data["CpuOptions"] = {"NestedVirtualization": node_class.nested_virtualization}
    if devices := node_class.block_devices or default_devices(resolved.ami_family):
        data["BlockDeviceMappings"] = [build_device_mapping(device) for device in devices]
    digest = hashlib.sha256(json.dumps([data, tags], sort_keys=True).encode()).hexdigest()[:16]
    return LaunchTemplate(name=f"{names.template_prefix(cluster)}{digest}", data=data, tags=tags)


def _placement_fields(group: PlacementGroup | None, pool: NodePool, tenancy: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"Tenancy": tenancy} if tenancy != names.DEFAULT_TENANCY else {}
    if group:
        partition = group.choose_partition(pool.requirements)
        fields |= {"GroupId": group.id, **({"PartitionNumber": partition} if partition else {})}
    return {"Placement": fields} if fields else {}


def _reservation_fields(reservation: CapacityReservation | None) -> dict[str, Any]:
    """Return the fields that name the reservation.

    Without the preference `none`, EC2 would use any open reservation of the account that matches.
    """
    if reservation is None:
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    market_type = find_market_type(reservation)
    return {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": reservation.id},
        },
        **({"InstanceMarketOptions": {"MarketType": market_type}} if market_type else {}),
    }


def find_market_type(reservation: CapacityReservation) -> str:
    """Return the market type of launches into a reservation; empty for an ordinary one."""
    if reservation.kind == CAPACITY_BLOCK:
        return CAPACITY_BLOCK
    return INTERRUPTIBLE_MARKET if reservation.interruptible else ""


def build_device_mapping(device: BlockDevice) -> dict[str, Any]:
    """Return one mapping with only the fields that are set. A volume is deleted with its instance by default."""
    ebs = {
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
    return {"DeviceName": device.device_name, "Ebs": {key: value for key, value in ebs.items() if value is not None}}


def build_owner_tags(cluster: str, pool: NodePool, node_class: NodeClass) -> dict[str, str]:
    """Return the tags of a resource: those of the user, and those of Joiner, which take precedence.

    Permissions depend on Joiner's tags. Resources of a Provisioner have both pool tags.
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

"""RunInstances for one launch pool of a fleet: the checks of EC2, then instances with everything that the request sets.

moto's own launch ignores much of a launch template. This sets what `DescribeInstances`, `DescribeVolumes` and
`DescribeNetworkInterfaces` show afterwards: profile, groups, metadata options, volumes (the image's, merged with those
of the request), tags of instances, volumes and network interfaces.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.utils import parse_user_data
from moto.iam.models import iam_backends

from joiner_local.aws.ec2 import ebs_volumes, network_interfaces, placement_groups, processor_options
from joiner_local.aws.ec2.capacity_pools import SPOT
from joiner_local.aws.ec2.fleet_requests import LaunchPool, Tags, tags_by_type, user_data_problem
from joiner_local.aws.ec2.reservation_api import RESERVATIONS
from joiner_local.aws.ec2.spot_role import SPOT_ROLE

PROVISIONED: Final = ("io1", "io2")
ROOT_GIB: Final = 8  # of an image without one

Problem = tuple[str, str]  # EC2's error code and message

NO_SPOT_ROLE: Final[Problem] = (
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
)
UNTAGGED: Final = {
    "network-interface": ("network interfaces", "network interfaces"),
    "spot-instances-request": ("Spot instances requests", "Spot instances requests"),
}

GROUPS_OF_AN_INTERFACE: Final = 5
"""Security groups of a network interface: the default quota. Source: Amazon VPC user guide, "Amazon VPC quotas"."""


@dataclass(frozen=True, slots=True)
class PoolLaunch:
    """A launch in one pool: the count, the fleet, and the tags of the request."""

    asked: LaunchPool
    count: int
    fleet_id: str
    tags: Mapping[str, Tags]


def problem(asked: LaunchPool, backend: Any) -> Problem | None:
    """Return the first error that RunInstances finds in this pool."""
    return next(_problems(asked, backend), None)


def _group_problems(data: Mapping[str, Any], subnet: Any, backend: Any) -> Iterator[Problem]:
    for group_id in _group_ids(data):
        group = backend.get_security_group_from_id(group_id)
        if group is None:
            yield "InvalidGroup.NotFound", f"The security group '{group_id}' does not exist"
        elif subnet is not None and group.vpc_id != subnet.vpc_id:
            yield "InvalidParameter", f"Security group {group_id} and subnet {subnet.id} belong to different networks."
    if any(len(groups) > GROUPS_OF_AN_INTERFACE for groups in _groups_by_interface(data)):
        yield (
            "SecurityGroupsPerInterfaceLimitExceeded",
            "The maximum number of security groups per interface has been reached.",
        )


def _problems(asked: LaunchPool, backend: Any) -> Iterator[Problem]:
    data, pool = asked.data, asked.pool
    subnet = next(
        (zones[asked.subnet_id] for zones in list(backend.subnets.values()) if asked.subnet_id in zones), None
    )
    if subnet is None:
        yield "InvalidSubnetID.NotFound", f"The subnet ID '{asked.subnet_id}' does not exist"
    elif subnet.availability_zone != pool.zone:
        yield "InvalidParameterValue", f"The subnet '{subnet.id}' is not in the Availability Zone '{pool.zone}'."
    if not _offered(pool.instance_type, pool.zone, backend.region_name):
        yield (
            "InvalidFleetConfiguration",
            f"Your requested instance type ({pool.instance_type}) is not supported in your requested Availability "
            f"Zone ({pool.zone}).",
        )
    if pool.lifecycle == SPOT and "spot" not in INSTANCE_TYPES[pool.instance_type].get("SupportedUsageClasses", ()):
        yield (
            "InvalidFleetConfiguration",
            f"The instance type {pool.instance_type} is not supported for Spot Instances.",
        )
    if found := RESERVATIONS.problem(data, pool):
        yield found
    yield from _image_problems(data, pool.instance_type, backend)
    yield from ebs_volumes.problems(data, backend)
    yield from network_interfaces.interface_problems(data, pool.instance_type, subnet)
    yield from placement_groups.placement_problems(data, pool, backend)
    yield from processor_options.processor_problems(data, pool.instance_type)
    yield from _profile_problems(data.get("IamInstanceProfile") or {}, backend)
    yield from _group_problems(data, subnet, backend)
    if pool.lifecycle == SPOT and not SPOT_ROLE.exists():
        yield NO_SPOT_ROLE
    yield from _tag_problems(data, pool.lifecycle)
    if data.get("UserData") and (wrong := user_data_problem(str(data["UserData"]))):
        yield wrong


def _tag_problems(data: Mapping[str, Any], lifecycle: str) -> Iterator[Problem]:
    """Refuse tags for types of resources that the launch does not create."""
    interfaces = data.get("NetworkInterfaces") or [{}]
    created = {
        "instance": True,
        "volume": True,
        "network-interface": any(not nic.get("NetworkInterfaceId") for nic in interfaces),
        "spot-instances-request": lifecycle == SPOT,
    }
    for kind in tags_by_type(data.get("TagSpecifications") or []):
        if kind not in created:
            yield "InvalidParameterValue", f"'{kind}' is not a valid taggable resource type for this operation."
        elif not created[kind]:
            one, many = UNTAGGED[kind]
            message = f"You cannot specify tags for {one} if there are no {many} being created by the request."
            yield "InvalidParameterCombination", message


def _offered(instance_type: str, zone: str, region: str) -> bool:
    if region not in _OFFERED:
        offerings = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, [])
        _OFFERED[region] = frozenset((offering["InstanceType"], offering["Location"]) for offering in offerings)
    return (instance_type, zone) in _OFFERED[region]


_OFFERED: dict[str, frozenset[tuple[str, str]]] = {}


def _image_problems(data: Mapping[str, Any], instance_type: str, backend: Any) -> Iterator[Problem]:
    image_id = data.get("ImageId") or ""
    image = backend.amis.get(image_id)
    if not image_id:
        yield "MissingParameter", "The request must contain the parameter ImageId"
    elif not image_id.startswith("ami-"):
        yield "InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")'
    elif image is None:
        yield "InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist"
    else:
        architectures = INSTANCE_TYPES[instance_type]["ProcessorInfo"]["SupportedArchitectures"]
        if image.architecture not in architectures:
            yield (
                "InvalidParameterValue",
                f"The architecture '{','.join(architectures)}' of the specified instance type does not match "
                f"the architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI "
                "that have "
                "matching architectures, and try again.",
            )


def _profile_problems(profile: Mapping[str, str], backend: Any) -> Iterator[Problem]:
    if not profile:
        return
    found = _profile(profile, backend)
    field, value = ("arn", profile["Arn"]) if profile.get("Arn") else ("name", profile.get("Name"))
    if found is None:
        message = (
            f"Value ({value}) for parameter iamInstanceProfile.{field} is invalid. Invalid IAM Instance Profile {field}"
        )
        yield "InvalidParameterValue", message
    elif not found.roles:
        yield "InvalidParameterValue", f'IAM Instance Profile "{found.arn}" has no associated IAM Roles'


def _profile(profile: Mapping[str, str], backend: Any) -> Any:
    profiles = iam_backends[backend.account_id][backend.partition].instance_profiles
    return next(
        (p for p in list(profiles.values()) if profile.get("Name") == p.name or profile.get("Arn") == p.arn), None
    )


def _groups_by_interface(data: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the security groups of each interface; those of the launch itself are of its only one."""
    return [
        data.get("SecurityGroupIds") or (),
        *(nic.get("Groups") or () for nic in data.get("NetworkInterfaces") or ()),
    ]


def _group_ids(data: Mapping[str, Any]) -> list[str]:
    return [group for groups in _groups_by_interface(data) for group in groups]


def run(launch: PoolLaunch, backend: Any) -> list[Any]:
    """Launch the instances; they are pending."""
    data = launch.asked.data
    of_template = tags_by_type(data.get("TagSpecifications") or [])
    tags = {
        kind: {**of_template.get(kind, {}), **launch.tags.get(kind, {})}
        for kind in ("instance", "volume", "network-interface")
    }
    tags["instance"] |= {
        "aws:ec2launchtemplate:id": launch.asked.template["LaunchTemplateId"],
        "aws:ec2launchtemplate:version": launch.asked.template["Version"],
        "aws:ec2:fleet-id": launch.fleet_id,
    }
    return [_run_one(launch, tags, backend) for _ in range(launch.count)]


def _run_one(launch: PoolLaunch, tags: Mapping[str, Tags], backend: Any) -> Any:
    asked, data = launch.asked, launch.asked.data
    held = RESERVATIONS.use(data, asked.pool, backend)
    reservation = backend.run_instances(
        data["ImageId"],
        1,
        parse_user_data(str(data["UserData"])) if data.get("UserData") else None,
        [],
        instance_type=asked.pool.instance_type,
        is_instance_type_default=True,  # checked already: moto need not search all offerings for each instance
        region_name=backend.region_name,
        subnet_id=asked.subnet_id,
        key_name=data.get("KeyName"),
        security_group_ids=list(data.get("SecurityGroupIds") or []),
        nics=network_interfaces.as_moto_takes_them(data.get("NetworkInterfaces") or (), asked.subnet_id),
        tags={"instance": tags["instance"], "volume": tags["volume"]},
        metadata_options=data.get("MetadataOptions") or {},
        monitoring_state="enabled" if (data.get("Monitoring") or {}).get("Enabled") else "disabled",
        ebs_optimized=bool(data.get("EbsOptimized")),
        disable_api_termination=bool(data.get("DisableApiTermination")),
        block_device_mappings=[_as_moto_takes_it(each) for each in _devices(data, backend).values()],
        instance_market_options="spot" if asked.pool.lifecycle == SPOT else None,
        client_token=str(uuid.uuid4()),
    )
    instance = reservation.instances[0]
    instance.capacity_reservation_id = held.id if held else None
    if asked.pool.lifecycle == SPOT:
        instance.spot_instance_request_id = f"sir-{uuid.uuid4().hex[:8]}"
    if profile := data.get("IamInstanceProfile"):
        backend.associate_iam_instance_profile(instance.id, _profile(profile, backend).name)
    network_interfaces.describe_on(instance, data.get("NetworkInterfaces") or ())
    processor_options.describe_on(instance, data)
    placement_groups.describe_on(instance, data, backend)
    for interface in instance.nics.values():
        interface.add_tags(tags["network-interface"])
    _set_performance(instance, data, backend)
    return instance


def _devices(data: Mapping[str, Any], backend: Any) -> dict[str, dict[str, Any]]:
    """Return block devices by name: the image's own, merged field by field with those of the request."""
    image = backend.amis[data["ImageId"]]
    devices: dict[str, dict[str, Any]] = {}
    for mapping in [*image.block_device_mappings, *(data.get("BlockDeviceMappings") or [])]:
        name = mapping["DeviceName"]
        if mapping.get("NoDevice") is not None:
            devices.pop(name, None)
        elif "Ebs" in mapping:  # ephemeral devices belong to the type and are not volumes
            before = devices.get(name, {}).get(
                "Ebs", {"DeleteOnTermination": True, "VolumeType": "gp3", "VolumeSize": ROOT_GIB}
            )
            devices[name] = {"DeviceName": name, "Ebs": {**before, **mapping["Ebs"]}}
    return devices


def _as_moto_takes_it(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return volumes without IOPS, which moto drops at launch and then misses; `_set_performance` sets them."""
    ebs = device["Ebs"]
    return {**device, "Ebs": {**ebs, "VolumeType": "gp3"} if ebs.get("VolumeType") in PROVISIONED else ebs}


def _set_performance(instance: Any, data: Mapping[str, Any], backend: Any) -> None:
    """Set provisioned types, IOPS and throughput, which moto drops at launch."""
    asked = {mapping["DeviceName"]: mapping.get("Ebs", {}) for mapping in data.get("BlockDeviceMappings") or []}
    for name, device in instance.get_block_device_mapping:
        volume = backend.volumes[device.volume_id]
        if (kind := asked.get(name, {}).get("VolumeType")) in PROVISIONED:
            volume.volume_type = kind
        volume.iops = asked.get(name, {}).get("Iops") or volume.iops
        volume.throughput = asked.get(name, {}).get("Throughput") or (125 if volume.volume_type == "gp3" else None)

"""The fields of launches that the local EC2 keeps. It refuses others: a launch without them would differ silently.

Sources: EC2 API reference, RequestLaunchTemplateData, CreateFleetRequest, FleetLaunchTemplateOverridesRequest,
RunInstancesRequest.
"""

from collections.abc import Mapping
from typing import Any, Final

from moto.ec2.exceptions import EC2ClientError

Fields = Mapping[str, frozenset[str] | None]


def _of(*names: str) -> frozenset[str]:
    return frozenset(names)


OF_TEMPLATES: Final[Fields] = {
    "BlockDeviceMappings": _of("DeviceName", "Ebs", "NoDevice", "VirtualName"),
    "CapacityReservationSpecification": _of("CapacityReservationPreference", "CapacityReservationTarget"),
    "CpuOptions": None,  # processor_options refuses what is not modelled
    "DisableApiTermination": None,
    "EbsOptimized": None,
    "IamInstanceProfile": _of("Arn", "Name"),
    "ImageId": None,
    "InstanceMarketOptions": _of("MarketType"),
    "InstanceType": None,
    "KeyName": None,
    "MetadataOptions": _of(
        "HttpEndpoint", "HttpProtocolIpv6", "HttpPutResponseHopLimit", "HttpTokens", "InstanceMetadataTags"
    ),
    "Monitoring": _of("Enabled"),
    "NetworkInterfaces": _of(
        "AssociatePublicIpAddress",
        "ConnectionTrackingSpecification",
        "DeleteOnTermination",
        "Description",
        "DeviceIndex",
        "Groups",
        "InterfaceType",
        "Ipv4PrefixCount",
        "Ipv6AddressCount",
        "Ipv6PrefixCount",
        "NetworkCardIndex",
        "NetworkInterfaceId",
        "PrimaryIpv6",
        "SubnetId",
    ),
    "Placement": None,  # placement_groups refuses what is not modelled
    "SecurityGroupIds": None,
    "TagSpecifications": _of("ResourceType", "Tags"),
    "UserData": None,
}
"""Fields of a launch template's data with their own fields; None if these are not limited here."""

OF_OVERRIDES: Final[Fields] = {
    **{
        name: OF_TEMPLATES[name]
        for name in (
            "BlockDeviceMappings",
            "IamInstanceProfile",
            "ImageId",
            "InstanceType",
            "KeyName",
            "MetadataOptions",
        )
    },
    **dict.fromkeys(("AvailabilityZone", "InstanceRequirements", "Priority", "SubnetId", "WeightedCapacity")),
}
OF_OPTIONS: Final = _of("AllocationStrategy", "MinTargetCapacity", "SingleAvailabilityZone", "SingleInstanceType")
DROPPED_BY_FLEETS: Final = (
    "ExcessCapacityTerminationPolicy",
    "ReplaceUnhealthyInstances",
    "TerminateInstancesWithExpiration",
    "ValidFrom",
    "ValidUntil",
)
DROPPED_BY_RUN_INSTANCES: Final = (
    "AdditionalInfo",
    "CapacityReservationSpecification",
    "CpuOptions",
    "CreditSpecification",
    "EnablePrimaryIpv6",
    "EnclaveOptions",
    "Ipv6Addresses",
    "KernelId",
    "LicenseSpecifications",
    "MaintenanceOptions",
    "NetworkPerformanceOptions",
    "Operator",
    "PrivateDnsNameOptions",
    "RamdiskId",
    "SecondaryInterfaces",
)


def find_unmodelled(data: Mapping[str, Any], fields: Fields) -> list[str]:
    """Return the paths of the fields that are set and would be dropped, sorted.

    >>> find_unmodelled({"ImageId": "ami-1", "EnclaveOptions": {"Enabled": True}}, OF_TEMPLATES)
    ['EnclaveOptions']
    >>> find_unmodelled({"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {}}}, OF_TEMPLATES)
    ['InstanceMarketOptions.SpotOptions']
    """
    found = []
    for name, value in data.items():
        if value is None or value == []:
            continue
        if name not in fields:
            found.append(name)
            continue
        allowed = fields[name]
        for item in value if isinstance(value, list) else [value]:
            if allowed is not None and isinstance(item, Mapping):
                found += [f"{name}.{inner}" for inner in item.keys() - allowed if item[inner] is not None]
    return sorted(set(found))


def refuse_unmodelled(what: str, paths: list[str]) -> None:
    if paths:
        raise EC2ClientError("UnsupportedOperation", f"the local EC2 has no {', '.join(paths)} of {what}")


def check_fleet(params: Mapping[str, Any]) -> None:
    """Refuse the options of a fleet that the local EC2 would drop."""
    options = {name: params.get(name) or {} for name in ("SpotOptions", "OnDemandOptions")}
    refuse_unmodelled(
        "CreateFleet",
        [
            *(name for name in DROPPED_BY_FLEETS if params.get(name) is not None),
            *(f"{name}.{inner}" for name, given in options.items() for inner in sorted(given.keys() - OF_OPTIONS)),
        ],
    )


def check_run_instances(response: Any) -> None:
    """Refuse the fields of RunInstances that moto drops. A dry run launches nothing, so it accepts them."""
    if response._get_param("DryRun", False):
        return
    placement = response._get_param("Placement", {}) or {}
    refuse_unmodelled(
        "RunInstances",
        [
            *(name for name in DROPPED_BY_RUN_INSTANCES if response._get_param(name)),
            *(f"Placement.{inner}" for inner in sorted(placement.keys() - {"AvailabilityZone", "HostId"})),
        ],
    )

"""Parse a CreateFleet request of type instant: one launch pool for each override of each launch template.

Sources: EC2 API reference, CreateFleet and FleetLaunchTemplateOverridesRequest. A field of an override replaces that of
the template, and `LaunchTemplateSpecificationUserData` replaces the template's user data.

There are two kinds of errors, as on EC2. A request that cannot be parsed fails the whole call (`EC2ClientError`): an
unknown launch template or instance type. What only RunInstances finds in a pool (its image, subnet, group, profile) is
an entry for that pool in the response's `Errors`, under HTTP 200, while other pools launch: "with fleet error(s),
InvalidParameterValue: ...".
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES

from joiner_local.aws.ec2.capacity_pools import ON_DEMAND, SPOT, CapacityPool
from joiner_local.aws.ec2.refused_launch_fields import (
    OF_OVERRIDES,
    OF_TEMPLATES,
    check_fleet,
    find_unmodelled,
    refuse_unmodelled,
)
from joiner_local.aws.ec2.reservation_api import BLOCK, INTERRUPTIBLE

PLURALS: Final = {SPOT: "SpotOptions", ON_DEMAND: "OnDemandOptions"}
MARKETS: Final = {BLOCK: BLOCK, "reserved-capacity": INTERRUPTIBLE}
"""Target capacity types of capacity blocks and interruptible reservations, with the market type of their templates."""
STRATEGIES: Final = {
    SPOT: (
        "lowest-price",
        "diversified",
        "capacity-optimized",
        "capacity-optimized-prioritized",
        "price-capacity-optimized",
    ),
    ON_DEMAND: ("lowest-price", "prioritized"),
}
FLEET_TAGGABLE: Final = frozenset({"fleet", "instance", "volume"})
"""Resource types that tag specifications of an instant fleet may name; the launch template tags the others."""

MAXIMUM_OVERRIDES: Final = 300
MAXIMUM_TEMPLATES: Final = 50
"""EC2's quotas for one fleet. Source: EC2 user guide, "EC2 Fleet and Spot Fleet quotas"."""

LEAST: Final = 1e9  # priority of an override without one: after all others
USER_DATA_BYTES: Final = 16_384

Tags = dict[str, str]


def invalid(message: str) -> EC2ClientError:
    return EC2ClientError("InvalidParameterValue", message)


@dataclass(frozen=True, slots=True)
class LaunchPool:
    """One override. `data` is the template's data merged with the override."""

    pool: CapacityPool
    data: Mapping[str, Any]
    subnet_id: str
    weight: float
    priority: float
    template: Mapping[str, str]
    override: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        """Return the pool as a response refers to it."""
        both = {"LaunchTemplateSpecification": self.template, "Overrides": self.override}
        return {"LaunchTemplateAndOverrides": both, "Lifecycle": self.pool.lifecycle}


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """A parsed request. `minimum` 0 accepts any capacity."""

    lifecycle: str
    target: int
    strategy: str
    single_type: bool
    single_zone: bool
    minimum: int
    pools: tuple[LaunchPool, ...]
    tags: Mapping[str, Tags]

    @classmethod
    def read(cls, params: Mapping[str, Any], backend: Any) -> "FleetRequest":
        capacity = params.get("TargetCapacitySpecification") or {}
        lifecycle = capacity.get("DefaultTargetCapacityType") or ON_DEMAND
        market = MARKETS.get(lifecycle, "")
        if market:
            _check_market(params, lifecycle, market, backend)
            lifecycle = ON_DEMAND
        if lifecycle not in PLURALS:
            raise EC2ClientError("UnsupportedOperation", f"the local EC2 has no capacity of type {lifecycle}")
        if capacity.get("SpotTargetCapacity") or capacity.get("OnDemandTargetCapacity"):
            raise EC2ClientError(
                "UnsupportedOperation",
                "the local EC2 launches one capacity type a fleet: name it in DefaultTargetCapacityType",
            )
        target = int(capacity.get("TotalTargetCapacity") or 0)
        if target < 1:
            raise invalid(f"Invalid value '{target}' for TotalTargetCapacity. The value must be at least 1.")
        options = params.get(PLURALS[lifecycle]) or {}
        strategy = options.get("AllocationStrategy") or STRATEGIES[lifecycle][0]
        if strategy not in STRATEGIES[lifecycle]:
            raise invalid(f"The allocation strategy '{strategy}' is not supported for {lifecycle} capacity.")
        _check_size(params.get("LaunchTemplateConfigs") or [])
        check_fleet(params)
        pools = _read_pools(params.get("LaunchTemplateConfigs") or [], lifecycle, backend)
        minimum = int(options.get("MinTargetCapacity") or 0)
        single_type, single_zone = bool(options.get("SingleInstanceType")), bool(options.get("SingleAvailabilityZone"))
        if minimum and not (single_type or single_zone):
            raise invalid("MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone.")
        return cls(
            lifecycle,
            target,
            strategy,
            single_type,
            single_zone,
            minimum,
            pools,
            _fleet_tags(params.get("TagSpecifications") or []),
        )


def _check_market(params: Mapping[str, Any], lifecycle: str, market: str, backend: Any) -> None:
    """Refuse options of other capacity types, and templates of another market type."""
    for name in PLURALS.values():
        if params.get(name):
            raise EC2ClientError("InvalidParameterCombination", f"{name} cannot be used with {lifecycle} capacity.")
    types = (params.get("ReservedCapacityOptions") or {}).get("ReservationTypes") or []
    if lifecycle == "reserved-capacity" and INTERRUPTIBLE not in types:
        raise EC2ClientError("MissingParameter", "reserved-capacity needs ReservedCapacityOptions.ReservationTypes.")
    for config in params.get("LaunchTemplateConfigs") or []:
        _, data = _template(config.get("LaunchTemplateSpecification") or {}, backend)
        if (data.get("InstanceMarketOptions") or {}).get("MarketType") != market:
            raise EC2ClientError(
                "InvalidParameterCombination", f"{lifecycle} capacity needs launch templates of market type {market}."
            )


def _check_size(configs: Sequence[Mapping[str, Any]]) -> None:
    overrides = sum(len(config.get("Overrides") or [{}]) for config in configs)
    for what, count, most in (
        ("launch templates", len(configs), MAXIMUM_TEMPLATES),
        ("overrides", overrides, MAXIMUM_OVERRIDES),
    ):
        if count > most:
            raise invalid(f"The number of {what} ({count}) exceeds the maximum of {most} for one fleet.")


def _fleet_tags(specifications: Sequence[Mapping[str, Any]]) -> dict[str, Tags]:
    for specification in specifications:
        if (kind := specification.get("ResourceType", "")) not in FLEET_TAGGABLE:
            raise invalid(f"'{kind}' is not a valid taggable resource type for this operation.")
    return tags_by_type(specifications)


def tags_by_type(specifications: Sequence[Mapping[str, Any]]) -> dict[str, Tags]:
    """Return tags by the type of resource that they are for.

    >>> tags_by_type([{"ResourceType": "volume", "Tags": [{"Key": "a", "Value": "1"}]}])
    {'volume': {'a': '1'}}
    """
    found: dict[str, Tags] = {}
    for specification in specifications:
        kind = specification.get("ResourceType", "")
        found.setdefault(kind, {}).update({tag["Key"]: tag.get("Value", "") for tag in specification.get("Tags", [])})
    return found


def _read_pools(configs: Sequence[Mapping[str, Any]], lifecycle: str, backend: Any) -> tuple[LaunchPool, ...]:
    """Return the pools. EC2 refuses two of the same type and zone, also if their subnets differ."""
    pools = tuple(_pools(configs, lifecycle, backend))
    if not pools:
        raise EC2ClientError("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
    if len({asked.pool for asked in pools}) < len(pools):
        raise EC2ClientError("InvalidFleetConfig", "The fleet configuration contains duplicate instance pools.")
    return pools


def _pools(configs: Sequence[Mapping[str, Any]], lifecycle: str, backend: Any) -> Iterator[LaunchPool]:
    for config in configs:
        specification = config.get("LaunchTemplateSpecification") or {}
        template, data = _template(specification, backend)
        for override in config.get("Overrides") or [{}]:
            yield _pool(template, data, override, lifecycle, backend)


def _template(specification: Mapping[str, Any], backend: Any) -> tuple[dict[str, str], dict[str, Any]]:
    if template_id := specification.get("LaunchTemplateId"):
        if template_id not in backend.launch_templates:
            raise EC2ClientError(
                "InvalidLaunchTemplateId.NotFoundException",
                f"The specified launch template, with template ID {template_id}, does not exist.",
            )
        found = backend.get_launch_template(template_id)
    elif name := specification.get("LaunchTemplateName"):
        found = backend.get_launch_template_by_name(name)
    else:
        raise EC2ClientError(
            "MissingParameter", "The request must contain either a launch template ID or a launch template name"
        )
    asked = str(specification.get("Version") or "$Default")
    version = _version(found, asked)
    data = dict(version.data)
    if user_data := specification.get("LaunchTemplateSpecificationUserData"):
        data["UserData"] = user_data
    return {"LaunchTemplateId": found.id, "Version": str(version.number)}, data


def _version(template: Any, asked: str) -> Any:
    number = {"$Latest": template.latest_version_number, "$Default": template.default_version_number}.get(asked)
    if number is None:
        number = int(asked) if asked.isdigit() else 0
    if not 1 <= number <= len(template.versions):
        raise EC2ClientError(
            "InvalidLaunchTemplateId.VersionNotFound",
            f"Could not find the specified version {asked} for the launch template with ID {template.id}.",
        )
    return template.versions[number - 1]


def _pool(
    template: dict[str, str], data: Mapping[str, Any], override: Mapping[str, Any], lifecycle: str, backend: Any
) -> LaunchPool:
    if "InstanceRequirements" in override:
        raise EC2ClientError("UnsupportedOperation", "the local EC2 takes instance types, not InstanceRequirements")
    refuse_unmodelled("launch templates", find_unmodelled(data, OF_TEMPLATES))
    refuse_unmodelled("overrides", find_unmodelled(override, OF_OVERRIDES))
    merged = {
        **data,
        **{
            key: value
            for key, value in override.items()
            if key not in ("WeightedCapacity", "Priority", "AvailabilityZone")
        },
    }
    merged["MetadataOptions"] = {**data.get("MetadataOptions", {}), **override.get("MetadataOptions", {})}
    instance_type = merged.get("InstanceType")
    if not instance_type:
        raise EC2ClientError("MissingParameter", "Either the launch template or an override must name an instance type")
    if instance_type not in INSTANCE_TYPES:
        raise invalid(f"Invalid value '{instance_type}' for InstanceType.")
    subnet_id = merged.get("SubnetId") or _interface_subnet(merged)
    subnet = _subnet(backend, subnet_id) if subnet_id else _default_subnet(backend, override.get("AvailabilityZone"))
    zone = override.get("AvailabilityZone") or (subnet.availability_zone if subnet else f"{backend.region_name}a")
    return LaunchPool(
        pool=CapacityPool(instance_type, zone, lifecycle),
        data=merged,
        subnet_id=subnet_id or (subnet.id if subnet else ""),
        weight=float(override.get("WeightedCapacity") or 1),
        priority=LEAST if override.get("Priority") is None else float(override["Priority"]),
        template=template,
        override=override,
    )


def _interface_subnet(data: Mapping[str, Any]) -> str:
    return next((nic["SubnetId"] for nic in data.get("NetworkInterfaces") or [] if nic.get("SubnetId")), "")


def _subnet(backend: Any, subnet_id: str) -> Any:
    return next((zones[subnet_id] for zones in list(backend.subnets.values()) if subnet_id in zones), None)


def _default_subnet(backend: Any, zone: str | None) -> Any:
    defaults = backend.get_default_subnets()
    return defaults.get(zone) if zone else next(iter(defaults.values()), None)


def user_data_problem(encoded: str) -> tuple[str, str] | None:
    """Return EC2's error code and message for invalid user data (base64); None if it is valid.

    >>> user_data_problem("aGk=")
    >>> user_data_problem("hi!")[0]
    'InvalidUserData.Malformed'
    """
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
    if len(raw) > USER_DATA_BYTES:
        return "InvalidParameterValue", f"User data is limited to {USER_DATA_BYTES} bytes"
    return None

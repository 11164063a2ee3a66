"""CreateFleet of type instant as EC2 does it.

moto takes the first override of any request. Here a fleet has launch pools, strategies, prices and capacity. It may be
fulfilled in part, with `Errors` beside `Instances`. The same `ClientToken` returns the same response, and an error with
other parameters. Source: EC2 API reference (CreateFleet, DescribeFleets, "Ensuring idempotency").
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.utils import random_fleet_id

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.ec2 import (
    capacity_pools,
    ebs_volumes,
    eventual_consistency,
    instance_launches,
    instance_lifecycle,
    kms_keys,
)
from joiner_local.aws.ec2.capacity_pools import POOLS
from joiner_local.aws.ec2.ec2_prices import Ec2Prices
from joiner_local.aws.ec2.fleet_allocation import FleetAllocation, PoolRefusal, PricedPool, allocate
from joiner_local.aws.ec2.fleet_requests import FleetRequest, LaunchPool, tags_by_type
from joiner_local.aws.ec2.reservation_api import RESERVATIONS, is_targeted
from joiner_local.aws.fault_injection import early_terminations
from joiner_local.aws.iam import ec2_required_permissions
from joiner_local.aws.iam.access_control import ACCESS_CONTROL

MESSAGES: Final = {
    "InsufficientInstanceCapacity": "We currently do not have sufficient {type} capacity in the Availability Zone "
    "you requested ({zone}). "
    "Our system will be working on provisioning additional capacity.",
    "UnfulfillableCapacity": "Unable to fulfill capacity due to your request configuration. Please adjust your "
    "request and try again.",
    "MaxSpotInstanceCountExceeded": "Max spot instance count exceeded",
    "VcpuLimitExceeded": "You have requested more vCPU capacity than your current vCPU limit of 32 allows for the "
    "instance bucket that the specified instance type belongs to. Please visit "
    "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
    "InsufficientCapacityOnHost": "There is not enough capacity on the Dedicated Host to launch the instance.",
    "InsufficientReservedInstanceCapacity": "There are not enough available Reserved Instances to satisfy your "
    "request.",
    "InvalidFleetConfiguration": "Your requested instance type ({type}) is not supported in your requested "
    "Availability Zone ({zone}).",
    "SpotMaxPriceTooLow": "Your Spot request price is lower than the minimum required Spot request fulfillment price.",
    "InstanceLimitExceeded": "You have requested more instances (1) than your current instance limit of 0 allows for "
    "the specified instance type.",
    "PendingVerification": "Your request for accessing resources in this region is being validated, and you will not "
    "be able to launch additional resources in this region until the validation is complete.",
    "InternalError": "An internal error has occurred",
    "RequestLimitExceeded": "Request limit exceeded.",
    "Unsupported": "The requested configuration is currently not supported. Please check the documentation for "
    "supported configurations.",
    "MaxFleetCountExceeded": "You've reached your quota for the maximum number of fleets.",
    "ReservationCapacityExceeded": "The requested reservation does not have sufficient compatible and available "
    "capacity.",
}


@dataclass(slots=True)
class InstantFleet:
    """What DescribeFleets shows of one fleet; moto's serializer determines the names of the fields."""

    id: str
    fleet_type: str
    create_time: datetime
    _: KW_ONLY
    client_token: str | None
    target_capacity_specification: Mapping[str, Any]
    launch_template_configs: list[Mapping[str, Any]]
    spot_options: Mapping[str, Any]
    on_demand_options: Mapping[str, Any]
    fulfilled_capacity: float
    fulfilled_on_demand_capacity: float
    instances: list[dict[str, Any]]
    errors: list[dict[str, Any]]
    tags: list[dict[str, str]]
    backend: Any = field(repr=False)
    state: str = "active"
    activity_status: str = "fulfilled"
    target_capacity: int = 0

    @property
    def fleet_id(self) -> str:
        return self.id

    @property
    def fleet_state(self) -> str:
        return self.state

    @property
    def type(self) -> str:
        return self.fleet_type

    def terminate_instances(self) -> None:
        """Terminate the instances, for moto's DeleteFleets."""
        self.backend.terminate_instances([i for group in self.instances for i in group["InstanceIds"]])


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """The request of a client token and its response."""

    request: str
    answer: dict[str, Any]


@dataclass(slots=True)
class ClientTokens:
    """One response for each token: a second call with the token waits for the first."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    answers: dict[tuple[str, str], FleetAnswer] = field(default_factory=dict)

    def earlier(self, operation: str, token: str, request: str) -> dict[str, Any] | None:
        """Return the answer to the same request with this token. EC2 refuses the token with another request."""
        found = self.answers.get((operation, token))
        if found is not None and found.request != request:
            raise EC2ClientError(
                "IdempotentParameterMismatch",
                f"The request uses the same client token as a previous, but non-identical request: {token}",
            )
        return found.answer if found else None


TOKENS: Final = ClientTokens()


def create_fleet(response: Any) -> ActionResult:
    """Launch an instant fleet. EC2 refuses a client token with another request, and a target that the request cannot
    have."""
    if response._get_param("Type", "maintain") != "instant":
        raise EC2ClientError("UnsupportedOperation", "the local EC2 has fleets of type instant only")
    params = {key: value for key, value in response.params.items() if key not in ("DryRun", "ClientToken")}
    if response._get_param("DryRun", False):
        FleetRequest.read(params, response.ec2_backend)
        response.error_on_dryrun()
    token = response._get_param("ClientToken")
    if not token:
        return ActionResult(launch_fleet(params, None, response.ec2_backend, response.access_key))
    asked = json.dumps(params, sort_keys=True, default=str)
    with TOKENS.lock:
        answer = TOKENS.earlier("CreateFleet", token, asked)
        if answer is None:
            answer = launch_fleet(params, token, response.ec2_backend, response.access_key)
            TOKENS.answers["CreateFleet", token] = FleetAnswer(asked, answer)
    return ActionResult(answer)


def launch_fleet(params: Mapping[str, Any], token: str | None, backend: Any, access_key: str) -> dict[str, Any]:
    """Launch the instances of a request; return them with the errors of the pools that had no capacity."""
    request = FleetRequest.read(params, backend)
    fleet_id = random_fleet_id()
    with POOLS.lock:
        allocation = _allocate(request, backend, access_key)
        launched = [
            (asked, instance_launches.run(instance_launches.PoolLaunch(asked, count, fleet_id, request.tags), backend))
            for asked, count in allocation.granted
        ]
    fresh = [instance for _, made in launched for instance in made]
    eventual_consistency.VISIBILITY.launched(fresh)
    for asked, made in launched:
        trouble = kms_keys.find_trouble(ebs_volumes.keys_of(asked.data, backend), access_key, backend)
        instance_lifecycle.booted(made, trouble)
    early_terminations.schedule_early_terminations(fresh)
    groups = [_group(asked, made, backend) for asked, made in launched]
    errors = [
        {**refusal.asked.describe(), "ErrorCode": refusal.code, "ErrorMessage": refusal.message}
        for refusal in allocation.refused
    ]
    fleet = InstantFleet(
        id=fleet_id,
        fleet_type="instant",
        create_time=utcnow(),
        client_token=token,
        target_capacity_specification=params["TargetCapacitySpecification"],
        launch_template_configs=_described(params["LaunchTemplateConfigs"]),
        spot_options=params.get("SpotOptions") or {},
        on_demand_options=params.get("OnDemandOptions") or {},
        fulfilled_capacity=allocation.capacity,
        fulfilled_on_demand_capacity=allocation.capacity if request.lifecycle == capacity_pools.ON_DEMAND else 0.0,
        instances=groups,
        errors=errors,
        tags=[{"Key": key, "Value": value} for key, value in request.tags.get("fleet", {}).items()],
        backend=backend,
    )
    backend.create_tags([fleet_id], dict(request.tags.get("fleet", {})))
    backend.fleets[fleet_id] = fleet
    return {"FleetId": fleet_id, "Instances": groups, "Errors": errors}


def _allocate(request: FleetRequest, backend: Any, access_key: str) -> FleetAllocation:
    refused, candidates = [], []
    for asked in request.pools:
        if found := instance_launches.problem(asked, backend) or _forbidden(asked, request, access_key):
            refused.append(PoolRefusal(asked, *found))
            continue
        price = Ec2Prices.packaged().now(asked.pool.instance_type, asked.pool.zone, request.lifecycle)
        left = POOLS.left(asked.pool)
        candidates.append(PricedPool(asked, price, float("inf") if left is None else left))
    # Addresses are shared by all pools of a subnet.
    addresses = {asked.subnet_id: _free_addresses(asked.subnet_id, backend) for asked in (c.asked for c in candidates)}

    def draw(asked: LaunchPool, wanted: int) -> tuple[int, PoolRefusal | None]:
        reachable = min(wanted, addresses[asked.subnet_id])
        if is_targeted(asked.data):
            given = min(reachable, _free_in_reservation(asked, backend))
            addresses[asked.subnet_id] -= given
            return given, None if given == wanted else _refusal(asked, no_address=given == reachable, reserved=True)
        given = POOLS.take(asked.pool, reachable)
        addresses[asked.subnet_id] -= given
        return given, None if given == wanted else _refusal(asked, no_address=given == reachable)

    def give_back(asked: LaunchPool, count: int) -> None:
        if not is_targeted(asked.data):
            POOLS.give_back(asked.pool, count)
        addresses[asked.subnet_id] += count

    allocation = allocate(request, candidates, draw, give_back)
    allocation.refused[:0] = refused
    return allocation


def _forbidden(asked: LaunchPool, request: FleetRequest, access_key: str) -> instance_launches.Problem | None:
    """Check RunInstances and what it needs, in the caller's name."""
    of_template = tags_by_type(asked.data.get("TagSpecifications") or [])
    tags = {
        kind: {**of_template.get(kind, {}), **request.tags.get(kind, {})}
        for kind in of_template.keys() | request.tags.keys()
    }
    permissions = ec2_required_permissions.launch_permissions(
        asked.data, asked.template["LaunchTemplateId"], tags, spot=request.lifecycle == capacity_pools.SPOT
    )
    message = ACCESS_CONTROL.ec2_denial(access_key, permissions)
    return ("UnauthorizedOperation", message) if message else None


def _free_addresses(subnet_id: str, backend: Any) -> int:
    return max(0, int(backend.get_subnet(subnet_id).available_ip_address_count))


def _free_in_reservation(asked: LaunchPool, backend: Any) -> int:
    found = RESERVATIONS.wanted(asked.data, asked.pool, backend)
    return max(0, RESERVATIONS.free(found, backend)) if found else 0


def _refusal(asked: LaunchPool, *, no_address: bool, reserved: bool = False) -> PoolRefusal:
    if no_address:
        message = (
            f"There are not enough free addresses in subnet '{asked.subnet_id}' to satisfy the requested "
            "number of instances."
        )
        return PoolRefusal(asked, "InsufficientFreeAddressesInSubnet", message)
    code = "ReservationCapacityExceeded" if reserved else POOLS.refusal(asked.pool)
    return PoolRefusal(
        asked, code, MESSAGES.get(code, code).format(type=asked.pool.instance_type, zone=asked.pool.zone)
    )


def _group(asked: LaunchPool, made: list[Any], backend: Any) -> dict[str, Any]:
    subnet = backend.get_subnet(asked.subnet_id)
    return {
        **asked.describe(),
        "InstanceIds": [instance.id for instance in made],
        "InstanceType": asked.pool.instance_type,
        "SubnetId": subnet.id,
        "AvailabilityZone": subnet.availability_zone,
        "AvailabilityZoneId": subnet.availability_zone_id,
    }


def _described(configs: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return a description without user data."""
    hidden = "LaunchTemplateSpecificationUserData"
    return [
        {
            **config,
            "LaunchTemplateSpecification": {
                k: v for k, v in config["LaunchTemplateSpecification"].items() if k != hidden
            },
        }
        for config in configs
    ]


def describe_fleets(response: Any) -> ActionResult:
    """Return instant fleets that the request names by id; others are not shown."""
    ids = response._get_param("FleetIds", [])
    known = response.ec2_backend.fleets
    if unknown := [fleet_id for fleet_id in ids if fleet_id not in known]:
        raise EC2ClientError("InvalidFleetId.NotFound", f"The fleet ID '{unknown[0]}' does not exist")
    return ActionResult({"Fleets": [known[fleet_id] for fleet_id in ids]})


def install() -> None:
    """Install the actions in moto."""
    replace_attribute(EC2Response, "create_fleet", create_fleet)
    replace_attribute(EC2Response, "describe_fleets", describe_fleets)

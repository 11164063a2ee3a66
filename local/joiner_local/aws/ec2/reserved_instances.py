"""DescribeReservedInstances: the reserved instances that the account owns.

Knob: `POST /_local/reserved-instances {"instanceType": "m5.large", "count": 2, "zone": "us-east-1a"}` adds some and
returns their id; without a zone they are regional. Optional fields are `state`, `platform`, `tenancy`, `class` and
`endsInSeconds`. `{"clear": true}` removes all. The API has no pages, and shows reserved instances in every state unless
a filter names one. Source: EC2 API reference, DescribeReservedInstances and ReservedInstances.
"""

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.local_aws import LocalAws
from joiner_local.knob_requests import check_fields, read_number, read_text, read_whole

FIELDS: Final = {"instanceType", "count", "zone", "state", "platform", "tenancy", "class", "endsInSeconds"}
STATES: Final = ("payment-pending", "active", "payment-failed", "retired", "queued", "queued-deleted")
YEAR: Final = 31_536_000
FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "reserved-instances-id": "ReservedInstancesId",
    "scope": "Scope",
    "state": "State",
}
OWNED: Final[dict[str, dict[str, Any]]] = {}


def own_reserved_instances(asked: dict[str, Any]) -> dict[str, Any]:
    """Add reserved instances, or remove all."""
    if asked.get("clear"):
        OWNED.clear()
        return {}
    check_fields(asked, FIELDS, "reserved-instances")
    if (instance_type := read_text(asked, "instanceType")) not in INSTANCE_TYPES:
        raise ValueError(f"reserved-instances: instanceType is {instance_type!r}: there is none called so")
    if asked.get("state", "active") not in STATES:
        raise ValueError(f"reserved-instances: state is {asked['state']!r}; there are {', '.join(STATES)}")
    zone, now = asked.get("zone"), utcnow()
    identifier = str(uuid.uuid4())
    OWNED[identifier] = {
        "ReservedInstancesId": identifier,
        "InstanceType": instance_type,
        "InstanceCount": read_whole(asked, "count", 1),
        "ProductDescription": asked.get("platform", "Linux/UNIX"),
        "InstanceTenancy": asked.get("tenancy", "default"),
        "State": asked.get("state", "active"),
        "OfferingClass": asked.get("class", "standard"),
        "OfferingType": "No Upfront",
        "CurrencyCode": "USD",
        "Duration": YEAR,
        "Start": now,
        "End": now + timedelta(seconds=read_number(asked, "endsInSeconds", YEAR)),
        "FixedPrice": 0.0,
        "UsagePrice": 0.0,
        **({"Scope": "Availability Zone", "AvailabilityZone": zone} if zone else {"Scope": "Region"}),
    }
    return {"id": identifier}


def describe_reserved_instances(response: Any) -> ActionResult:
    """Answer with those that match; EC2 refuses unknown ids and filters."""
    response.error_on_dryrun()
    ids, filters = response._get_param("ReservedInstancesIds", []), response._get_param("Filters", [])
    if missing := [each for each in ids if each not in OWNED]:
        raise EC2ClientError("InvalidReservedInstancesId", f"The reserved instances ID '{missing[0]}' does not exist")
    for each in filters:
        if each["Name"] not in FILTERS:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{each['Name']}' is invalid")
    wanted = [one for one in list(OWNED.values()) if not ids or one["ReservedInstancesId"] in ids]
    return ActionResult({"ReservedInstances": [one for one in wanted if all(_meets(one, each) for each in filters)]})


def _meets(shown: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return shown.get(FILTERS[wanted["Name"]]) in wanted["Values"]


def install(aws: LocalAws) -> None:
    """Install the action in moto, and the knob."""
    replace_attribute(EC2Response, "describe_reserved_instances", describe_reserved_instances)
    aws.add_knobs({"reserved-instances": own_reserved_instances})

"""Interruptions of Spot Instances and of instances in interruptible reservations, and rebalance recommendations, on
request.

Knobs: `POST /_local/interrupt {"instanceId": "i-...", "grace": 120}` sends the interruption notice now and ends the
instance `grace` seconds later (two minutes on EC2); `POST /_local/rebalance {"instanceId": "i-..."}` sends only the
recommendation. `POST /_local/reclaim {"instanceId": "i-...", "grace": 120}` sends the warning of an interruptible
capacity reservation for an On-Demand Instance, and ends the instance `grace` seconds later. Its state reason is that of
a Spot interruption, because that of a reservation is not published. Sources: EC2 user guide, "Spot Instance
interruption notices", "EC2 instance rebalance recommendations" and "Monitor interruptible Capacity Reservations with
EventBridge and CloudTrail".
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends

from joiner_local.aws.ec2 import instance_lifecycle
from joiner_local.aws.ec2.instance_lifecycle import AGENDA, EndReason
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import read_number

GRACE: Final = 120.0
RECLAIMED: Final = EndReason(
    "Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination"
)


def _spot_instance(asked: dict[str, Any]) -> Any:
    instance = _running_instance(asked)
    if instance.lifecycle != "spot":
        raise ValueError(f"{instance.id} is not a Spot Instance")
    return instance


def _running_instance(asked: dict[str, Any]) -> Any:
    try:
        instance = ec2_backends[ACCOUNT][REGION].get_instance(asked["instanceId"])
    except ServiceException as error:
        raise ValueError(str(error)) from error
    if instance.state not in ("pending", "running"):
        raise ValueError(f"{instance.id} is {instance.state}")
    return instance


def interrupt(asked: dict[str, Any]) -> dict[str, Any]:
    instance = _spot_instance(asked)
    AGENDA.after(
        0,
        lambda: instance_lifecycle.emit(
            instance, "EC2 Spot Instance Interruption Warning", {"instance-action": "terminate"}
        ),
    )
    AGENDA.after(read_number(asked, "grace", GRACE), lambda: instance_lifecycle.terminate(instance, RECLAIMED))
    return {}


def reclaim(asked: dict[str, Any]) -> dict[str, Any]:
    instance, grace = _running_instance(asked), read_number(asked, "grace", GRACE)
    if instance.lifecycle == "spot":
        raise ValueError(f"{instance.id} is a Spot Instance")
    ends = datetime.now(UTC) + timedelta(seconds=grace)
    detail = {"instance-action": "terminate", "instance-termination-time": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}
    kind = "EC2 Capacity Reservation Instance Interruption Warning"
    AGENDA.after(0, lambda: instance_lifecycle.emit(instance, kind, detail))
    AGENDA.after(grace, lambda: instance_lifecycle.terminate(instance, RECLAIMED))
    return {}


def rebalance(asked: dict[str, Any]) -> dict[str, Any]:
    instance = _spot_instance(asked)
    AGENDA.after(0, lambda: instance_lifecycle.emit(instance, "EC2 Instance Rebalance Recommendation", {}))
    return {}


def install(aws: LocalAws) -> None:
    aws.add_knobs({"interrupt": interrupt, "reclaim": reclaim, "rebalance": rebalance})

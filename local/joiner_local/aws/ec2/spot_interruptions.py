"""Spot interruptions and rebalance recommendations on request.

Knobs: `POST /_local/interrupt {"instanceId": "i-...", "grace": 120}` sends the interruption notice now and ends the
instance `grace` seconds later (two minutes on EC2); `POST /_local/rebalance {"instanceId": "i-..."}` sends only the
recommendation. Sources: EC2 user guide, "Spot Instance interruption notices" and "EC2 instance rebalance
recommendations".
"""

from typing import Any, Final

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends

from joiner_local.aws.ec2 import instance_lifecycle
from joiner_local.aws.ec2.instance_lifecycle import AGENDA, EndReason
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws

GRACE: Final = 120.0
RECLAIMED: Final = EndReason(
    "Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot instance termination"
)


def _spot_instance(asked: dict[str, Any]) -> Any:
    try:
        instance = ec2_backends[ACCOUNT][REGION].get_instance(asked["instanceId"])
    except ServiceException as error:
        raise ValueError(str(error)) from error
    if instance.lifecycle != "spot":
        raise ValueError(f"{instance.id} is not a Spot Instance")
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
    AGENDA.after(float(asked.get("grace", GRACE)), lambda: instance_lifecycle.terminate(instance, RECLAIMED))
    return {}


def rebalance(asked: dict[str, Any]) -> dict[str, Any]:
    instance = _spot_instance(asked)
    AGENDA.after(0, lambda: instance_lifecycle.emit(instance, "EC2 Instance Rebalance Recommendation", {}))
    return {}


def install(aws: LocalAws) -> None:
    aws.add_knobs({"interrupt": interrupt, "rebalance": rebalance})

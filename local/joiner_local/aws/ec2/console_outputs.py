"""GetConsoleOutput: what an instance wrote to its console.

`POST /_local/console {"instanceId": "i-...", "text": "..."}` adds text to the console of an instance; the node agent
writes there why a node does not join. EC2 keeps the last 64 KB. Only instances on Nitro have the latest output; for
others EC2 answers with the output of the last boot. Source: EC2 API reference, GetConsoleOutput.
"""

import base64
from datetime import UTC, datetime
from typing import Any, Final

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws

KEPT: Final = 64 * 1024

WRITTEN: Final[dict[str, bytes]] = {}


def get_console_output(response: Any) -> ActionResult:
    """Answer with the output of one instance; none if it has written nothing."""
    response.error_on_dryrun()
    instance = response.ec2_backend.get_instance(response._get_param("InstanceId"))
    on_xen = INSTANCE_TYPES[instance.instance_type].get("Hypervisor") == "xen"
    if response._get_bool_param("Latest", False) and on_xen:
        message = f"The instance type {instance.instance_type} does not support retrieving the latest console output."
        raise EC2ClientError("UnsupportedOperation", message)
    shown: dict[str, Any] = {"InstanceId": instance.id, "Timestamp": datetime.now(UTC)}
    if written := WRITTEN.get(instance.id):
        shown["Output"] = base64.b64encode(written).decode()
    return ActionResult(shown)


def write_console(asked: dict[str, Any]) -> dict[str, Any]:
    identifier = str(asked["instanceId"])
    try:
        ec2_backends[ACCOUNT][REGION].get_instance(identifier)
    except ServiceException as error:
        raise ValueError(str(error)) from error
    WRITTEN[identifier] = (WRITTEN.get(identifier, b"") + str(asked["text"]).encode() + b"\n")[-KEPT:]
    return {}


def install(aws: LocalAws) -> None:
    replace_attribute(EC2Response, "get_console_output", get_console_output)
    aws.add_knobs({"console": write_console})

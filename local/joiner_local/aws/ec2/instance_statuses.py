"""DescribeInstanceStatus: status checks and scheduled events of instances, and events of AWS Health, on request.

Every instance passes its checks and has no scheduled event, unless a knob says otherwise:

`POST /_local/impair {"instanceId": "i-...", "check": "instance", "status": "impaired"}`: the check `instance` or
`system` shows this status from now on; `"status": "ok"` ends it.

`POST /_local/schedule-event {"instanceId": "i-...", "code": "instance-retirement", "startsIn": 86400}`: the instance
has this scheduled event, also with `"description"`; `{"instanceId": "i-...", "clear": true}` removes all of its events.

`POST /_local/health {"instanceIds": ["i-..."], "startsIn": 86400}`: AWS Health sends a scheduled change of EC2 for
these instances, also with `"eventTypeCode"` and `"statusCode"`.

Sources: EC2 API reference, DescribeInstanceStatus; AWS Health user guide, "Reference: AWS Health events Amazon
EventBridge schema".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, Final

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError, FilterNotImplementedError
from moto.ec2.models import ec2_backends
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute
from joiner_local.aws.ec2.instance_lifecycle import AGENDA
from joiner_local.aws.eventbridge.event_rules import publish
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import read_number, read_texts

CHECKS: Final = ("instance", "system")
STATUSES: Final = ("ok", "impaired", "insufficient-data", "initializing", "not-applicable")
CODES: Final = ("instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop")
DETAILS: Final = {"ok": "passed", "impaired": "failed"}
MOST_IDS: Final = 100
PAGE: Final = 1000


@dataclass(slots=True)
class ShownHealth:
    """What DescribeInstanceStatus shows of one instance."""

    checks: dict[str, str] = field(default_factory=lambda: dict.fromkeys(CHECKS, "ok"))
    events: list[dict[str, Any]] = field(default_factory=list)


SHOWN: Final[dict[str, ShownHealth]] = {}


def describe_instance_status(response: Any) -> ActionResult:
    """Show the instances that run, or all with `IncludeAllInstances`, page by page."""
    response.error_on_dryrun()
    ids, size = response._get_param("InstanceIds", []), response._get_param("MaxResults")
    if ids and size is not None:
        message = "The parameter instancesSet cannot be used with the parameter maxResults"
        raise EC2ClientError("InvalidParameterCombination", message)
    if len(ids) > MOST_IDS:
        raise EC2ClientError("InvalidParameterValue", f"At most {MOST_IDS} instance ids can be specified.")
    backend = response.ec2_backend
    named = backend.get_multi_instances_by_id(ids) if ids else backend.all_instances()
    wanted = response._get_bool_param("IncludeAllInstances", False)
    shown = [_status(each) for each in named if wanted or each.state == "running"]
    filters = response._filters_from_querystring()
    found = [each for each in shown if all(_matches(each, name, values) for name, values in filters.items())]
    start, count = int(response._get_param("NextToken") or 0), int(size or PAGE)
    more = {"NextToken": str(start + count)} if start + count < len(found) else {}
    return ActionResult({"InstanceStatuses": found[start : start + count], **more})


def _status(instance: Any) -> dict[str, Any]:
    shown = SHOWN.get(instance.id) or ShownHealth()
    checks = shown.checks if instance.state == "running" else dict.fromkeys(CHECKS, "not-applicable")
    summaries = {
        name: {
            "Status": checks[name],
            "Details": [{"Name": "reachability", "Status": DETAILS[checks[name]]}] if checks[name] in DETAILS else [],
        }
        for name in CHECKS
    }
    return {
        "AvailabilityZone": instance._placement.zone,
        "InstanceId": instance.id,
        "InstanceState": instance.instance_state,
        "InstanceStatus": summaries["instance"],
        "SystemStatus": summaries["system"],
        "Events": shown.events,
    }


def _matches(status: Mapping[str, Any], name: str, values: Iterable[str]) -> bool:
    found = {
        "availability-zone": lambda: [status["AvailabilityZone"]],
        "event.code": lambda: [each["Code"] for each in status["Events"]],
        "event.description": lambda: [each["Description"] for each in status["Events"]],
        "instance-state-name": lambda: [status["InstanceState"].name],
        "instance-status.status": lambda: [status["InstanceStatus"]["Status"]],
        "system-status.status": lambda: [status["SystemStatus"]["Status"]],
    }
    if name not in found:
        raise FilterNotImplementedError(name, "DescribeInstanceStatus")
    return bool(set(found[name]()) & set(values))


def _instance(identifier: str) -> Any:
    try:
        return ec2_backends[ACCOUNT][REGION].get_instance(identifier)
    except ServiceException as error:
        raise ValueError(str(error)) from error


def impair(asked: dict[str, Any]) -> dict[str, Any]:
    """Set the status of a check of an instance."""
    instance = _instance(asked["instanceId"])
    check, status = str(asked.get("check", "instance")), str(asked.get("status", "impaired"))
    if check not in CHECKS or status not in STATUSES:
        raise ValueError(f"impair: check is one of {CHECKS}, status one of {STATUSES}")
    SHOWN.setdefault(instance.id, ShownHealth()).checks[check] = status
    return {}


def schedule_event(asked: dict[str, Any]) -> dict[str, Any]:
    """Schedule an event of an instance, or remove its events."""
    instance = _instance(asked["instanceId"])
    shown = SHOWN.setdefault(instance.id, ShownHealth())
    if asked.get("clear"):
        shown.events = []
        return {}
    code = str(asked.get("code", "instance-retirement"))
    if code not in CODES:
        raise ValueError(f"schedule-event: code is one of {CODES}")
    starts = datetime.now(UTC) + timedelta(seconds=read_number(asked, "startsIn", 86_400))
    event = {
        "InstanceEventId": f"instance-event-{len(shown.events):017x}",
        "Code": code,
        "Description": str(asked.get("description", "The instance is running on degraded hardware")),
        "NotBefore": starts,
        "NotAfter": starts + timedelta(hours=2),
    }
    shown.events = [*shown.events, event]
    return {}


def send_health_event(asked: dict[str, Any]) -> dict[str, Any]:
    """Send an event of AWS Health about instances."""
    instances = [_instance(each).id for each in read_texts(asked, "instanceIds")]
    starts = datetime.now(UTC) + timedelta(seconds=read_number(asked, "startsIn", 86_400))
    code = str(asked.get("eventTypeCode", "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"))
    detail = {
        "eventArn": f"arn:aws:health:{REGION}::event/EC2/{code}/{code}_local",
        "service": "EC2",
        "eventTypeCode": code,
        "eventTypeCategory": "scheduledChange",
        "eventScopeCode": "ACCOUNT_SPECIFIC",
        "statusCode": str(asked.get("statusCode", "upcoming")),
        "eventRegion": REGION,
        "startTime": format_datetime(starts, usegmt=True),
        "endTime": format_datetime(starts + timedelta(hours=2), usegmt=True),
        "affectedEntities": [{"entityValue": each, "status": "PENDING"} for each in instances],
        "affectedAccount": ACCOUNT,
        "page": "1",
        "totalPages": "1",
    }
    AGENDA.after(0, lambda: publish("aws.health", "AWS Health Event", detail, instances))
    return {}


def install(aws: LocalAws) -> None:
    """Install the action in moto, and its knobs."""
    replace_attribute(EC2Response, "describe_instance_status", describe_instance_status)
    aws.add_knobs({"impair": impair, "schedule-event": schedule_event, "health": send_health_event})

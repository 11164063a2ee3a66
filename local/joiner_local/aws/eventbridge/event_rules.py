"""EventBridge rules: moto matches patterns, and this module delivers events to targets, asynchronously, with dead
letters.

Targets: queues and functions (whose resource policies must allow the rule), state machines (with the target's role),
log groups. Rules with a ScheduleExpression are refused: use AWS::Scheduler::Schedule. Other modules emit events of
their service with `publish`.
"""

import datetime as dt
import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute
from joiner_local.aws.eventbridge.target_delivery import DeliveryFailed, EventTargets
from joiner_local.aws.iam.assumed_roles import check_assumable
from joiner_local.aws.local_aws import ACCOUNT, REGION

log = logging.getLogger(__name__)

SERVICE = "events.amazonaws.com"
_WORKERS = ThreadPoolExecutor(8, "event-rules")
_PLACEHOLDER = re.compile(r"<([\w.\-]+)>")


def install(targets: EventTargets) -> None:
    from moto.core.exceptions import JsonRESTError
    from moto.events import models

    put_rule: Callable[..., Any] = models.EventsBackend.put_rule
    put_events: Callable[..., list[dict[str, Any]]] = models.EventsBackend.put_events

    def send_to_targets(rule: Any, original: Mapping[str, Any], transform_input: bool = True) -> None:
        del transform_input  # for moto's replays, which are not supported
        if rule.state != "ENABLED" or not rule.event_pattern.matches_event(original):
            return
        event = envelope(original)
        for target in list(rule.targets):
            _WORKERS.submit(_hand_over, targets, rule, target, event)

    def put_unscheduled_rule(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("scheduled_expression"):
            raise JsonRESTError(
                "ValidationException", "The local AWS fires no scheduled rules: use an EventBridge Scheduler schedule."
            )
        return put_rule(self, *args, **kwargs)

    def put_foreign_events(self: Any, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if any(str(event.get("Source", "")).startswith("aws.") for event in events):
            raise JsonRESTError("NotAuthorizedForSourceException", "Not authorized for the source.")
        return put_events(self, events)

    replace_attribute(models.Rule, "send_to_targets", send_to_targets)
    wrap_attribute(models.EventsBackend, "put_rule", put_unscheduled_rule, put_rule)
    wrap_attribute(models.EventsBackend, "put_events", put_foreign_events, put_events)


def publish(source: str, detail_type: str, detail: Mapping[str, Any], resources: Sequence[str] = ()) -> None:
    """Emit an event of an AWS service (``aws.ec2``) on the default bus, to all rules that match."""
    from moto.events.models import events_backends

    event = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": dt.datetime.now(dt.UTC).timestamp(),
        "region": REGION,
        "resources": list(resources),
        "detail": dict(detail),
    }
    for rule in list(events_backends[ACCOUNT][REGION].event_buses["default"].rules.values()):
        rule.send_to_targets(event)


def envelope(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event as targets receive it: the documented fields in their order, the time in ISO 8601."""
    at = event.get("time")
    if isinstance(at, (int, float)) or re.fullmatch(r"[\d.]+", str(at)):
        at = dt.datetime.fromtimestamp(float(str(at)), dt.UTC)
    return {
        "version": "0",
        "id": event["id"],
        "detail-type": event["detail-type"],
        "source": event["source"],
        "account": event["account"],
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(at, dt.datetime) else at,
        "region": event["region"],
        "resources": event.get("resources") or [],
        "detail": event["detail"],
    }


def _hand_over(targets: EventTargets, rule: Any, target: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    arn, body = target["Arn"], ""
    try:
        body = target_input(target, event)
        comes_with_role = arn.split(":")[2] == "states"
        if comes_with_role and (problem := check_assumable(target.get("RoleArn", ""), SERVICE)) is not None:
            raise DeliveryFailed("NO_PERMISSIONS", problem)
        group = (target.get("SqsParameters") or {}).get("MessageGroupId")
        role, service = (target["RoleArn"], None) if comes_with_role else (None, SERVICE)
        targets.deliver(arn, body, group=group, service=service, source=rule.arn, role=role)
    except DeliveryFailed as failed:
        log.warning("rule %s to %s: %s: %s", rule.name, arn, failed.code, failed)
        _dead_letter(rule, target, json.dumps(event), failed)
    except Exception:
        log.exception("rule %s to %s", rule.name, arn)


def _dead_letter(rule: Any, target: Mapping[str, Any], body: str, failed: DeliveryFailed) -> None:
    """Send the event to the dead-letter queue, with the reason in attributes ("Using dead-letter queues to process
    undelivered events").
    """
    from moto.sqs.models import sqs_backends

    queue = (target.get("DeadLetterConfig") or {}).get("Arn")
    if not queue:
        return
    answer = {
        "RULE_ARN": rule.arn,
        "TARGET_ARN": target["Arn"],
        "ERROR_CODE": failed.code,
        "ERROR_MESSAGE": str(failed),
    }
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in answer.items()}
    sqs_backends[ACCOUNT][REGION].send_message(queue.rsplit(":", 1)[-1], body, message_attributes=attributes)


def target_input(target: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    """Return the input of the target: the event, a constant, a part, or a template with parts ("Amazon EventBridge
    input transformation").

    >>> transformer = {"InputPathsMap": {"id": "$.detail.id"}, "InputTemplate": '{"was": <id>}'}
    >>> target_input({"InputTransformer": transformer}, {"detail": {"id": 7}})
    '{"was": 7}'
    """
    if "Input" in target:
        return str(target["Input"])
    if "InputPath" in target:
        return json.dumps(_part(event, target["InputPath"]))
    if "InputTransformer" in target:
        return _transformed(target["InputTransformer"], event)
    return json.dumps(event)


def _transformed(transformer: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    template: str = transformer["InputTemplate"]
    values = {name: _part(event, path) for name, path in (transformer.get("InputPathsMap") or {}).items()}
    values |= {"aws.events.event.json": event, "aws.events.event": event}

    def put_in(found: re.Match[str]) -> str:
        if found[1] not in values:
            return found[0]
        value = values[found[1]]
        if template[: found.start()].count('"') % 2 == 0:
            return json.dumps(value)
        # inside a string of the template: the text itself, escaped
        return "" if value is None else json.dumps(value if isinstance(value, str) else json.dumps(value))[1:-1]

    return _PLACEHOLDER.sub(put_in, template)


def _part(event: Mapping[str, Any], path: str) -> Any:
    from jsonpath_ng.ext.parser import parse

    found = parse(path).find(event)
    return found[0].value if found else None

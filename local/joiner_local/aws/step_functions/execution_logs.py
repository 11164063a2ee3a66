"""Logs of executions: the check of a logging configuration, and the delivery of events to CloudWatch Logs."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joiner_local.aws.cloudwatch.log_shipping import LogShipper
from joiner_local.aws.step_functions.execution_history import HistoryEvent
from joiner_local.aws.step_functions.state_interpreter import ExecutionIdentity
from joiner_local.aws.step_functions.task_calls import ServiceRefused

# Events that the level FATAL of a logging configuration delivers.
FATAL = ("ExecutionFailed", "ExecutionTimedOut", "ExecutionAborted")


@dataclass(slots=True)
class LogDelivery:
    """Send events of executions to CloudWatch Logs according to the machine's logging configuration ("Logging in
    CloudWatch Logs").
    """

    shipper: LogShipper

    def ship(self, configuration: Mapping[str, object], identity: ExecutionIdentity, event: HistoryEvent) -> None:
        level = configuration.get("level", "OFF")
        wanted = level == "ALL" or (level == "ERROR" and "Failed" in event.type) or event.type in FATAL
        if level == "OFF" or not wanted:
            return
        details = dict(event.details)
        if not configuration.get("includeExecutionData"):
            details = {
                key: value for key, value in details.items() if key not in ("input", "output", "parameters", "cause")
            }
        entry = {
            "id": str(event.id),
            "type": event.type,
            "details": details,
            "previous_event_id": str(event.previous),
            "event_timestamp": str(int(event.at.timestamp() * 1000)),
            "execution_arn": identity.arn,
        }
        digest = uuid.uuid5(uuid.NAMESPACE_URL, identity.arn).hex[:8]
        stream = f"states/{identity.machine_name}/{event.at:%Y-%m-%d-%H-%M}/{digest}"
        # destinations are a list, by the API's shape
        for destination in configuration.get("destinations", []):  # type: ignore[attr-defined]
            group = destination["cloudWatchLogsLogGroup"]["logGroupArn"].split(":log-group:")[1].removesuffix(":*")
            self.shipper.ship(group, stream, json.dumps(entry))


def check_logging(configuration: Mapping[str, Any]) -> None:
    """Refuse a logging configuration without a log group, or with an ARN that does not end with `:*` ("Logging in
    CloudWatch Logs").
    """
    destinations = configuration.get("destinations") or []
    groups = [str((each.get("cloudWatchLogsLogGroup") or {}).get("logGroupArn")) for each in destinations]
    if configuration.get("level", "OFF") == "OFF" and not groups:
        return
    if len(groups) != 1:
        raise ServiceRefused(
            "InvalidLoggingConfiguration", "Invalid Logging Configuration: Must specify exactly one Log Destination."
        )
    if not groups[0].endswith(":*"):
        raise ServiceRefused(
            "InvalidLoggingConfiguration",
            f"Invalid Logging Configuration: the log group's ARN must end with ':*': {groups[0]}",
        )

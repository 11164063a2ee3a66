"""Send an event that a function could not process to its dead-letter queue and its destination on failure.

Source: Lambda Developer Guide, "Capturing records of Lambda asynchronous invocations". Targets are queues only.
"""

import datetime as dt
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from joiner_local.aws.local_aws import ACCOUNT, REGION

if TYPE_CHECKING:
    from moto.awslambda.models import LambdaFunction


def _configuration(function: "LambdaFunction") -> Mapping[str, Any]:
    """Return the function's event invoke configuration, empty if it has none. moto appends changed ones, so the last
    one counts.
    """
    return next((each.config for each in reversed(function.event_invoke_config)), {})


def most_retries(function: "LambdaFunction") -> int:
    """Return the number of attempts after the first of an asynchronous invocation."""
    configured = _configuration(function).get("MaximumRetryAttempts")
    return 2 if configured is None else int(configured)


def send(function: "LambdaFunction", payload: bytes, request_id: str, error: bytes) -> None:
    """Report a failed event after the last attempt: the dead-letter queue gets the event, the destination a record with
    the function's response.
    """
    answer = error.decode("utf-8", "replace")
    if function.dead_letter_target:
        attributes = {
            name: {"DataType": kind, "StringValue": value}
            for name, kind, value in (
                ("RequestID", "String", request_id),
                ("ErrorCode", "Number", "200"),
                ("ErrorMessage", "String", answer[:1024]),
            )
        }
        _put(function.dead_letter_target, payload.decode(), attributes)
    destination = _configuration(function).get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    if destination:
        record = {
            "version": "1.0",
            "timestamp": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "requestContext": {
                "requestId": request_id,
                "functionArn": function.function_arn,
                "condition": "RetriesExhausted",
                "approximateInvokeCount": most_retries(function) + 1,
            },
            "requestPayload": json.loads(payload),
            "responseContext": {
                "statusCode": 200,
                "executedVersion": str(function.version),
                "functionError": "Unhandled",
            },
            "responsePayload": json.loads(answer),
        }
        _put(destination, json.dumps(record), {})


def _put(queue_arn: str, body: str, attributes: Mapping[str, Any]) -> None:
    from moto.sqs.models import sqs_backends

    sqs_backends[ACCOUNT][REGION].send_message(queue_arn.rsplit(":", 1)[-1], body, message_attributes=dict(attributes))

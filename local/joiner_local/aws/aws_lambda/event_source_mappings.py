"""Event source mappings from SQS: receive a batch, invoke the function, delete the messages ("Using Lambda with Amazon
SQS").

A failed batch stays hidden until the queue's visibility timeout ends; then it returns, or goes to the dead-letter
queue. With ReportBatchItemFailures only the messages that the function names return.
"""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.aws_lambda.function_invocations import FunctionInvoker, FunctionNotFound
from joiner_local.aws.aws_lambda.sandbox_pool import InvocationThrottled
from joiner_local.aws.iam.service_calls import poll_denial
from joiner_local.aws.local_aws import ACCOUNT, REGION

log = logging.getLogger(__name__)

CONCURRENCY = 5  # batches at a time, where the mapping sets no maximum
POLL = 2  # seconds that a poll waits for messages
MOST_AT_ONCE = 10  # messages of one receive
LARGEST_BATCH_WITHOUT_WINDOW = 10


def install(functions: FunctionInvoker) -> None:
    from moto.awslambda.exceptions import InvalidParameterValueException
    from moto.awslambda.models import LambdaBackend
    from moto.sqs.models import sqs_backends

    create: Callable[..., Any] = LambdaBackend.create_event_source_mapping

    def create_event_source_mapping(self: Any, spec: dict[str, Any]) -> Any:
        queues = sqs_backends[ACCOUNT][REGION].queues
        queue = queues.get(str(spec.get("EventSourceArn")).rsplit(":", 1)[-1])
        if queue is not None:
            function = self.get_function(spec["FunctionName"])
            if poll_denial(function.role, function.function_name, queue.queue_arn) is not None:
                raise InvalidParameterValueException(
                    "The provided execution role does not have permissions to call ReceiveMessage on SQS"
                )
            if int(queue.visibility_timeout) < int(function.timeout):
                raise InvalidParameterValueException(
                    f"Queue visibility timeout: {queue.visibility_timeout} seconds is less than Function timeout: "
                    f"{function.timeout} seconds"
                )
            if int(spec.get("BatchSize") or 0) > LARGEST_BATCH_WITHOUT_WINDOW and not spec.get(
                "MaximumBatchingWindowInSeconds"
            ):
                raise InvalidParameterValueException(
                    "Maximum batch window in seconds must be greater than 0 if maximum batch size is greater than 10"
                )
        mapping = create(self, spec)
        if queue is not None:
            queue.lambda_event_source_mappings.clear()  # else moto invokes the function within SendMessage
            poller = Poller(functions, self, mapping, queue.name)
            threading.Thread(target=poller.run, name=f"poll-{queue.name}", daemon=True).start()
        return mapping

    wrap_attribute(LambdaBackend, "create_event_source_mapping", create_event_source_mapping, create)


@dataclass(slots=True)
class Poller:
    """Poll for one mapping until it is deleted. One batch is collected at a time; the function gets up to the mapping's
    concurrency of batches.
    """

    functions: FunctionInvoker
    backend: Any
    mapping: Any
    queue: str
    _busy: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self) -> None:
        while self.backend.get_event_source_mapping(self.mapping.uuid) is self.mapping:
            if not self.mapping.enabled or self.queue not in self._sqs().queues or not self._has_room():
                time.sleep(0.1)
                continue
            try:
                messages = self._gather()
            except Exception:
                if self.queue in self._sqs().queues:  # else the queue was deleted meanwhile
                    log.exception("polling %s", self.queue)
                continue
            if messages:
                with self._changed:
                    self._busy += 1
                threading.Thread(
                    target=self._process, args=(messages,), name=f"batch-{self.queue}", daemon=True
                ).start()

    def _sqs(self) -> Any:
        from moto.sqs.models import sqs_backends

        return sqs_backends[ACCOUNT][REGION]

    def _has_room(self) -> bool:
        most = int((self.mapping.scaling_config or {}).get("MaximumConcurrency") or CONCURRENCY)
        with self._changed:
            return self._changed.wait_for(lambda: self._busy < most, timeout=POLL)

    def _gather(self) -> list[Any]:
        """Collect a full batch, or what has arrived when the batching window ends.

        The batch is empty while the function's role may not poll the queue.
        """
        function = self.backend.get_function(self.mapping.function_name)
        if poll_denial(function.role, function.function_name, self.mapping.event_source_arn) is not None:
            time.sleep(POLL)
            return []
        size, window = int(self.mapping.batch_size), int(self.mapping.max_batch_window or 0)
        messages: list[Any] = self._sqs().receive_message(self.queue, min(size, MOST_AT_ONCE), POLL, None)
        until = time.monotonic() + window
        while messages and len(messages) < size:
            left = until - time.monotonic()
            more = self._sqs().receive_message(
                self.queue, min(size - len(messages), MOST_AT_ONCE), max(0.0, min(left, 1.0)), None
            )
            if not more and left <= 0:
                break
            messages += more
        return messages

    def _process(self, messages: list[Any]) -> None:
        try:
            self._invoke(messages)
        except (FunctionNotFound, InvocationThrottled) as error:
            log.info("a batch from %s comes back: %s", self.queue, error)
        except Exception:
            log.exception("a batch from %s", self.queue)
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _invoke(self, messages: list[Any]) -> None:
        payload = json.dumps({"Records": [self._record(message) for message in messages]}).encode()
        result = self.functions.invoke(self.mapping.function_name, None, payload)
        if result.error is not None:
            return
        reports = "ReportBatchItemFailures" in (self.mapping.function_response_types or ())
        failed = failed_messages(result.payload, {message.id for message in messages}) if reports else set()
        for message in messages:
            if message.id not in failed:
                self._sqs().delete_message(self.queue, message.receipt_handle)

    def _record(self, message: Any) -> dict[str, Any]:
        attributes = {
            "ApproximateReceiveCount": str(message.approximate_receive_count),
            "SentTimestamp": str(int(message.sent_timestamp)),
            "SenderId": message.sender_id,
            "ApproximateFirstReceiveTimestamp": str(int(message.approximate_first_receive_timestamp or 0)),
        }
        if message.group_id is not None:
            attributes["MessageGroupId"] = message.group_id
        if message.deduplication_id is not None:
            attributes["MessageDeduplicationId"] = message.deduplication_id
        return {
            "messageId": message.id,
            "receiptHandle": message.receipt_handle,
            "body": message.body,
            "attributes": attributes,
            "messageAttributes": {
                name: {key[:1].lower() + key[1:]: value for key, value in attribute.items()}
                for name, attribute in message.message_attributes.items()
            },
            "md5OfBody": message.body_md5,
            "eventSource": "aws:sqs",
            "eventSourceARN": self.mapping.event_source_arn,
            "awsRegion": REGION,
        }


def failed_messages(payload: bytes, batch: set[str]) -> set[str]:
    """Return the messages that a function reports as failed. A response that names none of the batch, or has another
    form, means all of it.

    >>> failed_messages(b'{"batchItemFailures": [{"itemIdentifier": "a"}]}', {"a", "b"})
    {'a'}
    >>> failed_messages(b'null', {"a"}), failed_messages(b'{"batchItemFailures": [{"id": "a"}]}', {"a"})
    (set(), {'a'})
    """
    try:
        answer = json.loads(payload or b"null")
        reported = [item["itemIdentifier"] for item in (answer or {}).get("batchItemFailures") or []]
    except (ValueError, KeyError, TypeError, AttributeError):
        return batch
    return set(reported) if set(reported) <= batch else batch

"""SQS: moto's queues, made safe for threads. What feeds functions from them is in `event_source_mappings`.

moto's queues lose messages when a delete and a send meet, and hand one message to two consumers; each queue's operations are put in order
by the lock that the queue has for waiting anyway.
"""

import time
from collections.abc import Callable
from typing import Any

from joiner_local.aws.aws_lambda import event_source_mappings
from joiner_local.aws.local_aws import LocalAws

LOOK_AGAIN = 0.2  # seconds: a message becomes visible by time alone, nobody notifies


def install(aws: LocalAws) -> None:
    from moto.sqs import models

    for owner, name in ((models.Queue, "add_message"), (models.Queue, "delete_message")):
        setattr(owner, name, _in_order(getattr(owner, name), lambda queue: queue))
    for name in ("change_message_visibility", "purge_queue"):
        setattr(models.SQSBackend, name, _in_order_by_name(getattr(models.SQSBackend, name)))
    models.SQSBackend.receive_message = _patient(models.SQSBackend.receive_message)
    event_source_mappings.install(aws)


def _in_order(method: Callable[..., Any], queue_of: Callable[[Any], Any]) -> Callable[..., Any]:
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with queue_of(self)._messages_lock:
            return method(self, *args, **kwargs)

    return locked


def _in_order_by_name(method: Callable[..., Any]) -> Callable[..., Any]:
    def locked(self: Any, queue_name: str, *args: Any, **kwargs: Any) -> Any:
        with self.get_queue(queue_name)._messages_lock:
            return method(self, queue_name, *args, **kwargs)

    return locked


def _patient(receive: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Receiving under the lock, waiting without it."""

    def receive_message(
        self: Any, queue_name: str, count: int, wait_seconds_timeout: int, visibility_timeout: int | None, *args: Any, **kwargs: Any
    ) -> list[Any]:
        until = time.monotonic() + (wait_seconds_timeout or 0)
        while True:
            queue = self.get_queue(queue_name)
            hidden = queue.visibility_timeout if visibility_timeout is None else visibility_timeout
            with queue._messages_lock:
                messages = receive(self, queue_name, count, 0, hidden, *args, **kwargs)
                left = until - time.monotonic()
                if messages or left <= 0:
                    return messages
                queue._messages_lock.wait(min(LOOK_AGAIN, left))

    return receive_message

"""Make moto's SQS queues safe for threads. `event_source_mappings` invokes functions from them.

moto's queues lose messages when a deletion and a send coincide, and deliver one message to two consumers. Here the lock
that a queue has for waiting also orders its operations. moto counts all messages of a queue for each one that it
delivers or accepts; a thousand of them keep a core busy. So the age of a message is compared without that, and a
message is accepted without it.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute

LOOK_AGAIN = 0.2  # seconds: a message becomes visible with time, without a notification


def install() -> None:
    from moto.sqs import models

    for owner, name in ((models.Queue, "add_message"), (models.Queue, "delete_message")):
        original = getattr(owner, name)
        wrap_attribute(owner, name, _in_order(original, lambda queue: queue), original)
    for name in ("change_message_visibility", "purge_queue"):
        original = getattr(models.SQSBackend, name)
        wrap_attribute(models.SQSBackend, name, _in_order_by_name(original), original)
    receive = models.SQSBackend.receive_message
    wrap_attribute(models.SQSBackend, "receive_message", _patient(receive), receive)
    send, attributes = models.SQSBackend.send_message, models.Queue.attributes
    wrap_attribute(models.SQSBackend, "send_message", _uncounted(send), send)
    wrap_attribute(models.Queue, "attributes", _attributes(attributes.fget), attributes)
    replace_attribute(models.SQSBackend, "is_message_valid_based_on_retention_period", _is_kept)


def _is_kept(self: Any, queue_name: str, message: Any) -> bool:
    """Return whether the queue still keeps a message."""
    age = time.time() - message.sent_timestamp / 1000
    return bool(age < self.get_queue(queue_name).message_retention_period)


class _Sending(threading.local):
    """Whether this thread sends a message; then it needs no count of those in the queue."""

    now = False


_SENDING = _Sending()


def _uncounted(send: Callable[..., Any]) -> Callable[..., Any]:
    def send_message(self: Any, *args: Any, **kwargs: Any) -> Any:
        _SENDING.now = True
        try:
            return send(self, *args, **kwargs)
        finally:
            _SENDING.now = False

    return send_message


def _attributes(read: Callable[[Any], dict[str, Any]]) -> property:
    """Return the property that reads all attributes of a queue; while a message is sent, the one that moto needs."""

    def attributes(self: Any) -> dict[str, Any]:
        if not _SENDING.now:
            return read(self)
        deduplicated = self.fifo_queue and self.content_based_deduplication
        return {"ContentBasedDeduplication": str(bool(deduplicated)).lower()}

    return property(attributes)


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
    """Return a receive operation that holds the lock while it reads, but not while it waits."""

    def receive_message(
        self: Any,
        queue_name: str,
        count: int,
        wait_seconds_timeout: int,
        visibility_timeout: int | None,
        *args: Any,
        **kwargs: Any,
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

"""Instances that end right after their launch: the reason, and how long the same launch is not repeated.

EC2 accepts such a launch and fails it seconds later: the caller may not use the key of a volume, a snapshot is gone,
the account's quota of volume storage is used up, the host failed. Only ``StateReason`` of the instance shows it. The
same launch repeated at once fails the same way and costs a minute of each instance. Source: EC2 API reference,
StateReason; EC2 user guide, "Instance terminates immediately"; karpenter-provider-aws#1407.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from joiner.names import NODECLASS, PROVISIONER
from joiner.pools import NodeClassProblem, ResolvedNodeClass

AT_LAUNCH: Final = timedelta(minutes=10)
"""An instance that ran for longer did not fail at its launch."""

OF_THE_OFFERING: Final = frozenset({"Server.InsufficientInstanceCapacity", "Server.InternalError"})
"""Codes for which another offering may work; every other failure affects all instances of the class."""

NOT_AT_LAUNCH: Final = frozenset(
    {"Client.InstanceTerminated", "Client.UserInitiatedHibernate", "Client.UserInitiatedShutdown"}
)
"""Codes of instances that a person terminated or hibernated."""

REMEDIES: Final[Mapping[str, str]] = {
    "Client.InstanceInitiatedShutdown": "the instance shut itself down: check the class's userData",
    "Client.InternalError": "usually the key of an encrypted volume may not be used: allow it to the role of "
    "launch_instances "
    "(kms:CreateGrant, kms:Decrypt, kms:DescribeKey, kms:GenerateDataKeyWithoutPlaintext, kms:ReEncrypt*), in "
    "its policy and in the key's",
    "Client.InvalidSnapshot.NotFound": (
        "a snapshot of the class's blockDeviceMappings or of its image is gone: name another"
    ),
    "Client.VolumeLimitExceeded": (
        "the account's quota of EBS storage is used up: have it raised in Service Quotas, or delete volumes"
    ),
    "Server.InsufficientInstanceCapacity": "EC2 had no capacity after all: other offerings are tried",
    "Server.InternalError": "EC2 failed: other offerings are tried",
}
KMS_REMEDY: Final = (
    "the key of a volume is disabled, deleted or not of this region: put kmsKeyID right, or the account's default key"
)
OTHER_REMEDY: Final = "check the message, and the class's volumes, image and userData"


class RecordedBackOff(Protocol):
    """What the ledger has recorded about failures at launches (`joiner.adapters.ledger_items.BackOff`)."""

    @property
    def tries(self) -> int:
        """Return the number of failures in a row."""

    @property
    def until(self) -> int:
        """Return until when nothing is launched, in epoch seconds."""

    @property
    def reason(self) -> str:
        """Return the reason of the last failure."""


@dataclass(frozen=True, slots=True)
class FailureAtLaunch:
    """Why an instance ended at its launch. ``scope`` is what is not launched for a while: a class's id, or empty for
    its offering alone.
    """

    instance: str
    code: str
    message: str
    scope: str

    @property
    def explanation(self) -> str:
        """Return the failure and the remedy, in one sentence each.

        >>> FailureAtLaunch("i-1", "Server.InternalError", "Server.InternalError: Internal error", "").explanation
        'instance i-1 ended at its launch: Server.InternalError: Internal error. EC2 failed: other offerings are tried'
        """
        why, remedy = describe_state_reason(self.code, self.message).rstrip("."), find_remedy(self.code)
        return f"instance {self.instance} ended at its launch: {why}. {remedy[:1].upper()}{remedy[1:]}"


def describe_state_reason(code: str, message: str) -> str:
    """Return EC2's ``StateReason`` as one text, which begins with the code; empty without one.

    >>> describe_state_reason("Client.X", "Client.X: failed"), describe_state_reason("Client.X", "")
    ('Client.X: failed', 'Client.X')
    """
    return message if message.startswith(code) else f"{code}: {message}".rstrip(": ")


def find_remedy(code: str) -> str:
    """Return the remedy for a StateReason code."""
    if code.startswith(("Client.InvalidKMSKey", "Client.KMS")):
        return KMS_REMEDY
    return REMEDIES.get(code, OTHER_REMEDY)


def back_off_id_of_class(name: str, *, legacy: bool) -> str:
    """Return the id under which the failures of a node class are counted.

    >>> back_off_id_of_class("default", legacy=False)
    'class#v1#default'
    """
    return f"class#{'v1alpha5' if legacy else 'v1'}#{name}"


def find_launch_failure(
    instance: str,
    *,
    code: str,
    message: str,
    ended: bool,
    launched_at: datetime | None,
    tags: Mapping[str, str],
    now: datetime,
) -> FailureAtLaunch | None:
    """Return why an instance of this cluster (with these ``tags``) ended at its launch.

    None if it runs, or ended for another reason.
    """
    young = launched_at is not None and now - launched_at <= AT_LAUNCH
    if not ended or not young or not code.startswith(("Client.", "Server.")) or code in NOT_AT_LAUNCH:
        return None
    if code.startswith("Server.") and code not in OF_THE_OFFERING:  # spot interruptions, scheduled events
        return None
    offering_only = code in OF_THE_OFFERING or NODECLASS not in tags
    scope = "" if offering_only else back_off_id_of_class(tags[NODECLASS], legacy=PROVISIONER in tags)
    return FailureAtLaunch(instance, code, message, scope)


def describe_back_off(tries: int, until: int, reason: str) -> str:
    """Return the message of a node class that launches nothing before ``until`` (epoch seconds).

    ``tries`` is the number of failures in a row, ``reason`` the last one.

    >>> describe_back_off(1, 60, "instance i-1 ended at its launch")
    'nothing is launched until 00:01:00 UTC, because launches failed once: instance i-1 ended at its launch'
    """
    times = "once" if tries == 1 else f"{tries} times in a row"
    end = datetime.fromtimestamp(until, UTC)
    return f"nothing is launched until {end:%H:%M:%S} UTC, because launches failed {times}: {reason}"


def hold_class_back(resolved: ResolvedNodeClass, waits: Mapping[str, RecordedBackOff]) -> ResolvedNodeClass:
    """Return the class, not ready while it is held back because its instances ended at their launch.

    `waits` are the back-offs that have not ended, by id.
    """
    wait = waits.get(back_off_id_of_class(resolved.name, legacy=resolved.kind != "EC2NodeClass"))
    if wait is None:
        return resolved
    message = describe_back_off(wait.tries, wait.until, wait.reason)
    return resolved.with_problems([NodeClassProblem("ValidationSucceeded", "InstancesEndAtLaunch", message)])

"""Why the node of a claim that is retired never registered, or never became ready for pods: the reason and the message
of its condition `Registered` or `Initialized`.

The claims that check_registration gave up already have a reason. Here are those whose instance ended or failed before,
and those that no execution awaited. The console output of the instance adds the cause.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from joiner.lifecycle.failed_claims import REGISTRATION_TIMEOUT, failure_reason
from joiner.lifecycle.node_deadlines import REGISTRATION_MINUTES
from joiner.lifecycle.retirement import RetirementReason
from joiner.pools import NodeClaim

ENDED_AT_LAUNCH: Final = "InstanceEndedAtLaunch"
"""EC2 launched the instance and ended it within seconds; its StateReason gives the cause."""

ENDED: Final = "InstanceEnded"
IMPAIRED: Final = "InstanceImpaired"

OF_FAILED_NODES: Final = frozenset({RetirementReason.LOST, RetirementReason.IMPAIRED, RetirementReason.NEVER_JOINED})
"""Every other reason of a retirement is a warning of AWS, or a wish."""

ENDED_BY_EC2: Final = "Server."
"""The start of StateReason codes that no correction changes: interruptions, missing capacity, failed hosts."""


@dataclass(frozen=True, slots=True)
class BootFailure:
    """The reason as one word, and cause and remedy as one line. `repeated`: the claim was given up before, and only the
    cause is new. `condition` is the type of the claim's condition.
    """

    reason: str
    message: str
    repeated: bool = False
    condition: str = "Registered"


def find_boot_failure(
    claim: NodeClaim, reason: RetirementReason, launch_failure: str, console: str, state_reason: str = ""
) -> BootFailure | None:
    """Return why its node never registered or, if its instance failed, never became ready for pods; None if it did, or
    if that is known or was not awaited.

    `launch_failure` is EC2's explanation of an instance that ended at its launch, `state_reason` EC2's StateReason of
    one that ended later, `console` the cause in the console output of its instance and the place of that output. Each
    may be empty.
    """
    given_up = failure_reason(claim)
    if claim.initialized or not claim.launched or given_up not in ("", REGISTRATION_TIMEOUT):
        return None
    failure = _judge(claim, reason, launch_failure, state_reason)
    if failure is None or (given_up and not console):
        return None
    if claim.registered and failure.reason not in (ENDED, IMPAIRED):
        return None
    condition = "Initialized" if claim.registered else "Registered"
    message = f"{failure.message}: {console}" if console and not claim.registered else failure.message
    known = claim.conditions[condition]
    repeated = (known.status, known.reason) == ("False", failure.reason)
    if repeated and known.message.startswith(message):  # the end of its pool's hold may follow
        return None
    return BootFailure(failure.reason, message, repeated, condition)


def counts_for_pool(failure: BootFailure, reasons: Iterable[str], state_reason: str) -> bool:
    """Return whether the failure counts for a hold of the claim's pool (`joiner.lifecycle.failed_nodes`).

    An instance that ended at its launch does not: its class or offering waits. Nor does one that EC2 interrupted.
    `reasons` are those of the retirement.
    """
    known = failure.repeated or failure.reason == ENDED_AT_LAUNCH or state_reason.startswith(ENDED_BY_EC2)
    return not known and OF_FAILED_NODES.issuperset(reasons)


def _judge(claim: NodeClaim, reason: RetirementReason, launch_failure: str, state_reason: str) -> BootFailure | None:
    instance, until = claim.instance_id, "was ready for pods" if claim.registered else "registered"
    if launch_failure:
        return BootFailure(ENDED_AT_LAUNCH, launch_failure)
    if reason is RetirementReason.LOST:
        why = f": {state_reason.rstrip('.')}" if state_reason else ""
        message = (
            f"instance {instance} ended before its node {until}{why} (a person or a program terminated or stopped it: "
            "CloudTrail names the caller; or EC2 terminated it, or its user data shut it down)"
        )
        return BootFailure(ENDED, message)
    if reason is RetirementReason.IMPAIRED:
        message = (
            f"EC2's status checks of instance {instance} failed before its node {until} (check image, kernel and "
            "user data if other instances fail too)"
        )
        return BootFailure(IMPAIRED, message)
    if reason is RetirementReason.NEVER_JOINED:
        message = f"the node of instance {instance} did not register in {REGISTRATION_MINUTES} minutes"
        return BootFailure(REGISTRATION_TIMEOUT, message)
    return None

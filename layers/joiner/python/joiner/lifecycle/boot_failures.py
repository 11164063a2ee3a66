"""Why the node of a claim that is retired never registered: the reason and the message of its condition `Registered`.

The claims that check_registration gave up already have a reason. Here are those whose instance ended or failed before,
and those that no execution awaited. The console output of the instance adds the cause.
"""

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


@dataclass(frozen=True, slots=True)
class BootFailure:
    """The reason as one word, and cause and remedy as one line. `repeated`: the claim was given up before, and only the
    cause is new.
    """

    reason: str
    message: str
    repeated: bool = False


def find_boot_failure(
    claim: NodeClaim, reason: RetirementReason, launch_failure: str, console: str
) -> BootFailure | None:
    """Return why its node never registered; None if it did, or if that is known or was not awaited.

    `launch_failure` is EC2's explanation of an instance that ended at its launch, `console` the cause in the console
    output of its instance and the place of that output. Both may be empty.
    """
    given_up = failure_reason(claim)
    if claim.registered or not claim.launched or given_up not in ("", REGISTRATION_TIMEOUT):
        return None
    failure = _judge(claim.instance_id, reason, launch_failure)
    if failure is None or (given_up and not console):
        return None
    message = f"{failure.message}: {console}" if console else failure.message
    known = claim.conditions["Registered"]
    repeated = (known.status, known.reason) == ("False", failure.reason)
    return None if repeated and known.message == message else BootFailure(failure.reason, message, repeated)


def _judge(instance: str, reason: RetirementReason, launch_failure: str) -> BootFailure | None:
    if launch_failure:
        return BootFailure(ENDED_AT_LAUNCH, launch_failure)
    if reason is RetirementReason.LOST:
        message = (
            f"instance {instance} ended before its node registered (a person or a program terminated or stopped it: "
            "CloudTrail names the caller; or EC2 terminated it, or its user data shut it down)"
        )
        return BootFailure(ENDED, message)
    if reason is RetirementReason.IMPAIRED:
        message = (
            f"EC2's status checks of instance {instance} failed before its node registered (check image, kernel and "
            "user data if other instances fail too)"
        )
        return BootFailure(IMPAIRED, message)
    if reason is RetirementReason.NEVER_JOINED:
        message = f"the node of instance {instance} did not register in {REGISTRATION_MINUTES} minutes"
        return BootFailure(REGISTRATION_TIMEOUT, message)
    return None

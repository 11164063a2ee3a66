"""Instances that end right after a successful launch; only `StateReason` has the reason.

EC2 ends an instance so when it finds a problem late: the caller may not use the key of an encrypted volume, the account
has no volume storage left, the host failed. Source: EC2 user guide, "Instance terminates immediately"; EC2 API
reference, StateReason.

Knob: `POST /_local/early-terminations {"instanceType": "m5.large", "code": "Client.InternalError", "message":
"Client.InternalError: Client error on launch", "afterSeconds": 0.5, "count": 3}`: the next `count` instances of that
type (`"*"`: of any type) end so. `"count": null` is all from now on; `{"clear": true}` removes all rules. Each answer
shows the rules; so does `{}`, which adds none.
"""

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from joiner_local.aws.ec2.instance_lifecycle import AGENDA, EndReason, terminate
from joiner_local.aws.local_aws import LocalAws
from joiner_local.knob_requests import check_fields, read_number

MESSAGES: Final = {
    "Client.InternalError": "Client.InternalError: Client error on launch",
    "Client.InvalidSnapshot.NotFound": "Client.InvalidSnapshot.NotFound: The specified snapshot was not found.",
    "Client.VolumeLimitExceeded": "Client.VolumeLimitExceeded: Volume limit exceeded",
    "Server.InsufficientInstanceCapacity": "Server.InsufficientInstanceCapacity: Insufficient instance capacity to "
    "launch instance",
    "Server.InternalError": "Server.InternalError: Internal error on launch",
}
FIELDS: Final = {"instanceType", "code", "message", "afterSeconds", "count", "clear"}
ANY: Final = "*"


@dataclass(slots=True)
class EarlyTermination:
    """Which new instances end, with which reason, after how many seconds, and how many more (None: all)."""

    instance_type: str
    reason: EndReason
    after: float
    count: int | None


@dataclass(slots=True)
class EarlyTerminations:
    lock: threading.Lock = field(default_factory=threading.Lock)
    deaths: list[EarlyTermination] = field(default_factory=list)

    def reason_for(self, instance_type: str) -> EarlyTermination | None:
        """Return the termination of a new instance of this type, and count it."""
        with self.lock:
            found = next(
                (each for each in self.deaths if each.instance_type in (ANY, instance_type) and each.count != 0), None
            )
            if found is not None and found.count is not None:
                found.count -= 1
            return found


EARLY_TERMINATIONS: Final = EarlyTerminations()


def schedule_early_terminations(instances: list[Any]) -> None:
    """Schedule the end of those new instances that match a rule."""
    for instance in instances:
        if death := EARLY_TERMINATIONS.reason_for(instance.instance_type):
            AGENDA.after(death.after, partial(terminate, instance, death.reason))


def set_early_terminations(asked: dict[str, Any]) -> dict[str, Any]:
    check_fields(asked, FIELDS, "early-terminations")
    if asked.get("clear"):
        EARLY_TERMINATIONS.deaths.clear()
    elif asked:
        EARLY_TERMINATIONS.deaths.append(_read_rule(asked))
    return {"rules": [_describe(each) for each in EARLY_TERMINATIONS.deaths if each.count != 0]}


def _read_rule(asked: dict[str, Any]) -> EarlyTermination:
    code = str(asked.get("code", "Client.InternalError"))
    reason = EndReason(code, str(asked.get("message") or MESSAGES.get(code, code)))
    count = asked.get("count")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
        raise ValueError(f"early-terminations: count is {count}: give a number from 1 on, or null for all from now on")
    return EarlyTermination(str(asked.get("instanceType", ANY)), reason, read_number(asked, "afterSeconds", 0.5), count)


def _describe(rule: EarlyTermination) -> dict[str, Any]:
    return {
        "instanceType": rule.instance_type,
        "code": rule.reason.code,
        "afterSeconds": rule.after,
        "count": rule.count,
    }


def install(aws: LocalAws) -> None:
    aws.add_knobs({"early-terminations": set_early_terminations})

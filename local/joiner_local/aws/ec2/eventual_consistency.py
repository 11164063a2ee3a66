"""Eventual consistency of EC2: other calls do not know an instance for a moment after its launch.

In that time DescribeInstances leaves the instance out of filtered results, and refuses its id as CreateTags and
TerminateInstances do: *InvalidInstanceID.NotFound*. The local EC2 shows instances at once, unless the knob is set.
Source: EC2 developer guide, "Eventual consistency in the Amazon EC2 API".

Knob: `POST /_local/visibility {"seconds": 5}`; it applies to instances that are launched afterwards.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.local_aws import LocalAws
from joiner_local.knob_requests import check_fields, read_number


@dataclass(slots=True)
class Visibility:
    """How long new instances stay unknown, and which are unknown (id -> monotonic time of the end)."""

    seconds: float = 0.0
    until: dict[str, float] = field(default_factory=dict)

    def launched(self, instances: Iterable[Any]) -> None:
        """Start the time for new instances."""
        if self.seconds:
            end = time.monotonic() + self.seconds
            self.until |= {instance.id: end for instance in instances}

    def unknown(self, instance_id: str) -> bool:
        return self.until.get(instance_id, 0.0) > time.monotonic()

    def check(self, ids: Iterable[str]) -> None:
        """Refuse a call that names an unknown instance."""
        if hidden := [each for each in ids if self.unknown(each)]:
            raise InvalidInstanceIdError(hidden)


VISIBILITY: Final = Visibility()


def set_visibility(asked: dict[str, Any]) -> dict[str, Any]:
    check_fields(asked, {"seconds"}, "visibility")
    VISIBILITY.seconds = read_number(asked, "seconds", VISIBILITY.seconds)
    return {"seconds": VISIBILITY.seconds}


def _checked(call: Callable[[Any], ActionResult], parameter: str) -> Callable[[Any], ActionResult]:
    def checked(response: Any) -> ActionResult:
        VISIBILITY.check(response._get_param(parameter, []))
        return call(response)

    return checked


def install(aws: LocalAws) -> None:
    describe = EC2Response.describe_instances

    def describe_instances(response: Any) -> ActionResult:
        VISIBILITY.check(response._get_param("InstanceIds", []))
        answer: ActionResult = describe(response)
        shown: dict[str, Any] = answer.result
        seen = [each for each in shown["Reservations"] if not all(VISIBILITY.unknown(one.id) for one in each.instances)]
        return ActionResult({**shown, "Reservations": seen})

    wrap_attribute(EC2Response, "describe_instances", describe_instances, describe)
    for name, parameter in (("create_tags", "Resources"), ("terminate_instances", "InstanceIds")):
        original = getattr(EC2Response, name)
        wrap_attribute(EC2Response, name, _checked(original, parameter), original)
    aws.add_knobs({"visibility": set_visibility})

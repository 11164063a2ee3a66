"""A node class whose instances ended at their launch is held back for a while."""

from dataclasses import dataclass

from joiner.lifecycle.immediate_terminations import back_off_id_of_class, hold_class_back
from joiner.pools import ResolvedNodeClass

READY = ResolvedNodeClass("default", "EC2NodeClass")


@dataclass(frozen=True)
class FailedTwice:
    tries: int = 2
    until: int = 60
    reason: str = "instance i-1 ended at its launch"


def test_a_class_with_a_back_off_is_not_ready_and_gives_the_reason() -> None:
    held = hold_class_back(READY, {back_off_id_of_class("default", legacy=False): FailedTwice()})

    assert [(each.condition, each.reason, each.message) for each in held.problems] == [
        (
            "ValidationSucceeded",
            "InstancesEndAtLaunch",
            "nothing is launched until 00:01:00 UTC, because launches failed 2 times in a row: "
            "instance i-1 ended at its launch",
        )
    ]


def test_the_back_off_of_another_class_or_of_a_legacy_class_with_this_name_does_not_count() -> None:
    waits = {
        back_off_id_of_class("other", legacy=False): FailedTwice(),
        back_off_id_of_class("default", legacy=True): FailedTwice(),
    }

    assert hold_class_back(READY, waits) == READY
    assert hold_class_back(ResolvedNodeClass("default", "AWSNodeTemplate"), waits).problems

"""What the ledger has recorded about one retirement, as the rules for its next execution read it."""

from typing import Final, Protocol

CLOCKS_APART: Final = 30
"""Seconds by which the clocks of the API server and of a function may differ."""


class RecordedRetirement(Protocol):
    """The part that all rules read (`joiner.adapters.ledger_items.Retirement`)."""

    @property
    def claim(self) -> str:
        """Return the name of the claim."""

    @property
    def owner(self) -> str:
        """Return the ARN of the execution that retires it; empty without one."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why it is retired."""

    @property
    def instance(self) -> str:
        """Return the id of the instance that it is about; empty if it is not known."""

    @property
    def since(self) -> int:
        """Return its start in epoch seconds; 0 if it is not known."""

    @property
    def deadline(self) -> int:
        """Return until when its node must be drained, in epoch seconds; 0 without a deadline."""

    @property
    def back_off_until(self) -> int:
        """Return until when it may stay without an owner, in epoch seconds."""

    def attended(self, now: int) -> bool:
        """Return whether the owner attends to it at `now` (epoch seconds)."""


def is_about(recorded: RecordedRetirement, instance: str, created: int = 0) -> bool:
    """Return whether the record is about the claim that has its name now, with this `instance` and `created` at this
    time (epoch seconds, 0 for unknown).

    A user may create a claim with the name of one that is gone. If the record of that one was left, it must not count
    for the new claim.
    """
    if recorded.instance and instance:
        return recorded.instance == instance
    return not (created and recorded.since) or recorded.since >= created - CLOCKS_APART

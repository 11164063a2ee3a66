"""What the ledger has recorded about one retirement, as the rules for its next execution read it."""

from typing import Protocol


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
    def deadline(self) -> int:
        """Return until when its node must be drained, in epoch seconds; 0 without a deadline."""

    @property
    def back_off_until(self) -> int:
        """Return until when it may stay without an owner, in epoch seconds."""

    def attended(self, now: int) -> bool:
        """Return whether the owner attends to it at `now` (epoch seconds)."""

"""What Joiner uses of AWS services in a time, and what that costs."""

from dataclasses import dataclass
from typing import Final

from joiner_local.demo.cost_report import (
    EXPRESS_REQUEST,
    EXPRESS_SECOND,
    LAMBDA_GB_SECOND,
    LAMBDA_REQUEST,
    TRANSITION,
)

# $ each, in addition to the prices of the bill; AWS's price pages, 2026-11, us-east-1
HTTP_API: Final = 1e-6
WRITE: Final = 0.625e-6
READ: Final = 0.125e-6
S3_WRITE: Final = 5e-6
S3_READ: Final = 0.4e-6


@dataclass(frozen=True, slots=True)
class Use:
    """What was used: transitions of Standard state machines, Express executions with their seconds, Lambda, items,
    documents."""

    transitions: float = 0
    express: float = 0
    express_seconds: float = 0
    calls: float = 0
    gb_seconds: float = 0
    doorbell: float = 0
    writes: float = 0
    reads: float = 0
    s3_writes: float = 0
    s3_reads: float = 0

    def __add__(self, other: "Use") -> "Use":
        return Use(*(mine + its for mine, its in zip(self.numbers(), other.numbers(), strict=True)))

    def __mul__(self, factor: float) -> "Use":
        return Use(*(mine * factor for mine in self.numbers()))

    def numbers(self) -> tuple[float, ...]:
        """Return the counts in the order of the fields."""
        return tuple(getattr(self, name) for name in self.__slots__)

    @property
    def dollars(self) -> float:
        """Return what the use costs, in $."""
        return (
            self.transitions * TRANSITION
            + self.express * EXPRESS_REQUEST
            + self.express_seconds * EXPRESS_SECOND
            + self.calls * LAMBDA_REQUEST
            + self.gb_seconds * LAMBDA_GB_SECOND
            + self.doorbell * HTTP_API
            + self.writes * WRITE
            + self.reads * READ
            + self.s3_writes * S3_WRITE
            + self.s3_reads * S3_READ
        )


NO_USE: Final = Use()

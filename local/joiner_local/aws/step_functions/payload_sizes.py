"""How much data a state may handle; more fails with States.DataLimitExceeded, which States.ALL does not catch.

Sources: "Step Functions service quotas" (262,144 bytes of UTF-8 for the input or result of a task, a state or an
execution); "Passing data between states with variables" (one variable and all variables of one Assign: 256 KiB; all
variables of an execution: 10 MiB).
"""

from collections.abc import Mapping
from typing import Final

from joiner_local.aws.step_functions.jsonata_expressions import Json
from joiner_local.aws.step_functions.state_runs import to_text
from joiner_local.aws.step_functions.task_tokens import StateFailure

LARGEST_PAYLOAD: Final = 262_144  # bytes
MOST_VARIABLES: Final = 10 * 1024 * 1024  # bytes

ERROR: Final = "States.DataLimitExceeded"
TOO_LARGE: Final = (
    "The state/task '{}' returned a result with a size exceeding the maximum number of bytes service limit."
)


def exceeds(text: str, limit: int = LARGEST_PAYLOAD) -> bool:
    """Return whether the text is longer than the limit in UTF-8.

    >>> exceeds("é" * 131_073), exceeds("e" * 262_144)
    (True, False)
    """
    return len(text) > limit // 4 and len(text.encode()) > limit


def check_result(text: str, owner: str) -> None:
    """Refuse a result or an output of a state."""
    if exceeds(text):
        raise StateFailure(ERROR, TOO_LARGE.format(owner))


def check_arguments(value: Json, state: str) -> None:
    """Refuse the arguments of a call or the input of branches."""
    if exceeds(to_text(value)):
        raise StateFailure(ERROR, f"The arguments of the state '{state}' are longer than {LARGEST_PAYLOAD} bytes.")


def check_variables(assigned: Mapping[str, str], before: Mapping[str, Json], state: str) -> None:
    """Refuse what an Assign would store; `assigned` is JSON text by variable, `before` are all variables in scope."""
    total = sum(len(text.encode()) for text in assigned.values())
    if total > LARGEST_PAYLOAD:
        names = ", ".join(sorted(assigned))
        raise StateFailure(
            ERROR,
            f"The state '{state}' assigns {total} bytes to {names}: more than {LARGEST_PAYLOAD} bytes in one Assign.",
        )
    if (
        total
        and total + sum(len(to_text(value)) for name, value in before.items() if name not in assigned) > MOST_VARIABLES
    ):
        raise StateFailure(ERROR, f"The variables of the execution are longer than {MOST_VARIABLES} bytes.")

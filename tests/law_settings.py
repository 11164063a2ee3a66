"""How many examples a law is tried with: the same ones in each `make test`, new ones in `make law-test`.

A law whose example is a whole plan or cluster takes seconds for a hundred of them, so it names a smaller number. No law
has fewer than `LEAST` examples in `make test`, and than `LEAST_FRESH` with each of the seeds of `make law-test`.
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

FRESH: Final = "JOINER_FRESH_SEEDS" in os.environ
PROFILE: Final = "fresh" if FRESH else "default"
"""`fresh` with `JOINER_FRESH_SEEDS` (`make law-test`)."""
USUAL: Final = 100
"""Examples of a law that names no number: the number of hypothesis itself."""
LEAST: Final = 20
LEAST_FRESH: Final = 50

# No deadline, because the machine may be busy. By default the examples are the same in each run, so that failures are
# reproducible; `fresh` draws new ones, and prints how to reproduce a failure.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=USUAL)
settings.register_profile("fresh", deadline=None, derandomize=False, max_examples=USUAL, print_blob=True)


def examples(number: int, *, repeated: int | None = None) -> settings:
    """Return the settings of a law that has `number` examples, with fresh seeds at least `LEAST_FRESH`.

    `repeated` is the number in the profile `default` for a law of whole plans: the examples of that profile are the
    same in each run, so `make test` learns little from many of them, and `make law-test` draws new ones. ValueError for
    fewer than `LEAST`.
    """
    return settings(
        max_examples=count_examples(number, repeated, fresh=PROFILE == "fresh"),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def count_examples(number: int, repeated: int | None = None, *, fresh: bool) -> int:
    """Return the number of examples of a law.

    >>> count_examples(60, 30, fresh=False), count_examples(60, 30, fresh=True), count_examples(20, fresh=True)
    (30, 60, 50)
    """
    usual = number if repeated is None else repeated
    if usual < LEAST:
        raise ValueError(f"{usual} examples are too few for a law: give at least {LEAST}")
    return max(number, LEAST_FRESH) if fresh else usual

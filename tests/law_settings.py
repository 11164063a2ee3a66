"""How many examples a law is tried with: its own number by default, ten times that in the nightly profile.

A law whose example is a whole plan or cluster takes seconds for a hundred of them, so it names a smaller number.

>>> settings.get_profile("nightly").max_examples // settings.get_profile("default").max_examples
10
"""

import os
from typing import Final

from hypothesis import HealthCheck, settings

FRESH: Final = "JOINER_FRESH_SEEDS" in os.environ
PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE", "fresh" if FRESH else "default")
"""`fresh` with `JOINER_FRESH_SEEDS` (`make law-test`)."""
USUAL: Final = 100
"""Examples of a law that names no number: the number of hypothesis itself."""

# No deadline, because the machine may be busy. By default the examples are the same in each run, so that failures are
# reproducible; `fresh` and `nightly` draw new ones, and print how to reproduce a failure.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=USUAL)
settings.register_profile("fresh", deadline=None, derandomize=False, max_examples=USUAL, print_blob=True)
settings.register_profile("nightly", deadline=None, derandomize=False, max_examples=10 * USUAL, print_blob=True)


def examples(number: int, *, repeated: int | None = None) -> settings:
    """Return the settings of a law that has `number` examples by default, and in proportion in other profiles.

    `repeated` is the number in the profile `default` for a law of whole plans: the examples of that profile are the
    same in each run, so `make test` learns little from many of them, and `make law-test` draws new ones.
    """
    if repeated is not None and PROFILE == "default":
        number = repeated
    most = number * settings().max_examples // USUAL  # of the profile that is loaded
    return settings(max_examples=most, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

"""A few cases of the crash table, each time: see `test_crash_table`. Their table is printed at the end of the run."""

import time
from collections.abc import Callable

import pytest

from tests.conftest import SHOWN
from tests.e2e.crash.disturbed_stack import Rig
from tests.e2e.crash.fault_trial import Trial
from tests.e2e.crash.fixed_cases import QUICK

pytestmark = [pytest.mark.e2e, pytest.mark.restless("most executions here fail, as they should")]


def test_after_each_of_a_few_crashes_the_next_sweeps_make_all_well(
    rig: Rig, record_property: Callable[[str, object], None]
) -> None:
    began, started = time.time(), time.monotonic()
    trial = Trial(rig, print, len(QUICK))
    try:
        trial.run(QUICK)
    finally:
        record_property(SHOWN, trial.describe(time.monotonic() - started))

    assert trial.wrong == {}
    assert trial.struck == len(trial.verdicts) == len(QUICK), trial.unmet
    assert rig.out_of_memory(began) == []

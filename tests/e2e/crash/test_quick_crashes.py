"""A few cases of the crash table, each time: see `test_crash_table`."""

import pytest

from tests.e2e.crash.disturbed_stack import Rig
from tests.e2e.crash.fault_trial import Trial
from tests.e2e.crash.fixed_cases import QUICK

pytestmark = [pytest.mark.e2e, pytest.mark.restless("most executions here fail, as they should")]


def test_after_a_few_crashes_the_next_sweeps_make_all_well(rig: Rig) -> None:
    trial = Trial(rig, lambda _: None, len(QUICK))

    trial.run(QUICK)

    assert trial.wrong == {}
    assert trial.unmet == []

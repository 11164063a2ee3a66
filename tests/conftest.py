"""Assigns the tests to the workers of `make test`, and loads the profile of hypothesis: `default`, or `fresh` with
`JOINER_FRESH_SEEDS` (`tests/law_settings.py`).

A worker runs the tests of a file together. Files that share an expensive fixture are run by one worker: the end-to-end
tests of a deployed stack, the tests that synthesise the app, and those that need only the local AWS. End-to-end tests
mostly wait, so three stacks at the same time take hardly longer than one.

A run of all folders (`make test`) has the end-to-end tests of the main job only (`MAIN`), so that it ends within
minutes. The others run with `make test-all`, as in CI, and whenever their file is named.

`@pytest.mark.long("what make test-all has instead")` is for tests that only `make long-test` runs, a part of
`make nightly`: they are left out unless `JOINER_LONG` is set.
"""

import gc
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from joiner_local.stack.cdk_deployment import SETTINGS
from joiner_local.tooling.function_python import find, named_in
from tests.compiled_modules import compile_modules
from tests.law_settings import PROFILE
from tests.local.running_aws import RunningAws, started_server

TESTS: Final = Path(__file__).parent

STACKS: Final[Mapping[str, frozenset[str]]] = {
    "crashing": frozenset(
        {
            "test_crash_table.py",
            "test_stopped_executions.py",
            "test_chaos.py",
            "test_soak.py",
            "test_stack_lifecycle.py",
            "test_other_autoscalers.py",
            "test_reported_mistakes.py",
            "test_no_capacity.py",
            "test_invariants.py",
            "test_watched_disruptions.py",
            "test_capacity_reservations.py",
            "test_interruptions.py",
            "test_launches_that_fail.py",
            "test_mixes.py",
            "test_services_in_trouble.py",
            "test_spot_storm.py",
            "test_node_repair.py",
            "test_rebalance.py",
        }
    ),
    "leaving": frozenset(
        {
            "test_retired_nodes.py",
            "test_drain_by_rollout.py",
            "test_sweep.py",
            "test_full_plans.py",
            "test_scenarios_as_nodepools.py",
            "test_node_agent.py",
            "test_uninstall.py",
            "test_accept.py",
            "test_drifted_nodes.py",
            "test_node_class_ceilings.py",
            "test_scenario_c.py",
            "test_drain_order.py",
            "test_drift_reasons.py",
            "test_graceful_expiration.py",
            "test_hundred_empty_nodes.py",
        }
    ),
}
"""The end-to-end tests with separate stacks, about a third of the time each. All others share one stack."""

MAIN: Final = frozenset(
    {
        "test_scenarios_abcd.py",
        "test_adapters_kube.py",
        "test_control_plane.py",
        "test_crds.py",
        "test_deployed_python.py",
        "test_function_rbac.py",
        "test_own_cluster.py",
        "test_policies_on_nodes.py",
        "test_policies_on_pods.py",
        "test_policies_on_roles.py",
        "test_quick_crashes.py",
        "test_refused_mutations.py",
        "test_user_claims.py",
    }
)
"""The end-to-end tests of `make test`, all on the shared stack: from pending pods to terminated instances, a few
crashes, and what the API server accepts and refuses."""

PATIENT: Final = ("test_scenarios_abcd.py", "test_scenarios_as_nodepools.py")
"""They mostly wait: they run first on their stacks, while other workers compute."""

LONG: Final = "JOINER_LONG" in os.environ
"""Run the long tests, too."""

WHOLE: Final = LONG or "JOINER_ALL" in os.environ
"""Run all end-to-end tests, not only `MAIN`."""

GARBAGE_AFTER: Final = 20_000
"""New objects between two collections: tests build and forget many more than Python's 700, and imports forget few."""

SHOWN: Final = "shown at the end"
"""Name of a property of a test (`record_property`): text that is printed at the end of the run, also of one with
several workers.
"""

settings.load_profile(PROFILE)
gc.set_threshold(GARBAGE_AFTER)


def pytest_report_header() -> list[str]:
    """For the end-to-end tests."""
    left_out = [] if LONG else ["long tests are left out: JOINER_LONG=1 runs them, or make long-test"]
    if not WHOLE:
        left_out.append("most end-to-end tests are left out of a run of all folders: make test-all runs them")
    return [str(find(named_in(TESTS.parent / "clusters" / f"{SETTINGS}.yaml"))), *left_out]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Before the workers start: all of them import all tests."""
    compile_modules(Path(each.partition("::")[0]) for each in config.args)


def pytest_collection_finish() -> None:
    """Exempt all modules from garbage collection: each full collection of a worker would read half a gigabyte."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests show, whether they passed or not."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in getattr(report, "user_properties", ()):
                if name == SHOWN and report.when == "call":
                    terminalreporter.section(report.nodeid)
                    terminalreporter.write_line(str(value))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    everywhere = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    left_out = {
        item
        for item in items
        if is_left_out(item.path, long=item.get_closest_marker("long") is not None, everywhere=everywhere)
    }
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.path.name not in PATIENT)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(piece_of_work(item.path)))


def is_left_out(test_file: Path, *, long: bool, everywhere: bool) -> bool:
    """Return whether a run leaves out a test of this file; `everywhere` is a run of all folders."""
    if long and not LONG:
        return True
    end_to_end = test_file.is_relative_to(TESTS / "e2e")
    return everywhere and end_to_end and not WHOLE and test_file.name not in MAIN


def piece_of_work(test_file: Path) -> str:
    """Return the name of the group of tests that one worker runs.

    >>> piece_of_work(TESTS / "unit" / "cluster" / "test_pods.py")
    'unit/cluster/test_pods.py'
    >>> piece_of_work(TESTS / "infra" / "test_settings.py")
    'infra'
    >>> piece_of_work(TESTS / "infra" / "test_sweep_executed.py")
    'local'
    """
    *folders, name = test_file.relative_to(TESTS).parts
    folder = folders[0] if folders else ""
    if folder == "local" or name.endswith("_executed.py"):
        return "local"
    if folder == "infra":
        return folder
    if folder == "e2e":
        return next((f"stack {stack}" for stack, files in STACKS.items() if name in files), "stack")
    return str(test_file.relative_to(TESTS))


@pytest.fixture(scope="session")
def local_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAws]:
    """One local AWS for all tests that need only that."""
    with started_server(tmp_path_factory.mktemp("local-aws")) as (aws, _):
        yield aws

"""`joiner uninstall`: the parameter that it writes, its messages, and its exit codes."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from joiner.names import DRAINING, KEEPING
from tests.unit.cli.command_runs import joiner
from tests.unit.cli.installed_account import InstalledAccount


def uninstall(*arguments: Any) -> Any:
    return joiner("uninstall", "--cluster", "prod", *arguments)


def test_keep_stops_joiner_and_reports_the_number_of_nodes(account: InstalledAccount) -> None:
    account.launch("default-1")

    answer = uninstall("--nodes", "keep")

    assert (answer.exit_code, answer.out) == (
        0,
        "Joiner is stopped in prod; 1 node will continue to run without it\n",
    )
    assert "Delete the stack now: node_modules/.bin/cdk destroy -c cluster=production (in the checkout" in answer.err
    assert (account.value(), account.sweeps()) == (KEEPING, 0)


def test_drain_without_nodes_ends_at_once(account: InstalledAccount) -> None:
    answer = uninstall("--nodes", "drain")

    assert (answer.exit_code, answer.out) == (0, "No instance of Joiner is left in prod; nothing will be launched\n")
    assert (account.value(), account.sweeps()) == (DRAINING, 0)


@pytest.mark.parametrize(
    "options",
    [
        ("--nodes", "keep", "--timeout", "5"),
        ("--nodes", "keep", "--no-wait"),
        ("--nodes", "drain", "--no-wait", "--timeout", "5"),
    ],
)
def test_options_that_exclude_each_other_change_nothing(account: InstalledAccount, options: tuple[str, ...]) -> None:
    before = account.value()

    answer = uninstall(*options)

    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err.startswith("joiner: --timeout and --no-wait ")
    assert account.value() == before


def test_drain_starts_a_sweep_names_the_nodes_that_are_left_and_exits_with_2(account: InstalledAccount) -> None:
    for number in range(7):
        account.launch(f"default-{number}")

    answer = uninstall("--nodes", "drain", "--no-wait")

    assert (answer.exit_code, answer.out) == (2, "7 nodes of Joiner in prod are being drained\n")
    assert answer.err.startswith("0 of 7 nodes gone; left: default-")
    assert "and 2 more" in answer.err
    assert (account.value(), account.sweeps()) == (DRAINING, 1)


@contextmanager
def while_it_waits(account: InstalledAccount, act: Callable[[], object]) -> Iterator[None]:
    """Act once, from another thread, after the command has started its sweep and begun to wait."""
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(0.05):
            if account.sweeps():
                time.sleep(0.3)
                act()
                return

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        stopped.set()
        watching.join()


def test_drain_waits_until_the_last_node_is_gone(account: InstalledAccount) -> None:
    instance = account.launch("default-1")

    with while_it_waits(account, lambda: account.ec2.terminate_instances(InstanceIds=[instance])):
        answer = uninstall("--nodes", "drain", "--timeout", "1")

    assert (answer.exit_code, answer.out) == (0, "No instance of Joiner is left in prod; nothing will be launched\n")
    assert answer.err.startswith("0 of 1 node gone; left: default-1")


def test_the_drain_continues_after_an_interrupted_wait(account: InstalledAccount) -> None:
    account.launch("default-1")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # programs in the background ignore it
    try:
        with while_it_waits(account, lambda: signal.raise_signal(signal.SIGINT)):
            answer = uninstall("--nodes", "drain", "--timeout", "1")
    finally:
        signal.signal(signal.SIGINT, before)

    assert answer.exit_code == 130
    assert "the drain continues" in answer.err
    assert account.value() == DRAINING


def test_a_cluster_without_joiner_is_named_and_nothing_is_written(account: InstalledAccount) -> None:
    answer = joiner("uninstall", "--cluster", "prdo", "--nodes", "keep")

    assert (answer.exit_code, answer.out) == (1, "")
    assert (
        "no Joiner is deployed for a cluster prdo in this account and region (there is no stack joiner-prdo)"
        in answer.err
    )
    assert account.value() == "false"


def test_resume_undoes_it(account: InstalledAccount) -> None:
    uninstall("--nodes", "drain")

    assert joiner("resume", "prod").exit_code == 0
    assert account.value() == "false"

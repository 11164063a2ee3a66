"""`joiner uninstall`: the parameter that it writes, its messages, and its exit codes."""

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

    assert (answer.exit_code, answer.out) == (0, "No node of Joiner is left in prod; nothing will be launched\n")
    assert (account.value(), account.sweeps()) == (DRAINING, 0)


def test_drain_starts_a_sweep_names_the_nodes_that_are_left_and_exits_with_2(account: InstalledAccount) -> None:
    for number in range(7):
        account.launch(f"default-{number}")

    answer = uninstall("--nodes", "drain", "--no-wait")

    assert (answer.exit_code, answer.out) == (2, "7 nodes of Joiner in prod are being drained\n")
    assert answer.err.startswith("0 of 7 nodes gone; left: default-")
    assert "and 2 more" in answer.err
    assert (account.value(), account.sweeps()) == (DRAINING, 1)


def test_drain_waits_until_the_last_node_is_gone(account: InstalledAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = account.launch("default-1")

    def end(_seconds: float) -> None:
        account.ec2.terminate_instances(InstanceIds=[instance])

    monkeypatch.setattr("time.sleep", end)
    answer = uninstall("--nodes", "drain")

    assert (answer.exit_code, answer.out) == (0, "No node of Joiner is left in prod; nothing will be launched\n")


def test_the_drain_continues_after_an_interrupted_wait(
    account: InstalledAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.launch("default-1")

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    answer = uninstall("--nodes", "drain")

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

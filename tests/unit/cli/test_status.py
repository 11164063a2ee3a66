"""`joiner status`: whether Joiner acts, its nodes, and its exit codes."""

import pytest
import yaml

from joiner.adapters.pause import Pause
from joiner.names import DELETING, DRAINING, KEEPING
from tests.unit.cli.command_runs import joiner
from tests.unit.cli.installed_account import InstalledAccount


def test_an_acting_joiner_and_its_nodes_are_shown(account: InstalledAccount) -> None:
    account.launch("default-1")
    account.launch("default-2")

    answer = joiner("status", "prod")
    lines = dict(line.split(maxsplit=1) for line in answer.out.splitlines() if not line.startswith("last"))

    assert (answer.exit_code, answer.err) == (0, "")
    assert lines["cluster"] == "prod in eu-west-1"
    assert lines["stack"] == "joiner-prod CREATE_COMPLETE"
    assert lines["state"].startswith("acting since 2")
    assert lines["state"].endswith("Z: nodes are launched and removed")
    assert lines["nodes"] == "2 running"


def test_the_last_scale_up_is_shown(account: InstalledAccount) -> None:
    account.states.start_execution(stateMachineArn=account.scale_up, name="up-1")

    table, found = joiner("status", "prod"), joiner("status", "prod", "-o", "json").json["lastScaleUp"]

    (line,) = [one for one in table.out.splitlines() if one.startswith("last scale-up")]
    assert line == f"last scale-up  up-1 RUNNING, started {found['started']}"
    assert (found["name"], found["status"], found["launched"], found["pending"]) == ("up-1", "RUNNING", 0, [])


def test_a_pause_is_shown_with_the_command_that_ends_it(account: InstalledAccount) -> None:
    assert joiner("pause", "prod").exit_code == 0

    answer = joiner("status", "prod", "-o", "json")

    assert answer.exit_code == 2
    assert (answer.json["state"], answer.json["nodes"], answer.json["lastScaleUp"]) == ("paused", {}, None)
    assert answer.json["effect"].endswith("to end it: joiner resume prod")
    assert joiner("resume", "prod").exit_code == 0
    assert joiner("status", "prod").exit_code == 0
    assert account.value() == "false"


@pytest.mark.parametrize(("value", "state"), [(DRAINING, "draining"), (KEEPING, "stopped"), (DELETING, "stopped")])
def test_what_uninstall_and_a_deletion_write_is_shown(account: InstalledAccount, value: str, state: str) -> None:
    Pause(account.ssm, "prod").write(value)

    answer = joiner("status", "prod", "-o", "yaml")

    assert (answer.exit_code, yaml.safe_load(answer.out)["state"]) == (2, state)


def test_a_cluster_without_joiner_is_an_error(account: InstalledAccount) -> None:
    answer = joiner("status", "prdo")

    assert (answer.exit_code, answer.out) == (1, "")
    assert "no Joiner is deployed for a cluster prdo" in answer.err
    assert account.value() == "false"


@pytest.mark.parametrize(
    ("status", "became"),
    [
        ("ROLLBACK_COMPLETE", "failed, and was rolled back"),
        ("REVIEW_IN_PROGRESS", "has not begun: a change set is not executed"),
        ("CREATE_FAILED", "failed"),
    ],
)
def test_a_stack_whose_first_deployment_failed_does_not_act(
    account: InstalledAccount, status: str, became: str
) -> None:
    account.fail_first_deployment(status)

    answer = joiner("status", "prod")

    assert (answer.exit_code, answer.out) == (1, "")
    assert f"the first deployment of the stack joiner-prod {became} ({status})" in answer.err
    assert "Joiner acts" not in answer.err

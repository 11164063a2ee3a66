"""`joiner pause` and `joiner resume`: the switch that the functions read, and a clear word where there is none."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from joiner.adapters.pause import Pause
from joiner.names import pause_parameter
from tests.unit.cli.running import joiner


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pause]:
    """The switch of the cluster prod, as the deployment makes it; the account is one in memory."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        client = boto3.client("ssm", region_name="eu-west-1")
        client.put_parameter(Name=pause_parameter("prod"), Value="false", Type="String", Overwrite=True)
        yield Pause(client, "prod")


def test_pause_and_resume_turn_the_switch_that_functions_read(deployed: Pause) -> None:
    assert not deployed.on()

    assert joiner("pause", "prod").out == "Joiner is paused in prod\n"
    assert deployed.on()

    assert joiner("resume", "prod", "--region", "eu-west-1").out == "Joiner acts in prod\n"
    assert not deployed.on()


def test_a_mistyped_cluster_is_told_and_nothing_is_made(deployed: Pause) -> None:
    answer = joiner("pause", "prdo")

    assert (answer.exit_code, answer.out) == (1, "")
    assert "no Joiner is deployed for a cluster prdo" in answer.err
    assert not deployed.on()
    assert joiner("resume", "prdo").exit_code == 1

"""The pause parameter outlives deployments: only its creation and its deletion are CloudFormation's."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.create_pause_parameter import handler as create_pause_parameter
from joiner.names import ACTING, DRAINING, pause_parameter
from tests.infra.conftest import Synthesis, function_of
from tests.infra.test_custom_resource_functions import Mailbox, Remaining, mailbox  # noqa: F401
from tests.local.running_aws import RunningAws

PAUSED_MACHINES = 5


@pytest.fixture
def ssm(aws_of_handlers: RunningAws) -> Any:
    return aws_of_handlers.client("ssm")


def value(ssm: Any, name: str) -> str:
    return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])


@pytest.mark.local
def test_the_parameter_is_created_once_and_deployments_leave_its_value(
    ssm: Any,
    local_aws: RunningAws,
    mailbox: Mailbox,  # noqa: F811
) -> None:
    cluster = local_aws.fresh("cluster")
    name = pause_parameter(cluster)

    create_pause_parameter.handler(mailbox.event("Create", {"Cluster": cluster}), Remaining())
    created = value(ssm, name)
    ssm.put_parameter(Name=name, Value=DRAINING, Type="String", Overwrite=True)
    for kind in ("Update", "Create"):  # CloudFormation repeats a request whose answer it did not get
        create_pause_parameter.handler(mailbox.event(kind, {"Cluster": cluster}, name), Remaining())

    assert (created, value(ssm, name)) == (ACTING, DRAINING)
    assert [(each["Status"], each["PhysicalResourceId"]) for each in mailbox.answers] == [("SUCCESS", name)] * 3


@pytest.mark.local
def test_the_parameter_is_deleted_with_the_stack(
    ssm: Any,
    local_aws: RunningAws,
    mailbox: Mailbox,  # noqa: F811
) -> None:
    cluster = local_aws.fresh("cluster")
    for kind in ("Create", "Delete", "Delete"):
        create_pause_parameter.handler(mailbox.event(kind, {"Cluster": cluster}, "some"), Remaining())

    with pytest.raises(ClientError, match="ParameterNotFound"):
        value(ssm, pause_parameter(cluster))
    assert [each["Status"] for each in mailbox.answers] == ["SUCCESS"] * 3


def test_no_resource_of_the_template_has_the_value_of_the_pause(example: Synthesis) -> None:
    """CloudFormation would write it again whenever a tag changes."""
    assert example.resources("AWS::SSM::Parameter") == {}


def test_the_parameter_is_deleted_after_the_machines_and_the_function_that_read_it(example: Synthesis) -> None:
    (parameter,) = example.resources("Custom::PauseParameter")
    machines = example.resources("AWS::StepFunctions::StateMachine")
    handles_notices = [
        each
        for each in example.resources("AWS::Lambda::Function").values()
        if function_of(each) == "handle_interruption"
    ]

    assert len(machines) == PAUSED_MACHINES
    for reader in (*machines.values(), *handles_notices):
        assert parameter in reader["DependsOn"]

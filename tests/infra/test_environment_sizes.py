"""Settings that are too long for the environment of a function stop the synthesis, and not the update of the stack."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.environment_sizes import MOST_BYTES, check_environment_sizes, longest_text
from infra.node_class_settings import AllowedSubnets, NodeClassSettings
from infra.node_role_settings import NodeRoleSettings
from infra.settings import Settings
from infra.settings_reader import SettingsError
from tests.infra.conftest import ROOT, Synthesise, function_of

STACK = "joiner-example"
IDS = [f"subnet-{number:017x}" for number in range(200)]


def template_of(**variables: Any) -> dict[str, Any]:
    environment = {"Variables": {"POWERTOOLS_SERVICE_NAME": "launch_instances", **variables}}
    return {"Resources": {"Launch": {"Type": "AWS::Lambda::Function", "Properties": {"Environment": environment}}}}


def messages(template: Mapping[str, Any]) -> list[str]:
    return [each.message for each in check_environment_sizes(template, STACK)]


def test_as_much_as_lambda_takes_is_accepted() -> None:
    rest = len('{"POWERTOOLS_SERVICE_NAME":"launch_instances","JOINER_NODE_CLASSES":""}')

    assert messages(template_of(JOINER_NODE_CLASSES="x" * (MOST_BYTES - rest))) == []
    assert len(messages(template_of(JOINER_NODE_CLASSES="x" * (MOST_BYTES - rest + 1)))) == 1


def test_the_mistake_names_the_setting_that_takes_most_the_size_and_the_remedy() -> None:
    found = messages(template_of(JOINER_NODE_CLASSES=json.dumps(IDS), JOINER_NODE_ROLES="Web"))

    assert found == [
        "nodeClasses takes 6026 of up to 6097 bytes of the environment of launch_instances, and Lambda takes 4096: "
        "allow by tags instead of by ids, or fewer of them"
    ]


def test_a_setting_is_reported_once_for_all_functions() -> None:
    template = template_of(JOINER_NODE_CLASSES=json.dumps(IDS))
    template["Resources"]["Resolve"] = template["Resources"]["Launch"]

    assert len(messages(template)) == 1


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("text", 4),
        ({"Fn::Join": [",", ["a", {"Ref": "AWS::AccountId"}, "b"]]}, 16),
        ({"Fn::Sub": "assets-${AWS::AccountId}-x"}, 21),
        ({"Ref": "Profile"}, len("joiner-example-Profile-") + 13),
        ({"Ref": "Machine"}, 90 + len("joiner-sweep")),
        ({"Fn::GetAtt": ["Role", "Arn"]}, 90 + len("joiner-installer")),
        ({"Fn::ImportValue": "else"}, 256),
    ],
)
def test_what_cloudformation_resolves_counts_with_its_longest_text(value: Any, size: int) -> None:
    resources = {
        "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {}},
        "Machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {"StateMachineName": "joiner-sweep"}},
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "joiner-installer"}},
    }
    assert len(longest_text(value, {"Resources": resources}, STACK)) == size


def test_a_deployment_with_too_many_ids_or_roles_is_refused_and_an_ordinary_one_is_not(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    many = NodeClassSettings(subnets=AllowedSubnets(ids=tuple(IDS)))
    roles = NodeRoleSettings(tuple(f"teams/web/nodes-of-the-cluster-{number:03}" for number in range(30)))
    made = synthesise(replace(example_settings, node_classes=many, node_roles=roles)).template
    functions = {function_of(each) for each in made["Resources"].values() if each["Type"] == "AWS::Lambda::Function"}

    assert check_environment_sizes(synthesise(example_settings).template, STACK) == []
    assert {each.field for each in check_environment_sizes(made, STACK)} == {"nodeClasses", "nodeRoles"}
    assert {"launch_instances", "resolve_node_classes", "keep_node_access"} <= functions


def test_the_app_refuses_such_settings_with_their_file(tmp_path: Path) -> None:
    import aws_cdk as cdk  # it takes seconds

    from app import flags, synthesise

    path = tmp_path / "prod.yaml"
    subnets = json.dumps({"ids": IDS})
    path.write_text(f"cluster: prod\nregion: eu-west-1\nnodeClasses: {{subnets: {subnets}}}\n")
    app = cdk.App(context=flags(), outdir=str(tmp_path / "cdk.out"), analytics_reporting=False)

    with pytest.raises(SettingsError) as refused:
        synthesise(app, path)

    assert str(refused.value).startswith(f"{path}: nodeClasses takes ")
    assert str(ROOT) not in str(refused.value)

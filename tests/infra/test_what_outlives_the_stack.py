"""Deletions in the template: the guard is deleted first, and CloudFormation deletes no resource that nodes need."""

from dataclasses import replace

from infra.node_role_settings import NodeRoleSettings
from infra.settings import Settings
from tests.infra.conftest import Synthesis, Synthesise, flat, function_of


def test_every_other_resource_is_deleted_after_the_guard(example: Synthesis) -> None:
    (guard,) = example.resources("Custom::DeletionGuard").values()
    after = set(guard["DependsOn"])

    not_named = {
        name for name, each in example.template["Resources"].items() if name not in after and each is not guard
    }

    assert not_named <= {"CDKMetadata"}


def test_the_guard_is_needed_by_nothing(example: Synthesis) -> None:
    (guard,) = example.resources("Custom::DeletionGuard")

    assert [name for name, each in example.template["Resources"].items() if guard in each.get("DependsOn", ())] == []


def test_the_node_role_and_its_profile_are_retained_but_for_a_creation_that_fails(example: Synthesis) -> None:
    for kept in (example.one("AWS::IAM::Role", "NodesRole"), example.one("AWS::IAM::InstanceProfile", "NodesProfile")):
        assert (kept["DeletionPolicy"], kept["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
    tags = example.one("AWS::IAM::Role", "NodesRole")["Properties"]["Tags"]
    assert {"Key": "joiner.dev/cluster", "Value": "example"} in tags


def test_access_entries_of_nodes_are_no_resources_of_the_stack(example: Synthesis) -> None:
    types = [each["Properties"].get("Type") for each in example.resources("AWS::EKS::AccessEntry").values()]
    (access,) = example.resources("Custom::NodeAccess").values()

    assert "EC2_LINUX" not in types
    assert flat(access["Properties"]["Roles"]).endswith(":role/joiner-node-example-eu-west-1")
    assert access["Properties"]["ManageEntries"] == "true"


def test_another_default_role_gets_a_profile_of_its_own(synthesise: Synthesise, example_settings: Settings) -> None:
    one, other = (
        synthesise(replace(example_settings, node_roles=NodeRoleSettings((name,)))) for name in ("One", "Other")
    )

    assert one.resources("AWS::IAM::InstanceProfile").keys().isdisjoint(other.resources("AWS::IAM::InstanceProfile"))
    for made, role in ((one, "One"), (other, "Other")):
        (profile,) = made.resources("AWS::IAM::InstanceProfile").values()
        assert profile["Properties"] == {"Path": "/joiner/eu-west-1/example/", "Roles": [role]}


def test_each_role_of_the_settings_gets_an_instance_profile_that_is_kept(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    made = synthesise(
        replace(example_settings, node_roles=NodeRoleSettings(("teams/web/Web", "Data"), ("teams/web/Web",)))
    )
    profiles = made.resources("AWS::IAM::InstanceProfile")
    resolver = next(
        each["Properties"]["Environment"]["Variables"]
        for each in made.resources("AWS::Lambda::Function").values()
        if function_of(each) == "resolve_node_classes"
    )
    (access,) = made.resources("Custom::NodeAccess").values()

    assert [each["Properties"]["Roles"] for each in profiles.values()] == [["Web"], ["Data"]]
    assert {(each["DeletionPolicy"], each["UpdateReplacePolicy"]) for each in profiles.values()} == {
        ("RetainExceptOnCreate", "Retain")
    }
    in_order = ",".join(f"${{{name}}}" for name in profiles)
    assert (flat(resolver["JOINER_ROLE_PROFILES"]), flat(access["Properties"]["Profiles"])) == (in_order, in_order)
    assert (resolver["JOINER_NODE_ROLES"], resolver["JOINER_WINDOWS_ROLES"]) == ("Web,Data", "Web")
    ends = ["role/teams/web/Web", "role/Data"]
    assert [each.rpartition(":")[2] for each in flat(access["Properties"]["Roles"]).split(",")] == ends
    for action in ("iam:PassRole", "eks:CreateAccessEntry"):
        assert sorted(each.rpartition(":")[2] for each in _named_roles(made, action)) == sorted(ends)


def _named_roles(made: Synthesis, action: str) -> list[str]:
    """Return the ARNs of roles that the statements of an action name, as resources or as principals."""
    found = [
        each.get("Condition", {}).get("ArnEquals", {}).get("eks:principalArn", each["Resource"])
        for policy in made.resources("AWS::IAM::Policy").values()
        for each in policy["Properties"]["PolicyDocument"]["Statement"]
        if each["Action"] == action
    ]
    return [flat(arn) for arns in found for arn in (arns if isinstance(arns, list) else [arns])]

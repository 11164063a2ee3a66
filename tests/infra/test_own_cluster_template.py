"""The template defines which functions may record the endpoint for tokens, and which is an administrator when."""

from collections.abc import Mapping
from typing import Any

from infra.function_configuration import CONFIGURATIONS, CalledApi
from tests.infra.conftest import Synthesis, flat

KUBERNETES = {name for name, configuration in CONFIGURATIONS.items() if configuration.calls is CalledApi.KUBERNETES}


def statements(made: Synthesis) -> dict[str, list[Mapping[str, Any]]]:
    """Return the statements by function."""
    policies = made.resources("AWS::IAM::Policy").values()
    found: dict[str, list[Mapping[str, Any]]] = {}
    for function in made.resources("AWS::Lambda::Function").values():
        role = function["Properties"]["Role"]["Fn::GetAtt"][0]
        found[function["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]] = [
            flat(statement)
            for policy in policies
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]
    return found


def kinds(statement: Mapping[str, Any]) -> list[str]:
    """Return the kinds of table items that a statement covers."""
    found: list[str] = (
        statement.get("Condition", {}).get("ForAllValues:StringEquals", {}).get("dynamodb:LeadingKeys", [])
    )
    return found


def test_only_describe_cluster_records_the_endpoint_and_functions_that_send_tokens_read_it(example: Synthesis) -> None:
    writers: set[str] = set()
    readers: set[str] = set()
    for name, granted in statements(example).items():
        for statement in granted:
            if "CLUSTER" in kinds(statement):
                actions = {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
                (readers if actions == {"dynamodb:GetItem"} else writers).add(name)

    assert (writers, readers) == ({"describe_cluster"}, KUBERNETES)


def test_no_state_machine_writes_where_tokens_go(example: Synthesis) -> None:
    roles = {
        each["Properties"]["RoleArn"]["Fn::GetAtt"][0]
        for each in example.resources("AWS::StepFunctions::StateMachine").values()
    }
    policies = [each["Properties"] for each in example.resources("AWS::IAM::Policy").values()]
    statements = {
        role: [
            flat(each)
            for policy in policies
            if {"Ref": role} in policy["Roles"]
            for each in policy["PolicyDocument"]["Statement"]
        ]
        for role in roles
    }

    assert [role for role, given in statements.items() if not given] == []
    assert [role for role, given in statements.items() if any("CLUSTER" in kinds(each) for each in given)] == []


def test_only_the_local_deployment_may_send_tokens_to_its_own_machine(example: Synthesis, local: Synthesis) -> None:
    def allowed(made: Synthesis) -> set[str]:
        variables = [
            each["Properties"]["Environment"]["Variables"] for each in made.resources("AWS::Lambda::Function").values()
        ]
        return {each["POWERTOOLS_SERVICE_NAME"] for each in variables if each.get("JOINER_LOOPBACK_ENDPOINT") == "true"}

    assert allowed(example) == set()
    assert allowed(local) == KUBERNETES


def test_no_access_entry_gives_a_policy_of_eks(example: Synthesis) -> None:
    entries = example.resources("AWS::EKS::AccessEntry")

    assert [name for name, each in entries.items() if each["Properties"].get("AccessPolicies")] == []
    installer = next(each["Properties"] for name, each in entries.items() if name.startswith("AccessInstaller"))
    assert "KubernetesGroups" not in installer


def test_the_installer_is_raised_before_it_runs_and_lowered_after(example: Synthesis) -> None:
    custom = {name: each for name, each in example.template["Resources"].items() if each["Type"].startswith("Custom::")}
    accesses = {
        each["Properties"]["Place"]: (name, each)
        for name, each in custom.items()
        if each["Type"] == "Custom::InstallerAccess"
    }
    manifests, installed = next((name, each) for name, each in custom.items() if each["Type"] == "Custom::Manifests")

    assert accesses["before"][0] in installed["DependsOn"]
    assert manifests in accesses["after"][1]["DependsOn"]
    # A change that runs the installer again also runs the other two again
    ignored = {"ServiceToken", "ServiceTimeout", "Place"}
    wanted = {key: value for key, value in installed["Properties"].items() if key not in ignored}
    for _, each in accesses.values():
        assert {key: value for key, value in each["Properties"].items() if key not in ignored} == wanted


def test_the_right_to_raise_is_for_one_policy_and_one_entry(example: Synthesis) -> None:
    granted = [each for each in statements(example)["elevate_installer"] if "eks:" in str(each["Action"])]
    role = "${InstallationInstallManifestsRole"

    assert [each["Action"] for each in granted] == [
        "eks:AssociateAccessPolicy",
        ["eks:DisassociateAccessPolicy", "eks:ListAssociatedAccessPolicies"],
    ]
    assert granted[0]["Condition"]["StringEquals"] == {
        "eks:policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
        "eks:accessScope": "cluster",
    }
    for each in granted:
        assert f":access-entry/example/role/${{AWS::AccountId}}/{role}" in each["Resource"]
        assert each["Resource"].endswith("/*")
    others = {
        name
        for name, found in statements(example).items()
        if any("AccessPolicy" in str(each["Action"]) for each in found)
    }
    assert others == {"elevate_installer"}

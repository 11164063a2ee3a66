"""The template for a cluster whose authentication mode is CONFIG_MAP: no access entry, and roles to map instead."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra.function_configuration import CONFIGURATIONS, CalledApi
from infra.node_role_settings import NodeRoleSettings
from infra.settings import Settings, load_settings
from infra.settings_reader import SettingsError
from tests.infra.conftest import Synthesis, Synthesise, flat, function_of


@pytest.fixture(scope="module")
def made(synthesise: Synthesise, example_settings: Settings) -> Synthesis:
    return synthesise(replace(example_settings, authentication_mode="CONFIG_MAP"))


def test_nothing_in_the_stack_uses_access_entries(made: Synthesis) -> None:
    types = {each["Type"] for each in made.template["Resources"].values()}
    functions = {function_of(each) for each in made.resources("AWS::Lambda::Function").values()}
    (nodes,) = made.resources("Custom::NodeAccess").values()

    assert not types & {"AWS::EKS::AccessEntry", "Custom::InstallerAccess"}
    assert "elevate_installer" not in functions
    assert nodes["Properties"]["ManageEntries"] == "false"


def test_the_installer_maps_every_function_with_its_groups_and_the_node_roles(made: Synthesis) -> None:
    (manifests,) = made.resources("Custom::Manifests").values()
    mapped = json.loads(flat(manifests["Properties"]["Mappings"]))
    roles = {
        f"${{{each['Properties']['Role']['Fn::GetAtt'][0]}.Arn}}": function_of(each)
        for each in made.resources("AWS::Lambda::Function").values()
    }

    groups = {roles[each["role"]]: tuple(each["groups"]) for each in mapped["functions"]}
    assert groups == {
        name: each.groups for name, each in CONFIGURATIONS.items() if each.calls is CalledApi.KUBERNETES and each.groups
    }
    assert roles[mapped["installer"]] == "install_manifests"
    assert [each.rpartition(":")[2] for each in mapped["nodes"]] == ["role/joiner-node-example-eu-west-1"]
    assert mapped["ownNode"] == mapped["nodes"][0]


def test_only_the_role_that_a_deployment_creates_is_unmapped_with_the_stack(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    settings = replace(example_settings, authentication_mode="CONFIG_MAP", node_roles=NodeRoleSettings(("Shared",)))
    (manifests,) = synthesise(settings).resources("Custom::Manifests").values()
    mapped = json.loads(flat(manifests["Properties"]["Mappings"]))

    assert [each.rpartition(":")[2] for each in mapped["nodes"]] == ["role/Shared"]
    assert mapped["ownNode"].rpartition(":")[2] == "role/joiner-node-example-eu-west-1"


def test_the_installers_role_has_the_name_that_an_administrator_maps_before_it_exists(made: Synthesis) -> None:
    role = made.one("AWS::IAM::Role", "InstallationInstallManifestsRole")

    assert role["Properties"]["RoleName"] == "joiner-installer-example-eu-west-1"


def test_schedules_begin_after_the_roles_are_mapped(made: Synthesis) -> None:
    (manifests,) = made.resources("Custom::Manifests")

    assert manifests in made.one("AWS::Scheduler::Schedule", "SweepSchedule")["DependsOn"]


def test_a_cluster_with_access_entries_is_described_before_they_are_made(example: Synthesis) -> None:
    (cluster,) = example.resources("Custom::ClusterDescription")

    assert all(cluster in each["DependsOn"] for each in example.resources("AWS::EKS::AccessEntry").values())


def test_a_name_that_is_too_long_for_the_installers_role_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    lines = [f"cluster: {'a' * 50}", "region: eu-west-1", "authenticationMode: CONFIG_MAP", "nodeRoles: {names: [N]}"]
    file.write_text("\n".join(lines))

    with pytest.raises(SettingsError, match="change the cluster's authentication mode to API_AND_CONFIG_MAP"):
        load_settings(file)

"""The template: the same for every cluster, except for its settings."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.asset_bundles import BundleTarget
from infra.function_configuration import CONFIGURATIONS
from infra.node_class_settings import AllowedLaunchTemplates
from infra.node_role_settings import NodeRoleSettings
from infra.settings import LogSettings, Settings, SweepSettings, VpcSettings
from joiner.names import DISCOVERY_TAG
from tests.infra.conftest import ROOT, Synthesis, Synthesise, flat, function_of, synthesised


def test_the_local_template_differs_from_the_examples_only_in_settings(
    synthesise: Synthesise, local: Synthesis, example_settings: Settings, local_settings: Settings
) -> None:
    names = tuple(
        name.replace(local_settings.cluster, example_settings.cluster) for name in local_settings.node_roles.names
    )
    roles = replace(local_settings.node_roles, names=names)
    templates = AllowedLaunchTemplates(tags={DISCOVERY_TAG: example_settings.cluster})
    with_such_roles = replace(
        example_settings,
        node_roles=roles,
        node_classes=replace(local_settings.node_classes, launch_templates=templates),
        planning=local_settings.planning,
        ceilings=local_settings.ceilings,  # local nodes cost nothing
    )

    example = _normalised(synthesise(with_such_roles), with_such_roles)
    different = dict(_differences(example, _normalised(local, local_settings)))

    ca = {path: both for path, both in different.items() if re.search("Ca(?![a-z])", path) or "DescribeCluster" in path}
    # The local API server is on the machine that runs the functions
    loopback = {path: both for path, both in different.items() if path.endswith("Variables.JOINER_LOOPBACK_ENDPOINT")}
    assert set(loopback.values()) == {(None, "true")}
    apart = "SweepSurveyInstancesFunction.Properties.Environment.Variables.CONFIRM_AFTER_SECONDS"
    assert {path: both for path, both in different.items() if path not in ca | loopback} == {apart: ("45", "2")}
    # The local doorbell has a certificate of a local CA: a parameter with the CA, and one permission to read it
    assert set(ca) == {
        "InstallationCluster.Properties.CaParameter",
        "InstallationGranted.Properties.DoorbellCa",
        "InstallationManifests.Properties.DoorbellCa",
        "InstallationRevoked.Properties.DoorbellCa",
        "InstallationDescribeClusterRoleDefaultPolicy.Properties.PolicyDocument.Statement[3]",
    }
    assert ca["InstallationDescribeClusterRoleDefaultPolicy.Properties.PolicyDocument.Statement[3]"] == (
        None,
        {
            "Action": "ssm:GetParameter",
            "Effect": "Allow",
            "Resource": f"arn:aws:ssm:REGION:ACCOUNT:parameter{local_settings.doorbell.ca_parameter}",
        },
    )


def test_the_same_settings_give_the_same_bytes(local: Synthesis, local_settings: Settings, tmp_path: Path) -> None:
    again = synthesised(tmp_path, local_settings)

    assert _files(again.folder) == _files(local.folder)


def test_the_command_line_synthesises_without_credentials_and_without_docker(
    example: Synthesis, tmp_path: Path
) -> None:
    node = shutil.which("node")
    assert node is not None
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(Path(node).parent), "/usr/bin", "/bin"]),
        "HOME": os.environ["HOME"],
        "CDK_DISABLE_CLI_TELEMETRY": "1",
        "CDK_DOCKER": "/no/such/docker",
        "CDK_VALIDATION": "false",  # `make check` validates
        "AWS_EC2_METADATA_DISABLED": "true",
        "NODE_NO_WARNINGS": "1",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": os.environ["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"],
    }
    command = [
        str(ROOT / "node_modules/.bin/cdk"),
        "synth",
        "-c",
        "cluster=example",
        "--quiet",
        "--output",
        str(tmp_path),
    ]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / "joiner-example.template.json").read_text())
    assert _without_metadata(written) == _without_metadata(example.template)


def test_a_missing_name_of_the_cluster_is_reported_in_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": "{}"}

    done = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "joiner: no cluster is named: pass -c cluster=NAME; known clusters: example, local"
    )


def test_the_outputs_are_those_that_users_and_tools_need(example: Synthesis) -> None:
    assert set(example.template["Outputs"]) == {
        "BucketName",
        "ControlPlaneEgress",
        "DisruptArn",
        "DisruptConsole",
        "DoorbellUrl",
        "InstanceProfile",
        "InterruptionQueueUrl",
        "LaunchFunction",
        "NodeRole",
        "PauseParameter",
        "RetireArn",
        "RetireConsole",
        "RetireEmptyArn",
        "RetireEmptyConsole",
        "ScaleUpArn",
        "ScaleUpConsole",
        "SettingsName",
        "SweepArn",
        "SweepConsole",
        "SweepScheduleName",
        "TableName",
    }
    assert not any("token" in str(flat(output["Value"])).lower() for output in example.template["Outputs"].values())


def test_only_resources_that_users_or_iam_must_name_have_a_name(example: Synthesis) -> None:
    named = {
        str(value)
        for resource in example.template["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key
        in {
            "StateMachineName",
            "RoleName",
            "FunctionName",
            "TableName",
            "BucketName",
            "QueueName",
            "LogGroupName",
            "AlarmName",
            "Name",
        }
        and resource["Type"]
        not in {
            "AWS::Lambda::Permission",
            "AWS::Lambda::Version",
            "AWS::ApiGatewayV2::Api",
            "AWS::Lambda::EventSourceMapping",
            "AWS::Logs::MetricFilter",
        }
    }

    assert named == {
        "joiner-disrupt-example",
        "joiner-empty-example",
        "joiner-retire-example",
        "joiner-scale-up-example",
        "joiner-sweep-example",
        "joiner-node-example-eu-west-1",
        "/aws/vendedlogs/http-apis/joiner-doorbell-example",
        "/aws/vendedlogs/states/joiner-disrupt-example",
        "/aws/vendedlogs/states/joiner-empty-example",
        "/aws/vendedlogs/states/joiner-retire-example",
        "/aws/vendedlogs/states/joiner-scale-up-example",
        "/aws/vendedlogs/states/joiner-sweep-example",
    }


def test_only_functions_that_call_kubernetes_are_in_the_vpc(synthesise: Synthesise, example_settings: Settings) -> None:
    vpc = VpcSettings(("subnet-0123456789abcdef0", "subnet-0123456789abcdef1"), "sg-0123456789abcdef0")

    private = synthesise(replace(example_settings, vpc=vpc))

    placed = {
        function_of(function): function["Properties"]["VpcConfig"]
        for function in private.resources("AWS::Lambda::Function").values()
        if "VpcConfig" in function["Properties"]
    }
    assert set(placed) == {
        "begin_retirement",
        "check_registration",
        "detect_drift",
        "evict_pods",
        "find_candidates",
        "find_pending_pods",
        "forget_nodes",
        "install_manifests",
        "mark_nodes",
        "rebuild_claims",
        "record_launches",
        "record_node_claims",
        "report_candidates",
        "settle_disruptions",
        "survey_cluster",
    }
    assert placed["find_pending_pods"] == {"SubnetIds": list(vpc.subnets), "SecurityGroupIds": [vpc.security_group]}


@pytest.mark.parametrize(
    "machine", ["ScaleUpStates", "RetirementStatesMachine", "RetirementStatesForEmpty", "DisruptionStates"]
)
def test_a_scale_up_or_a_retirement_that_fails_or_times_out_is_an_alarm(example: Synthesis, machine: str) -> None:
    its_name = next(name for name in example.resources("AWS::StepFunctions::StateMachine") if name.startswith(machine))
    alarms = [each["Properties"] for each in example.resources("AWS::CloudWatch::Alarm").values()]

    metrics = {
        each["MetricName"]
        for each in alarms
        if flat(each.get("Dimensions", [{"Value": ""}]))[0]["Value"] == f"${{{its_name}}}"
    }
    assert metrics == {"ExecutionsFailed", "ExecutionsTimedOut"}


def test_each_setting_changes_its_resource(synthesise: Synthesise, example_settings: Settings) -> None:
    settings = replace(
        example_settings,
        node_roles=NodeRoleSettings(("Mine", "Other"), manage_node_access_entry=False),
        sweep=SweepSettings(every_minutes=5),
        logs=LogSettings(retention_days=3653, execution_data=False),
        tags={"team": "platform"},
        permissions_boundary="Boundary",
        alarm_topic="arn:aws:sns:eu-west-1:123456789012:alarms",
        retain_data=True,
    )

    made = synthesise(settings)

    assert not made.template["Resources"].keys() & {"NodesRole"}
    profiles = made.resources("AWS::IAM::InstanceProfile").values()
    assert [each["Properties"]["Roles"] for each in profiles] == [["Mine"], ["Other"]]
    assert [each["Properties"].get("Type") for each in made.resources("AWS::EKS::AccessEntry").values()].count(
        "EC2_LINUX"
    ) == 0
    assert (
        made.one("AWS::Scheduler::Schedule", "SweepSchedule")["Properties"]["ScheduleExpression"] == "rate(5 minutes)"
    )
    assert {each["Properties"]["RetentionInDays"] for each in made.resources("AWS::Logs::LogGroup").values()} == {3653}
    for machine in made.resources("AWS::StepFunctions::StateMachine").values():
        assert machine["Properties"]["LoggingConfiguration"]["IncludeExecutionData"] is False
    for role in made.resources("AWS::IAM::Role").values():
        assert flat(role["Properties"]["PermissionsBoundary"]).endswith(":policy/Boundary")
    for function in made.resources("AWS::Lambda::Function").values():
        assert {"Key": "team", "Value": "platform"} in function["Properties"]["Tags"]
    for alarm in made.resources("AWS::CloudWatch::Alarm").values():
        assert alarm["Properties"]["AlarmActions"] == [settings.alarm_topic]
    assert made.one("AWS::DynamoDB::Table", "Memory")["DeletionPolicy"] == "Retain"
    assert made.one("AWS::S3::Bucket", "Memory")["DeletionPolicy"] == "Retain"
    assert made.one("Custom::EmptiedBucket", "EmptiedBucket")["Properties"]["Empty"] == "false"


def test_nothing_sweeps_before_everything_is_installed_and_the_webhook_is_deleted_before_the_doorbell(
    example: Synthesis,
) -> None:
    waits = {name: set(each.get("DependsOn", ())) for name, each in example.template["Resources"].items()}
    schedule = next(name for name in waits if name.startswith("SweepSchedule"))
    manifests = next(name for name in example.resources("Custom::Manifests"))
    granted, revoked = sorted(example.resources("Custom::InstallerAccess"))
    needed = {
        *example.resources("Custom::FirstCatalogue"),
        *example.resources("AWS::ApiGatewayV2::Stage"),
        *(name for name in example.resources("AWS::StepFunctions::StateMachine") if name.startswith("ScaleUp")),
        *(name for name in example.resources("AWS::EKS::AccessEntry") if name.startswith("Access")),
    }

    assert revoked in waits[schedule]
    assert manifests in waits[revoked]
    assert granted in waits[manifests]
    assert needed <= waits[granted]


def test_interruption_events_use_an_encrypted_queue_with_dead_letters(example: Synthesis) -> None:
    rules = [each["Properties"]["EventPattern"] for each in example.resources("AWS::Events::Rule").values()]
    queue = example.one("AWS::SQS::Queue", "InterruptionQueue")["Properties"]
    mapping = example.one("AWS::Lambda::EventSourceMapping", "Interruption")["Properties"]

    assert {kind for rule in rules for kind in rule["detail-type"]} == {
        "AWS Health Event",
        "Capacity Block Expiration Warning",
        "Capacity Block Reservation Expiration Warning",
        "EC2 Capacity Reservation Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Spot Instance Interruption Warning",
    }
    assert queue["SqsManagedSseEnabled"] is True
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 6
    assert (
        queue["VisibilityTimeout"] == 2 * CONFIGURATIONS["handle_interruption"].timeout_seconds <= 45
    )  # seconds of the two minutes for one attempt
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    policies = [
        flat(each["Properties"]["PolicyDocument"]) for each in example.resources("AWS::SQS::QueuePolicy").values()
    ]
    assert all(
        {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}.items()
        <= policy["Statement"][0].items()
        for policy in policies
    )


@pytest.mark.parametrize("name", ["example", "local"])
def test_state_machines_call_published_versions_that_outlive_an_upgrade(
    name: str, request: pytest.FixtureRequest
) -> None:
    made: Synthesis = request.getfixturevalue(name)
    versions = made.resources("AWS::Lambda::Version")

    assert {each["DeletionPolicy"] for each in versions.values()} == {"Retain"}
    for machine in made.resources("AWS::StepFunctions::StateMachine").values():
        called = re.findall(r'"FunctionName": "\$\{(\w+)\}"', flat(machine["Properties"]["DefinitionString"]))
        assert called
        assert set(called) <= set(versions)


def _normalised(made: Synthesis, settings: Settings) -> dict[str, Any]:
    """Return the resources by an id without CDK's digests, with names of settings instead of their values."""
    target = BundleTarget.of(settings.runtime)
    words = {
        settings.cluster.replace("-", ""): "CLUSTER",  # in ids
        settings.cluster: "CLUSTER",
        settings.region: "REGION",
        settings.account or "${AWS::AccountId}": "ACCOUNT",
        f"python{target.python}": "RUNTIME",
        f'"{target.architecture}"': '"ARCHITECTURE"',
    }
    text = json.dumps({name: flat(each) for name, each in made.template["Resources"].items()})
    for value, word in words.items():
        text = text.replace(value, word)
    text = re.sub(r"[0-9a-f]{64}\.zip", "ASSET.zip", text)
    text = re.sub(r'("Sid": "AllowEventRule\w+?)[0-9A-F]{8}"', r'\1"', text)
    text = re.sub(r'"Rotation": "[0-9a-f]{16}"', '"Rotation": "DIGEST"', text)
    text = re.sub(r"(CurrentVersion\w{8})[0-9a-f]{32}", r"\1", text)
    text = re.sub(
        r"(CLUSTER[A-Za-z]*?)([0-9A-F]{8})+\b", r"\1", text
    )  # ids that consist of a path with the cluster's name
    resources: dict[str, Any] = json.loads(text, object_hook=_with_resources_in_order)
    for each in resources.values():
        each.pop("Metadata", None)
    short = {name: re.sub(r"([0-9A-F]{8})+$", "", name) for name in resources}
    return {short[name]: each for name, each in resources.items()}


def _with_resources_in_order(statement: dict[str, Any]) -> dict[str, Any]:
    """Return the resources in a stable order: the CDK sorts them by their content, or by ids with digests."""
    resource, waits = statement.get("Resource"), statement.get("DependsOn")
    if isinstance(waits, list):
        statement = {**statement, "DependsOn": sorted(waits)}
    return {**statement, "Resource": sorted(resource)} if isinstance(resource, list) else statement


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            here = f"{path}.{key}" if path else key
            yield from _differences(one.get(key), other.get(key), here)
    elif isinstance(one, list) and isinstance(other, list):
        for index in range(max(len(one), len(other))):
            pair = (one[index] if index < len(one) else None, other[index] if index < len(other) else None)
            yield from _differences(*pair, f"{path}[{index}]")
    elif one != other:
        yield path, (one, other)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in {".zip"} or path.name.endswith("template.json")
    }


def _without_metadata(template: Mapping[str, Any]) -> Any:
    """Remove the metadata: the command line adds the position of a resource in the code."""
    return {
        **template,
        "Resources": {
            name: {key: value for key, value in each.items() if key != "Metadata"}
            for name, each in template["Resources"].items()
        },
    }

"""The settings file of a cluster: its possible content, and how mistakes are reported."""

from collections.abc import Callable
from pathlib import Path

import boto3
import pytest

from infra.commitment_settings import CommitmentSettings, ReservedInstanceSettings, SavingsPlanSettings
from infra.node_role_settings import NodeRoleSettings
from infra.settings import (
    CeilingSettings,
    DoorbellSettings,
    RouteThrottle,
    RuntimeSettings,
    Settings,
    VpcSettings,
    load_settings,
)
from infra.settings_reader import SettingsError

Refusal = Callable[[str], str]


@pytest.fixture
def refusal(tmp_path: Path) -> Refusal:
    """Return a function from the text of a settings file to the message of its error."""

    def refused(text: str) -> str:
        path = tmp_path / "prod.yaml"
        path.write_text(text)
        with pytest.raises(SettingsError) as error:
            load_settings(path)
        assert str(error.value).startswith(f"{path}: ")
        return str(error.value).removeprefix(f"{path}: ")

    return refused


def test_a_cluster_and_a_region_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text("cluster: prod\nregion: eu-west-1\n")

    assert load_settings(path) == Settings(cluster="prod", region="eu-west-1")


def test_a_doorbell_that_is_no_mapping_is_reported_and_its_fields_are_not_checked(refusal: Refusal) -> None:
    assert refusal("cluster: prod\nregion: eu-west-1\ndoorbell: 5").startswith("doorbell is 5: write keys and values")


def test_concurrency_need_not_be_reserved(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text("cluster: prod\nregion: eu-west-1\ndoorbell: {concurrency: null}\n")

    assert load_settings(path).doorbell == DoorbellSettings()


def test_a_small_reserved_concurrency_needs_no_burst_of_pods_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text("cluster: prod\nregion: eu-west-1\ndoorbell: {concurrency: 65}\n")

    doorbell = load_settings(path).doorbell
    assert (doorbell.concurrency, doorbell.pods_throttle) == (65, RouteThrottle(rate=60, burst=50))


def test_every_field_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text(
        """
        cluster: prod
        region: eu-west-1
        account: "123456789012"
        runtime: {python: "3.13", architecture: x86_64}
        nodeRoles: {names: [NodeRole, Windows], windowsNames: [Windows], manageNodeAccessEntry: false}
        ceilings: {nodes: 7, pricePerHour: 3}
        commitments:
          reservedInstances: [{instanceType: m5.large, count: 2}, {instanceType: c5.xlarge, count: 1, zone: eu-west-1a}]
          savingsPlans: [{pricePerHour: 3.5, discountPercent: 28, family: m5}]
        planning: {preferencePolicy: Ignore, minValuesPolicy: BestEffort}
        imageOwners: [amazon, "123456789012"]
        vpc: {subnets: [subnet-0123456789abcdef0], securityGroup: sg-0123456789abcdef0}
        doorbell: {pods: {rate: 1, burst: 2}, nodes: {rate: 3, burst: 4}, concurrency: 9, caParameter: /ca}
        sweep: {everyMinutes: 2}
        logs: {retentionDays: 30, level: DEBUG, executionData: false}
        tags: {team: platform}
        permissionsBoundary: Boundary
        alarmTopic: arn:aws:sns:eu-west-1:123456789012:alarms
        retainData: true
        """
    )

    settings = load_settings(path)

    assert settings.runtime == RuntimeSettings("3.13", "x86_64")
    assert settings.node_roles == NodeRoleSettings(("NodeRole", "Windows"), ("Windows",), False)
    assert settings.ceilings == CeilingSettings(nodes=7, price_per_hour=3.0)
    assert (settings.planning.preference_policy, settings.planning.min_values_policy) == ("Ignore", "BestEffort")
    assert settings.commitments == CommitmentSettings(
        (ReservedInstanceSettings("m5.large", 2), ReservedInstanceSettings("c5.xlarge", 1, "eu-west-1a")),
        (SavingsPlanSettings(3.5, 28.0, "m5"),),
    )
    assert settings.vpc == VpcSettings(("subnet-0123456789abcdef0",), "sg-0123456789abcdef0")
    assert settings.doorbell == DoorbellSettings(RouteThrottle(1, 2), RouteThrottle(3, 4), 9, "/ca")
    assert (settings.sweep.every_minutes, settings.logs.retention_days, settings.logs.level) == (2, 30, "DEBUG")
    assert dict(settings.tags) == {"team": "platform"}
    assert (settings.account, settings.permissions_boundary, settings.retain_data) == ("123456789012", "Boundary", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: prod", "region is missing: write a region's name, such as eu-west-1"),
        (
            "cluster: prod\nregion: Ireland",
            "region is 'Ireland': write a region's name, such as eu-west-1",
        ),
        (
            "cluster: prod\nregion: eu-wset-1",
            "region is 'eu-wset-1': write a region's name, such as eu-west-1",
        ),
        (
            "cluster: prod\nregion: ue-west-1",
            "region is 'ue-west-1': write a region's name, such as eu-west-1",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nceiling: {nodes: 3}",
            "ceiling is not a setting: did you mean ceilings?",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nceilings: {pricePerDay: 3}",
            "ceilings.pricePerDay is not a setting: did you mean pricePerHour?",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nsweep: {xyz: 3}",
            "sweep.xyz is not a setting: known here: everyMinutes",
        ),
        (
            "cluster: prod\nregion: eu-west-1\naccount: 123456789012",
            'account is 123456789012: write twelve digits, in quotes: "123456789012"',
        ),
        (
            "cluster: prod\nregion: eu-west-1\nruntime: {python: 3.14}",
            'runtime.python is 3.14: write "3.14", in quotes',
        ),
        (
            "cluster: prod\nregion: eu-west-1\nruntime: {architecture: arm}",
            "runtime.architecture is 'arm': write one of arm64, x86_64, host (did you mean arm64?)",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nceilings: {nodes: many}",
            "ceilings.nodes is 'many': write a number between 0 and 5000",
        ),
        (
            "cluster: prod\nregion: eu-west-1\ncommitments: {reservedInstances: 3}",
            "commitments.reservedInstances is 3: write a list of keys and values: - key: value",
        ),
        (
            "cluster: prod\nregion: eu-west-1\ncommitments: {savingsPlans: [{pricePerHour: 3, discountPercent: 95}]}",
            "commitments.savingsPlans[0].discountPercent is 95: write a number between 0 and 90",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nceilings: {nodes: 5001}",
            "ceilings.nodes is 5001: write a number between 0 and 5000",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nceilings: {nodes: true}",
            "ceilings.nodes is True: write a number between 0 and 5000",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nlogs: {retentionDays: 15}",
            "logs.retentionDays is 15: write one of 1, 3, 5, 7, 14, 30,",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nnodeRoles: {names: ['arn:aws:iam::123456789012:role/Node']}",
            "nodeRoles.names[0] is 'arn:aws:iam::123456789012:role/Node': write a role's name, with its path if "
            "it has one (teams/web/NAME), without arn:",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nnodeRoles: {names: Node}",
            "nodeRoles.names is 'Node': write a list: [a role's name, with its path if it has one (teams/web/NAME), "
            "without arn:, ...]",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nnodeRoles: {names: [/teams/Node]}",
            "nodeRoles.names[0] is '/teams/Node': write a role's name, with its path if it has one (teams/web/NAME)",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nnodeRoles: {names: [Node, teams/Node]}",
            "nodeRoles.names[1] is 'teams/Node': an account has no two roles of one name, and 'Node' is named before: "
            "write one of them",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nnodeRoles: {names: [teams/Node], windowsNames: [Node]}",
            "nodeRoles.windowsNames[0] is 'Node': nodes may not have that role: write it in nodeRoles.names, or here "
            "'teams/Node' as it stands there",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nnodeRoles: {windowsNames: [Windows]}",
            "nodeRoles.windowsNames[0] is 'Windows': nodes may not have that role: write it in nodeRoles.names",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nimageOwners: []",
            "imageOwners is []: write at least one owner, since no image could boot otherwise, or leave the key out",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nvpc: {subnets: [], securityGroup: sg-0123456789abcdef0}",
            "vpc.subnets is []: write at least one subnet, or leave vpc out",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nvpc: {subnets: [subnet-0123456789abcdef0]}",
            "vpc.securityGroup is missing: write a security group's id: sg-0123456789abcdef0",
        ),
        (
            "cluster: prod\nregion: eu-west-1\ndoorbell: {concurrency: 20, pods: {rate: 60, burst: 100}}",
            "doorbell.concurrency is 20: bursts of pods (doorbell.pods.burst) and pools may be 105 concurrent requests "
            "and leave none for nodes: reserve more than 105, a lower burst, or null",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nsweep: {everyMinutes: 10}",
            "sweep.warmUpMinutes is 5: sweeps keep functions warm, and they run every 10 minutes (sweep.everyMinutes): "
            "write at least 10, or null",
        ),
        (
            "cluster: prod\nregion: eu-west-1\ndoorbell: {concurrency: 6}",
            "doorbell.concurrency is 6: bursts of pods (doorbell.pods.burst) and pools may be 6 concurrent requests "
            "and leave none for nodes: reserve more than 6, or null",
        ),
        (
            "cluster: prod\nregion: eu-west-1\nretainData: 'yes'",
            "retainData is 'yes': write true or false",
        ),
        (
            "cluster: prod\nregion: eu-west-1\ntags: {cost: 5}",
            "tags.cost is 5: write texts on both sides, in quotes",
        ),
        ("- prod", "the file is ['prod']: write keys and values, one a line"),
        ("cluster: [", "this is not YAML: "),
        (
            f"cluster: {'c' * 50}\nregion: eu-west-1",
            f"cluster is '{'c' * 50}': the node role would be named joiner-node-{'c' * 50}-eu-west-1, which is "
            "longer than IAM's 64 characters: create a role and write its name under nodeRoles.names",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_field_its_value_and_the_remedy(
    refusal: Refusal, text: str, message: str
) -> None:
    assert refusal(text).startswith(message)


def test_all_mistakes_of_a_file_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text(
        """
        cluster: prod
        account: 123456789012
        ceiling: {nodes: 3}
        runtime: {python: 3.14, architecture: arm}
        nodeRoles: Node
        imageOwners: [amazon, me]
        vpc: {subnets: []}
        tags: {cost: 5, team: true}
        """
    )

    with pytest.raises(SettingsError) as error:
        load_settings(path)

    assert str(error.value).replace(f"{path}: ", "").splitlines() == [
        "ceiling is not a setting: did you mean ceilings?",
        "region is missing: write a region's name, such as eu-west-1",
        'account is 123456789012: write twelve digits, in quotes: "123456789012"',
        'runtime.python is 3.14: write "3.14", in quotes',
        "runtime.architecture is 'arm': write one of arm64, x86_64, host (did you mean arm64?)",
        "nodeRoles is 'Node': write keys and values, one a line",
        "imageOwners[1] is 'me': write amazon, self, aws-marketplace, or account numbers in quotes",
        "vpc.subnets is []: write at least one subnet, or leave vpc out",
        "vpc.securityGroup is missing: write a security group's id: sg-0123456789abcdef0",
        "tags.cost is 5: write texts on both sides, in quotes",
        "tags.team is True: write texts on both sides, in quotes",
    ]


def test_a_node_role_with_too_long_a_name_is_reported_with_other_mistakes(refusal: Refusal) -> None:
    messages = refusal(f"cluster: {'c' * 50}\nregion: eu-west-1\nretainData: 5").splitlines()

    assert messages[0] == "retainData is 5: write true or false"
    assert f"the node role would be named joiner-node-{'c' * 50}-eu-west-1" in messages[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster: prod\nregoin: eu-west-1", "regoin is not a setting: did you mean region?"),
        (
            f"cluster: {'c' * 50}\nregion: eu-west-1\nnodeRole: {{names: [Node]}}",
            "nodeRole is not a setting: did you mean nodeRoles?",
        ),
    ],
)
def test_consequences_of_a_misspelt_key_are_not_reported(refusal: Refusal, text: str, message: str) -> None:
    assert refusal(text) == message


def test_a_missing_file_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text("")

    with pytest.raises(SettingsError) as error:
        load_settings(tmp_path / "prd.yaml")

    assert str(error.value).endswith(
        "no such file. Write one, or name another cluster with -c cluster=NAME; known clusters: prod"
    )


def test_the_settings_that_come_with_the_repository_can_be_read(
    example_settings: Settings, local_settings: Settings
) -> None:
    assert (example_settings.cluster, example_settings.runtime) == ("example", RuntimeSettings("3.14", "arm64"))
    assert (local_settings.cluster, local_settings.runtime) == ("joiner-demo", RuntimeSettings("host", "host"))


def test_commitments_must_fit_into_the_environment_of_a_function(refusal: Refusal) -> None:
    many = ", ".join(f"{{instanceType: m5.{number}xlarge, count: 1}}" for number in range(100))

    message = refusal(f"cluster: prod\nregion: eu-west-1\ncommitments: {{reservedInstances: [{many}]}}")

    assert message.startswith("commitments has ")
    assert message.endswith("add up those of the same type and zone, and savings plans of the same family and discount")


@pytest.mark.parametrize(("lost_hours", "refused"), [("0", True), ("0.5", False), (None, False)])
def test_placement_scores_that_would_have_no_effect_stop_the_synthesis(
    lost_hours: str | None, refused: bool, tmp_path: Path
) -> None:
    hours = f"  interruptionLostHours: {lost_hours}\n" if lost_hours else ""
    path = tmp_path / "prod.yaml"
    path.write_text(f"cluster: prod\nregion: eu-west-1\nplanning:\n  spotPlacementScores: true\n{hours}")

    if not refused:
        assert load_settings(path).planning.spot_placement_scores
        return
    with pytest.raises(SettingsError) as refusal:
        load_settings(path)
    assert (
        "planning.spotPlacementScores is true: it has no effect while planning.interruptionLostHours is 0: write more "
        "than 0 there, or leave one of them out"
    ) in str(refusal.value)


def test_a_batch_that_would_be_idle_for_longer_than_it_may_last_stops_the_synthesis(tmp_path: Path) -> None:
    path = tmp_path / "prod.yaml"
    path.write_text("cluster: prod\nregion: eu-west-1\nbatching:\n  idleSeconds: 20\n  longestSeconds: 10\n")

    with pytest.raises(SettingsError) as refusal:
        load_settings(path)

    limit = "no batch is longer than batching.longestSeconds, 10: write at most that"
    assert f"batching.idleSeconds is 20: {limit}" in str(refusal.value)


@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b", "aws-eusc"])
def test_every_region_of_aws_is_accepted(partition: str, tmp_path: Path) -> None:
    regions = boto3.session.Session().get_available_regions("ec2", partition)

    for region in [*regions, "nz-north-1"]:
        path = tmp_path / "prod.yaml"
        path.write_text(f"cluster: prod\nregion: {region}\n")
        assert load_settings(path).region == region

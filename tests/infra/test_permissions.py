"""Permissions: one role for each function; it creates resources only with our tags, and changes only resources that
have them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.function_configuration import CONFIGURATIONS, CalledApi
from tests.infra.conftest import ROOT, Synthesis, flat
from tests.infra.table_calls import ACTIONS, READS

Statement = Mapping[str, Any]

ASKED = {
    "StringEquals": {
        "aws:RequestTag/kubernetes.io/cluster/example": "owned",
        "aws:RequestTag/eks:eks-cluster-name": "example",
    },
    "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
}

OWNED = {
    "StringEquals": {
        "aws:ResourceTag/kubernetes.io/cluster/example": "owned",
        "aws:ResourceTag/eks:eks-cluster-name": "example",
    },
    "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
}

READING = ("ec2:Describe", "ec2:GetEbs")


@pytest.fixture(scope="session")
def granted(example: Synthesis) -> dict[str, list[Statement]]:
    """Return the statements of each function's role, by the function's name."""
    policies = example.resources("AWS::IAM::Policy").values()
    found: dict[str, list[Statement]] = {}
    for function in example.resources("AWS::Lambda::Function").values():
        role = function["Properties"]["Role"]["Fn::GetAtt"][0]
        name = function["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        found[name] = [
            flat(statement)
            for policy in policies
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]
    return found


def test_every_configuration_is_a_function_with_a_folder(granted: Mapping[str, list[Statement]]) -> None:
    assert set(granted) == set(CONFIGURATIONS)
    assert {path.parent.name for path in (ROOT / "functions").glob("*/handler.py")} == set(CONFIGURATIONS)


def test_no_two_functions_share_a_role_or_a_log_group(example: Synthesis) -> None:
    functions = example.resources("AWS::Lambda::Function").values()

    assert len({each["Properties"]["Role"]["Fn::GetAtt"][0] for each in functions}) == len(functions)
    assert len({each["Properties"]["LoggingConfig"]["LogGroup"]["Ref"] for each in functions}) == len(functions)


def test_no_role_may_do_everything_of_a_service(example: Synthesis) -> None:
    actions = [
        action
        for policy in example.resources("AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in _listed(statement["Action"])
    ]

    assert [action for action in actions if "*" in action] == []


def test_only_calls_without_resources_are_allowed_on_all_resources(granted: Mapping[str, list[Statement]]) -> None:
    everywhere = {
        action: statement.get("Condition")
        for statements in granted.values()
        for statement in statements
        if "*" in _listed(statement["Resource"])
        for action in _listed(statement["Action"])
    }

    assert {action for action in everywhere if not action.startswith(READING)} == {"pricing:GetProducts"}
    assert all(
        condition == {"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}
        for action, condition in everywhere.items()
        if action.startswith(READING)
    )


def test_a_function_reaches_only_the_kinds_of_items_and_documents_of_its_configuration(
    granted: Mapping[str, list[Statement]],
) -> None:
    for name, statements in granted.items():
        configuration = CONFIGURATIONS[name]
        for what, actions in ACTIONS.items():
            for action in actions:
                wanted = set(configuration.all_gets_items if what == "gets_items" else getattr(configuration, what))
                assert _kinds(statements, action) == wanted, (name, action)
        given = {action for each in statements for action in _listed(each["Action"]) if action.startswith("dynamodb:")}
        assert given <= set.union(*ACTIONS.values()), name
        assert _prefixes(statements, "s3:GetObject") == set(configuration.reads_documents), name
        assert _prefixes(statements, "s3:PutObject") == set(configuration.writes_documents), name


def test_the_doorbell_function_can_only_count_rings(granted: Mapping[str, list[Statement]], example: Synthesis) -> None:
    changing = set.union(*(ACTIONS[what] for what in ACTIONS if what not in READS))
    rung = [each for each in granted["ring_doorbell"] if changing & set(_listed(each["Action"]))]
    sweep = [
        flat(each)
        for each in example.one("AWS::IAM::Policy", "SweepStatesMachineRole")["Properties"]["PolicyDocument"][
            "Statement"
        ]
    ]
    swept = [each for each in sweep if any(action.startswith("dynamodb:") for action in _listed(each["Action"]))]

    assert [(_listed(each["Action"]), _kinds([each], "dynamodb:UpdateItem")) for each in rung] == [
        (["dynamodb:UpdateItem"], {"LEASE", "WAVE"})
    ]
    assert [(_listed(each["Action"]), _kinds([each], "dynamodb:UpdateItem")) for each in swept] == [
        (["dynamodb:UpdateItem"], {"LEASE"})
    ]


def test_no_function_calls_both_ec2_and_kubernetes(granted: Mapping[str, list[Statement]]) -> None:
    elsewhere = {
        name
        for name, statements in granted.items()
        if CONFIGURATIONS[name].calls is CalledApi.KUBERNETES
        for statement in statements
        for action in _listed(statement["Action"])
        if action.split(":")[0] not in {"logs", "dynamodb", "s3"}
    }

    assert elsewhere == set()
    with_groups = {name for name, configuration in CONFIGURATIONS.items() if configuration.groups}
    assert with_groups | {"install_manifests"} == {
        name for name, configuration in CONFIGURATIONS.items() if configuration.calls is CalledApi.KUBERNETES
    }


def test_only_one_function_creates_ec2_resources_and_only_with_the_tags_of_the_cluster(
    granted: Mapping[str, list[Statement]],
) -> None:
    changing = {
        name
        for name, statements in granted.items()
        for statement in statements
        for action in _listed(statement["Action"])
        if action.startswith("ec2:") and not action.startswith(READING)
    }
    assert changing == {
        "launch_instances",
        "survey_instances",
        "terminate_instances",
        "collect_garbage",
        "collect_launch_templates",
    }
    surveying = [
        action
        for each in granted["survey_instances"]
        for action in _listed(each["Action"])
        if action.startswith("ec2:")
    ]
    assert sorted(surveying) == [
        "ec2:CreateTags",
        "ec2:DescribeInstanceStatus",
        "ec2:DescribeInstances",
        "ec2:GetConsoleOutput",
    ]

    making = [each for each in granted["launch_instances"] if "ec2:RunInstances" in _listed(each["Action"])]
    for statement in making:
        kinds = {arn.rsplit(":", 1)[1] for arn in _listed(statement["Resource"])}
        if kinds <= {"image/*"}:
            assert statement["Condition"] == {"StringEquals": {"ec2:Owner": ["amazon", "${AWS::AccountId}"]}}
        elif kinds <= {"launch-template/*"} and statement["Condition"] == OWNED:
            continue  # a value that exists
        elif kinds <= {"security-group/*", "snapshot/*", "subnet/*"}:
            assert statement["Condition"]["StringEquals"]  # tests/infra/test_node_class_limits.py checks which
        elif kinds <= {"capacity-reservation/*", "placement-group/*"}:  # of the account, or shared with it
            assert sorted(_listed(statement["Action"])) == ["ec2:CreateFleet", "ec2:RunInstances"]
        else:
            assert statement["Condition"] == ASKED, kinds
            assert kinds == {f"{each}/*" for each in _made_by_a_launch()}


def test_tags_are_written_at_creation_and_later_only_to_instances_of_the_cluster(
    granted: Mapping[str, list[Statement]],
) -> None:
    at_birth, later = [each for each in granted["launch_instances"] if _listed(each["Action"]) == ["ec2:CreateTags"]]

    assert at_birth["Condition"] == {
        **ASKED,
        "StringEquals": {
            **ASKED["StringEquals"],
            "ec2:CreateAction": ["CreateFleet", "CreateLaunchTemplate", "RunInstances"],
        },
    }
    (of_the_sweep,) = [each for each in granted["survey_instances"] if _listed(each["Action"]) == ["ec2:CreateTags"]]
    for each in (later, of_the_sweep):
        assert each["Condition"] == {
            **OWNED,
            "ForAllValues:StringEquals": {"aws:TagKeys": ["Name", "karpenter.sh/nodeclaim"]},
        }
        assert [arn.rsplit(":", 1)[1] for arn in _listed(each["Resource"])] == ["instance/*"]


def test_a_launch_may_read_what_karpenters_published_policy_reads_and_use_only_own_templates(
    granted: Mapping[str, list[Statement]],
) -> None:
    reads = {
        action
        for each in granted["launch_instances"]
        for action in _listed(each["Action"])
        if action.startswith("ec2:Describe")
    }
    karpenters = (
        "CapacityReservations Images Instances InstanceTypeOfferings InstanceTypes LaunchTemplates "
        "PlacementGroups SecurityGroups "
        "SpotPriceHistory Subnets"
    )
    assert reads == {f"ec2:Describe{each}" for each in [*karpenters.split(), "LaunchTemplateVersions"]}
    using = [
        each
        for each in granted["launch_instances"]
        if "ec2:RunInstances" in _listed(each["Action"])
        and any("launch-template/" in arn for arn in _listed(each["Resource"]))
    ]
    assert [each["Condition"] for each in using if "ec2:CreateLaunchTemplate" not in _listed(each["Action"])] == [OWNED]


def test_only_two_functions_terminate_instances_and_only_those_with_the_tags_of_the_cluster(
    granted: Mapping[str, list[Statement]],
) -> None:
    ending = {
        name: statement
        for name, statements in granted.items()
        for statement in statements
        for action in _listed(statement["Action"])
        if action.startswith(("ec2:Terminate", "ec2:Delete", "ec2:Stop"))
    }

    templates = ending.pop("collect_launch_templates")
    assert (_listed(templates["Action"]), templates["Condition"]) == (["ec2:DeleteLaunchTemplate"], OWNED)
    assert [arn.rsplit(":", 1)[1] for arn in _listed(templates["Resource"])] == ["launch-template/*"]
    assert set(ending) == {"terminate_instances", "collect_garbage"}
    for statement in ending.values():
        assert (_listed(statement["Action"]), statement["Condition"]) == (["ec2:TerminateInstances"], OWNED)
        assert [arn.rsplit(":", 1)[1] for arn in _listed(statement["Resource"])] == ["instance/*"]


def test_only_functions_that_can_be_paused_may_read_the_pause_parameter(granted: Mapping[str, list[Statement]]) -> None:
    reading = {
        name
        for name, statements in granted.items()
        for statement in statements
        if "ssm:GetParameter" in _listed(statement["Action"])
        and ":parameter/joiner/example/pause" in str(statement["Resource"])
    }

    assert reading == {name for name, configuration in CONFIGURATIONS.items() if configuration.reads_pause}


def test_only_the_node_roles_of_the_settings_can_be_passed_and_only_to_ec2(
    granted: Mapping[str, list[Statement]],
) -> None:
    passing = [
        (name, statement)
        for name, statements in granted.items()
        for statement in statements
        if "iam:PassRole" in _listed(statement["Action"])
    ]

    assert [name for name, _ in passing] == ["launch_instances"]
    assert passing[0][1]["Resource"] == "arn:aws:iam::${AWS::AccountId}:role/joiner-node-example-eu-west-1"
    assert passing[0][1]["Condition"] == {
        "StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}
    }


def test_each_machine_is_started_only_by_its_starters(example: Synthesis) -> None:
    found: dict[str, set[str]] = {}
    for name, policy in example.resources("AWS::IAM::Policy").items():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            if "states:StartExecution" in _listed(statement["Action"]):
                for resource in _listed(flat(statement["Resource"])):
                    of = next(
                        kind
                        for kind in (
                            "scale-up",
                            "ScaleUp",
                            "joiner-retire-",
                            "joiner-sweep-",
                            "RetirementStatesForEmpty",
                            "Retirement",
                            "Disruption",
                            "Sweep",
                        )
                        if kind in resource
                    )
                    of = {"scale-up": "ScaleUp", "joiner-retire-": "Retirement", "joiner-sweep-": "Sweep"}.get(of, of)
                    found.setdefault(of, set()).add(name.split("Role")[0])

    assert found == {
        "ScaleUp": {
            "DisruptionStatesMachine",
            "DoorbellRingDoorbell",
            "InterruptionHandleInterruption",
            "RetirementStatesForEmptyMachine",
            "RetirementStatesMachine",
            "ScaleUpStatesMachine",
            "SweepStatesMachine",
        },
        "RetirementStatesForEmpty": {"SweepStatesMachine"},
        "Retirement": {
            "DisruptionStatesMachine",
            "InterruptionHandleInterruption",
            "RetirementStatesMachine",  # more interrupted instances than one execution takes
            "SweepStatesMachine",
        },
        "Disruption": {"SweepStatesMachine"},
        "Sweep": {
            "DoorbellRingDoorbell",
            "SweepStatesMachine",  # more empty nodes than may leave at once
            next(each for each in found["Sweep"] if each.startswith("SchedulerRole") or "Schedule" in each),
        },
    }


def test_only_the_executions_whose_state_counts_may_be_described(granted: Mapping[str, list[Statement]]) -> None:
    found = {
        (name, str(resource).rpartition(":execution:")[2])
        for name, statements in granted.items()
        for each in statements
        if "states:DescribeExecution" in _listed(each["Action"])
        for resource in _listed(each["Resource"])
    }
    machines = ("joiner-disrupt-example:*", "joiner-retire-example:*", "joiner-scale-up-example:*")

    assert found == {
        ("handle_interruption", "joiner-retire-example:*"),
        *(("survey_instances", each) for each in machines),
    }


def test_a_schedule_is_made_after_the_policies_of_its_role(example: Synthesis) -> None:
    policies = example.resources("AWS::IAM::Policy").items()
    schedules = example.resources("AWS::Scheduler::Schedule")
    assert len(schedules) == 6
    for name, schedule in schedules.items():
        role = schedule["Properties"]["Target"]["RoleArn"]["Fn::GetAtt"][0]
        needed = {role} | {policy for policy, each in policies if {"Ref": role} in each["Properties"]["Roles"]}
        assert len(needed) == 2
        assert needed <= set(schedule["DependsOn"]), name


def test_a_machine_may_invoke_every_version_of_its_own_functions(example: Synthesis) -> None:
    for machine, count in (
        ("ScaleUpStates", 7),
        ("RetirementStates", 5),
        ("RetirementStatesForEmpty", 5),
        ("SweepStates", 10),  # its own, and those that it keeps warm
    ):
        policy = example.one("AWS::IAM::Policy", f"{machine}MachineRole")["Properties"]["PolicyDocument"]["Statement"]
        called = next(flat(each["Resource"]) for each in policy if _listed(each["Action"]) == ["lambda:InvokeFunction"])
        functions = {arn for arn in called if not arn.endswith(":*")}
        assert len(functions) == count
        assert set(called) == functions | {f"{arn}:*" for arn in functions}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _kinds(statements: list[Statement], action: str) -> set[str]:
    return {
        kind
        for statement in statements
        if action in _listed(statement["Action"])
        for kind in statement["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    }


def _prefixes(statements: list[Statement], action: str) -> set[str]:
    return {
        Path(arn).parent.name
        for statement in statements
        if action in _listed(statement["Action"])
        for arn in _listed(statement["Resource"])
    }


def _made_by_a_launch() -> tuple[str, ...]:
    return ("fleet", "instance", "launch-template", "network-interface", "spot-instances-request", "volume")

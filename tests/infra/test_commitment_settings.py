"""Commitments and placement scores in the deployment: variables and permissions of `refresh_catalogue`."""

import json
from dataclasses import replace

from infra.commitment_settings import CommitmentSettings, ReservedInstanceSettings, SavingsPlanSettings
from infra.planning_settings import PlanningSettings
from infra.settings import Settings
from joiner.catalogue.reserved_instances_and_savings_plans import (
    ReservedInstances,
    SavingsPlan,
    commitments_of_settings,
)
from joiner_local.aws.iam.api_call_parsing import ApiCall
from joiner_local.aws.iam.required_permissions import required_permissions
from tests.infra.conftest import Synthesis, Synthesise, flat

DECLARED = CommitmentSettings(
    (ReservedInstanceSettings("m5.large", 2), ReservedInstanceSettings("c5.xlarge", 1, "eu-west-1a")),
    (SavingsPlanSettings(3.5, 28.0, "m5"), SavingsPlanSettings(1.0, 25.0)),
)


def variables(synthesis: Synthesis) -> dict[str, str]:
    function = synthesis.one("AWS::Lambda::Function", "CatalogueRefreshCatalogueFunction")
    found: dict[str, str] = function["Properties"]["Environment"]["Variables"]
    return found


def test_the_function_reads_what_the_settings_declare() -> None:
    assert commitments_of_settings(json.loads(DECLARED.to_json())) == (
        (ReservedInstances("m5.large", 2), ReservedInstances("c5.xlarge", 1, "eu-west-1a")),
        (SavingsPlan("settings-1", 3.5, 0.28, "m5"), SavingsPlan("settings-2", 1.0, 0.25)),
    )


def test_the_refresh_of_the_catalogue_gets_the_commitments(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    declared = synthesise(replace(example_settings, commitments=DECLARED))

    assert variables(declared)["JOINER_COMMITMENTS"] == DECLARED.to_json()
    assert "JOINER_COMMITMENTS" not in variables(example)


READING_COMMITMENTS = {
    "ec2:DescribeInstances",
    "ec2:DescribeReservedInstances",
    "savingsplans:DescribeSavingsPlans",
    "savingsplans:DescribeSavingsPlanRates",
}


def actions(synthesis: Synthesis) -> set[str]:
    """Return the actions that the role of the refresh may use."""
    policies = synthesis.resources("AWS::IAM::Policy")
    (own,) = [each for name, each in policies.items() if name.startswith("CatalogueRefreshCatalogue")]
    statements = [flat(each) for each in own["Properties"]["PolicyDocument"]["Statement"]]
    return {
        action
        for each in statements
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    }


def test_only_the_setting_lets_the_refresh_read_the_commitments_of_the_account(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    reading = synthesise(replace(example_settings, commitments=CommitmentSettings(from_account=True)))

    assert json.loads(variables(reading)["JOINER_COMMITMENTS"])["fromAccount"] is True
    assert actions(reading) - actions(example) == READING_COMMITMENTS
    assert not READING_COMMITMENTS & actions(example)


def test_commitments_that_could_not_be_read_for_three_hours_are_an_alarm(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    reading = synthesise(replace(example_settings, commitments=CommitmentSettings(from_account=True)))

    watched = reading.one("AWS::CloudWatch::Alarm", "AlarmsCommitmentsAreOld")["Properties"]
    assert (watched["Namespace"], watched["MetricName"]) == ("Joiner", "CommitmentsNotRead")
    assert watched["Period"] * watched["EvaluationPeriods"] == 3 * 3600
    assert (watched["Threshold"], watched["TreatMissingData"]) == (1, "notBreaching")
    assert not [name for name in example.resources("AWS::CloudWatch::Alarm") if "CommitmentsAreOld" in name]


def test_only_the_setting_lets_the_refresh_read_placement_scores(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    scored = synthesise(replace(example_settings, planning=PlanningSettings(spot_placement_scores=True)))

    assert variables(scored)["JOINER_PLACEMENT_SCORES"] == "true"
    assert actions(scored) - actions(example) == {"ec2:GetSpotPlacementScores", "ec2:DescribeAvailabilityZones"}
    assert variables(example)["JOINER_PLACEMENT_SCORES"] == "false"


def test_the_local_iam_knows_the_calls_that_each_setting_adds(
    synthesise: Synthesise, example: Synthesis, example_settings: Settings
) -> None:
    every = replace(
        example_settings,
        commitments=CommitmentSettings(from_account=True),
        planning=PlanningSettings(spot_placement_scores=True),
    )
    added = sorted(actions(synthesise(every)) - actions(example))

    assert "ec2:GetSpotPlacementScores" in added
    calls = [ApiCall(service, operation) for service, _, operation in (action.partition(":") for action in added)]
    assert [[needed.action for needed in required_permissions(call)] for call in calls] == [[each] for each in added]

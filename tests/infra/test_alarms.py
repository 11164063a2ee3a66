"""Somebody hears of it when Joiner stops working: alarms on what fails, and on what no longer happens."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from infra.settings import Settings, SweepSettings
from tests.infra.conftest import Synthesis, Synthesise, flat


def alarm(made: Synthesis, id: str) -> Mapping[str, Any]:
    """Its properties, references as text."""
    properties: Mapping[str, Any] = flat(made.one("AWS::CloudWatch::Alarm", f"Alarms{id}")["Properties"])
    return properties


def logical_id(made: Synthesis, type_: str, part: str) -> str:
    (found,) = [name for name in made.resources(type_) if name.startswith(part)]
    return found


def test_no_sweep_that_succeeded_for_15_minutes_is_an_alarm_also_if_none_ran(example: Synthesis) -> None:
    said = alarm(example, "NoSweepSucceeds")
    sweep = logical_id(example, "AWS::StepFunctions::StateMachine", "SweepStates")

    assert (said["MetricName"], said["Namespace"], said["Statistic"]) == ("ExecutionsSucceeded", "AWS/States", "Sum")
    assert said["Dimensions"] == [{"Name": "StateMachineArn", "Value": f"${{{sweep}}}"}]
    assert (said["ComparisonOperator"], said["Threshold"], said["TreatMissingData"]) == (
        "LessThanThreshold",
        1,
        "breaching",
    )
    assert said["Period"] * said["EvaluationPeriods"] == 15 * 60
    assert "schedule" in said["AlarmDescription"]


def test_sweeps_that_are_rarer_than_five_minutes_are_missed_when_three_are(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    said = alarm(synthesise(replace(example_settings, sweep=SweepSettings(every_minutes=20))), "NoSweepSucceeds")

    assert (said["Period"], said["EvaluationPeriods"]) == (20 * 60, 3)
    assert "60 minutes" in said["AlarmDescription"]


def test_a_sweep_that_runs_out_of_time_is_an_alarm(example: Synthesis) -> None:
    said = alarm(example, "SweepTimedOut")

    assert (said["MetricName"], said["EvaluationPeriods"], said["Threshold"]) == ("ExecutionsTimedOut", 1, 1)
    assert said["TreatMissingData"] == "notBreaching"


def test_a_catalogue_that_nobody_refreshed_for_three_hours_is_an_alarm_also_if_nobody_tried(example: Synthesis) -> None:
    said = alarm(example, "CatalogueIsOld")
    refresh = logical_id(example, "AWS::Lambda::Function", "CatalogueRefreshCatalogue")

    by_id = {each["Id"]: each for each in said["Metrics"]}
    (expression,) = [each["Expression"] for each in by_id.values() if "Expression" in each]
    assert expression == "invocations - errors"
    for id, name in (("invocations", "Invocations"), ("errors", "Errors")):
        stat = by_id[id]["MetricStat"]
        assert (stat["Metric"]["MetricName"], stat["Stat"], stat["Period"]) == (name, "Sum", 3600)
        assert stat["Metric"]["Dimensions"] == [{"Name": "FunctionName", "Value": f"${{{refresh}}}"}]
    assert (said["ComparisonOperator"], said["Threshold"], said["TreatMissingData"]) == (
        "LessThanThreshold",
        1,
        "breaching",
    )
    assert said["EvaluationPeriods"] == 3
    assert "refresh_catalogue" in said["AlarmDescription"]


def test_rings_that_are_lost_are_an_alarm_whoever_loses_them(example: Synthesis) -> None:
    said = alarm(example, "RingsAreLost")
    access_log = logical_id(example, "AWS::Logs::LogGroup", "DoorbellAccessLog")
    function_log = logical_id(example, "AWS::Logs::LogGroup", "DoorbellRingDoorbellLogs")

    filters = [flat(each["Properties"]) for each in example.resources("AWS::Logs::MetricFilter").values()]
    assert {each["LogGroupName"]: each["FilterPattern"] for each in filters} == {
        f"${{{access_log}}}": '{ $.status = "403" || $.status = "5*" }',
        f"${{{function_log}}}": '{ $.level = "ERROR" }',
    }
    for each in filters:
        (into,) = each["MetricTransformations"]
        assert (into["MetricNamespace"], into["MetricName"], into["MetricValue"]) == (
            "Joiner/example",
            "RingsLost",
            "1",
        )
    assert (said["Namespace"], said["MetricName"], said["Statistic"]) == ("Joiner/example", "RingsLost", "Sum")
    assert said["TreatMissingData"] == "notBreaching"


def test_events_that_a_rule_cannot_deliver_are_dead_letters_and_dead_letters_are_an_alarm(example: Synthesis) -> None:
    dead_letters = logical_id(example, "AWS::SQS::Queue", "InterruptionDeadLetters")
    queue_policies = [flat(each["Properties"]) for each in example.resources("AWS::SQS::QueuePolicy").values()]

    for name, rule in example.resources("AWS::Events::Rule").items():
        (target,) = flat(rule["Properties"]["Targets"])
        assert target["DeadLetterConfig"] == {"Arn": f"${{{dead_letters}.Arn}}"}, name
        senders = [
            statement["Condition"]["ArnEquals"]["aws:SourceArn"]
            for policy in queue_policies
            for statement in policy["PolicyDocument"]["Statement"]
            if statement["Resource"] == f"${{{dead_letters}.Arn}}" and statement["Effect"] == "Allow"
        ]
        assert f"${{{name}.Arn}}" in senders, "EventBridge may write this rule's dead letters"
    assert alarm(example, "InterruptionUnhandled")["MetricName"] == "ApproximateNumberOfMessagesVisible"


def test_interruptions_that_nobody_handles_in_time_are_an_alarm_before_the_queue_forgets_them(
    example: Synthesis,
) -> None:
    said = alarm(example, "InterruptionsWait")
    queue = example.one("AWS::SQS::Queue", "InterruptionQueue")["Properties"]

    assert (said["MetricName"], said["Statistic"]) == ("ApproximateAgeOfOldestMessage", "Maximum")
    assert said["Period"] * said["EvaluationPeriods"] + said["Threshold"] < queue["MessageRetentionPeriod"]


def test_every_machine_every_schedule_and_every_rule_is_watched(example: Synthesis) -> None:
    """A new one without an alarm fails here: decide who hears of its failure."""
    described = " ".join(str(flat(each["Properties"])) for each in example.resources("AWS::CloudWatch::Alarm").values())
    for machine in example.resources("AWS::StepFunctions::StateMachine"):
        assert f"${{{machine}}}" in described
    for name, schedule in example.resources("AWS::Scheduler::Schedule").items():
        watched = flat(schedule["Properties"]["Target"]["Arn"]).strip("${}").removesuffix(".Arn")
        assert watched in described, name
    for rule in example.resources("AWS::Events::Rule").values():
        assert all("DeadLetterConfig" in target for target in rule["Properties"]["Targets"])


@pytest.mark.parametrize("name", ["example", "local"])
def test_every_alarm_says_what_to_do(name: str, request: pytest.FixtureRequest) -> None:
    made: Synthesis = request.getfixturevalue(name)

    for id, each in made.resources("AWS::CloudWatch::Alarm").items():
        assert len(each["Properties"]["AlarmDescription"].split(": ", 1)) == 2, id

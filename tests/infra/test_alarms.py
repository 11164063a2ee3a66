"""Alarms show that Joiner stops working: on failures, and on activity that has stopped."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from infra.settings import Settings, SweepSettings
from tests.infra.conftest import ROOT, Synthesis, Synthesise, flat


def alarm(made: Synthesis, id: str) -> Mapping[str, Any]:
    """Return the properties of an alarm, with references as text."""
    properties: Mapping[str, Any] = flat(made.one("AWS::CloudWatch::Alarm", f"Alarms{id}")["Properties"])
    return properties


def logical_id(made: Synthesis, type_: str, part: str) -> str:
    (found,) = [name for name in made.resources(type_) if name.startswith(part)]
    return found


def test_no_sweep_for_15_minutes_is_an_alarm_whatever_only_warms_up(example: Synthesis) -> None:
    watched = alarm(example, "NoSweepRuns")
    survey = logical_id(example, "AWS::Lambda::Function", "SweepSurveyCluster")

    # Executions that only warm up are successes of the same machine, but none of them surveys the cluster
    assert (watched["MetricName"], watched["Namespace"], watched["Statistic"]) == ("Invocations", "AWS/Lambda", "Sum")
    assert watched["Dimensions"] == [{"Name": "FunctionName", "Value": f"${{{survey}}}"}]
    assert (watched["ComparisonOperator"], watched["Threshold"], watched["TreatMissingData"]) == (
        "LessThanThreshold",
        1,
        "breaching",
    )
    assert watched["Period"] * watched["EvaluationPeriods"] == 15 * 60
    assert "schedule" in watched["AlarmDescription"]


def test_sweeps_that_are_rarer_than_five_minutes_are_missed_when_three_are(
    synthesise: Synthesise, example_settings: Settings
) -> None:
    made = synthesise(replace(example_settings, sweep=SweepSettings(every_minutes=20, warm_up_minutes=None)))

    for name in ("NoSweepRuns", "SweepFails"):
        watched = alarm(made, name)
        assert (watched["Period"], watched["EvaluationPeriods"]) == (20 * 60, 3), name
        assert "60 minutes" in watched["AlarmDescription"], name


def test_a_sweep_that_times_out_is_an_alarm(example: Synthesis) -> None:
    watched = alarm(example, "SweepTimedOut")

    assert (watched["MetricName"], watched["EvaluationPeriods"], watched["Threshold"]) == ("ExecutionsTimedOut", 1, 1)
    assert watched["TreatMissingData"] == "notBreaching"


def test_a_catalogue_that_was_not_refreshed_for_three_hours_is_an_alarm_also_without_an_attempt(
    example: Synthesis,
) -> None:
    watched = alarm(example, "CatalogueIsOld")
    refresh = logical_id(example, "AWS::Lambda::Function", "CatalogueRefreshCatalogue")

    by_id = {each["Id"]: each for each in watched["Metrics"]}
    (expression,) = [each["Expression"] for each in by_id.values() if "Expression" in each]
    assert expression == "invocations - errors"
    for id, name in (("invocations", "Invocations"), ("errors", "Errors")):
        stat = by_id[id]["MetricStat"]
        assert (stat["Metric"]["MetricName"], stat["Stat"], stat["Period"]) == (name, "Sum", 3600)
        assert stat["Metric"]["Dimensions"] == [{"Name": "FunctionName", "Value": f"${{{refresh}}}"}]
    assert (watched["ComparisonOperator"], watched["Threshold"], watched["TreatMissingData"]) == (
        "LessThanThreshold",
        1,
        "breaching",
    )
    assert watched["EvaluationPeriods"] == 3
    assert "refresh_catalogue" in watched["AlarmDescription"]


def test_rings_that_the_api_or_the_function_loses_are_an_alarm(example: Synthesis) -> None:
    watched = alarm(example, "RingsAreLost")
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
    assert (watched["Namespace"], watched["MetricName"], watched["Statistic"]) == ("Joiner/example", "RingsLost", "Sum")
    assert watched["TreatMissingData"] == "notBreaching"


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


def test_interruptions_that_wait_are_an_alarm_before_the_queue_deletes_them(
    example: Synthesis,
) -> None:
    watched = alarm(example, "InterruptionsWait")
    queue = example.one("AWS::SQS::Queue", "InterruptionQueue")["Properties"]

    assert (watched["MetricName"], watched["Statistic"]) == ("ApproximateAgeOfOldestMessage", "Maximum")
    assert watched["Period"] * watched["EvaluationPeriods"] + watched["Threshold"] < queue["MessageRetentionPeriod"]


@pytest.mark.parametrize(
    ("id", "metric", "publishers", "remedy"),
    [
        ("TooManyOrphans", "OrphansRefused", ["survey_instances"], "kubectl delete nodeclaim"),
        ("GarbageIsRefused", "GarbageRefused", ["collect_garbage"], "termination protection"),
        ("ClaimsAreNotWritten", "ClaimsNotWritten", ["survey_cluster"], "delete the claim"),
        ("RecordsAreUnreadable", "UnreadableRecords", ["survey_cluster", "survey_instances"], "repaired or deleted"),
    ],
)
def test_what_functions_refuse_is_an_alarm_on_the_metric_that_they_publish(
    example: Synthesis, id: str, metric: str, publishers: list[str], remedy: str
) -> None:
    watched = alarm(example, id)

    assert (watched["Namespace"], watched["MetricName"], watched["Statistic"]) == ("Joiner", metric, "Maximum")
    assert watched["Dimensions"] == [{"Name": "cluster", "Value": "example"}]  # as joiner.adapters.metrics publishes
    assert (watched["ComparisonOperator"], watched["Threshold"], watched["TreatMissingData"]) == (
        "GreaterThanOrEqualToThreshold",
        1,
        "notBreaching",
    )
    for name in publishers:
        sources = [path.read_text() for path in (ROOT / "functions" / name).glob("*.py")]
        assert any(f'"{metric}"' in source for source in sources), name
    assert remedy in watched["AlarmDescription"]


@pytest.mark.parametrize("id", ["GarbageIsRefused", "ClaimsAreNotWritten", "RecordsAreUnreadable"])
def test_a_refusal_that_lasts_15_minutes_is_an_alarm_a_single_one_is_none(example: Synthesis, id: str) -> None:
    watched = alarm(example, id)

    assert watched["Period"] * watched["EvaluationPeriods"] == 15 * 60
    assert watched.get("DatapointsToAlarm", watched["EvaluationPeriods"]) > 1


def test_every_machine_every_schedule_and_every_rule_is_watched(example: Synthesis) -> None:
    """If a new machine, schedule or rule has no alarm, this test fails: decide how its failure is reported."""
    described = " ".join(str(flat(each["Properties"])) for each in example.resources("AWS::CloudWatch::Alarm").values())
    machines, schedules, rules = (
        example.resources(f"AWS::{kind}")
        for kind in ("StepFunctions::StateMachine", "Scheduler::Schedule", "Events::Rule")
    )
    assert min(len(machines), len(schedules), len(rules)) > 0
    for machine in machines:
        assert f"${{{machine}}}" in described
    for name, schedule in schedules.items():
        watched = flat(schedule["Properties"]["Target"]["Arn"]).strip("${}").removesuffix(".Arn")
        assert watched in described, name
    for rule in rules.values():
        assert all("DeadLetterConfig" in target for target in rule["Properties"]["Targets"])


@pytest.mark.parametrize("name", ["example", "local"])
def test_every_alarm_has_a_remedy(name: str, request: pytest.FixtureRequest) -> None:
    made: Synthesis = request.getfixturevalue(name)

    alarms = made.resources("AWS::CloudWatch::Alarm")
    assert alarms != {}
    for id, each in alarms.items():
        assert len(each["Properties"]["AlarmDescription"].split(": ", 1)) == 2, id

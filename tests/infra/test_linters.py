"""The linters of `make check` find the defects that they are for, and every documented exception has a finding."""

import json
from pathlib import Path
from typing import Any

from infra.linters import cfn_lint, nag_findings, with_definitions, without_finding, without_reason
from infra.nag_suppressions import SUPPRESSIONS, NagFinding, NagSuppression
from tests.infra.conftest import Synthesis

BUCKET = NagFinding("AwsSolutions-S1", "joiner-prod/Memory/Decisions/Resource")


def _linted(definition: dict[str, Any], folder: Path) -> list[str]:
    """Return cfn-lint's findings for a machine whose definition is a text with references, as the CDK writes it."""
    before, after = json.dumps(definition).split("QUEUE")
    machine = {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "RoleArn": "arn:aws:iam::123456789012:role/machine",
            "DefinitionString": {"Fn::Join": ["", [before, {"Ref": "Queue"}, after]]},
        },
    }
    template = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}, "Machine": machine}}
    path = folder / "a.template.json"
    path.write_text(json.dumps(with_definitions(template)))
    return cfn_lint([path])


def test_cfn_lint_reads_the_states_of_a_definition_that_is_a_text_with_references(tmp_path: Path) -> None:
    right: dict[str, Any] = {
        "QueryLanguage": "JSONata",
        "StartAt": "Wait",
        "States": {
            "Wait": {"Type": "Wait", "Seconds": 1, "Next": "Ask"},
            "Ask": {
                "Type": "Task",
                "Resource": "arn:aws:states:::sqs:sendMessage",
                "Arguments": {"QueueUrl": "QUEUE"},
                "End": True,
            },
        },
    }
    assert _linted(right, tmp_path) == []

    wrong = {**right, "States": {**right["States"], "Wait": {"Type": "Nap", "Seconds": 1, "Next": "Ask"}}}
    findings = _linted(wrong, tmp_path)
    assert findings
    assert all("E3601" in line for line in findings)


def test_the_definitions_of_all_machines_are_rendered(example: Synthesis) -> None:
    rendered = with_definitions(example.template)["Resources"]

    machines = [each["Properties"] for each in rendered.values() if each["Type"] == "AWS::StepFunctions::StateMachine"]
    names = {machine["StateMachineName"] for machine in machines}
    assert names == {f"joiner-{kind}-example" for kind in ("scale-up", "retire", "sweep", "disrupt", "empty")}
    for machine in machines:
        assert "DefinitionString" not in machine
        assert machine["Definition"]["StartAt"] in machine["Definition"]["States"]


def test_a_finding_without_a_reason_and_a_reason_without_a_finding_are_both_reported() -> None:
    stranger = NagFinding("AwsSolutions-S10", "joiner-prod/Memory/Decisions/Resource")
    reason = next(each for each in SUPPRESSIONS if each.explains(BUCKET))
    rest = NagSuppression("AwsSolutions-EC23", ".*", "a rule that nothing breaks any more")

    assert without_reason([BUCKET, stranger], SUPPRESSIONS) == [stranger]
    assert without_finding([BUCKET], [reason, rest]) == [rest]


def test_a_reason_is_about_its_constructs_only() -> None:
    assert without_reason([NagFinding(BUCKET.rule, "joiner-prod/Another/Bucket/Resource")], SUPPRESSIONS)


def test_every_violating_construct_of_a_report_is_a_finding() -> None:
    violation = {
        "ruleName": BUCKET.rule,
        "violatingConstructs": [{"constructPath": BUCKET.construct}, {"constructPath": "b"}],
    }

    assert nag_findings({"pluginReports": [{"violations": [violation]}]}) == [BUCKET, NagFinding(BUCKET.rule, "b")]

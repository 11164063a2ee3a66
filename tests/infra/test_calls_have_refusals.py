"""Every call that Joiner makes has a row in the table of refusals, or the statement that no refusal beyond its schema
is known.
"""

import json
from pathlib import Path

from tests.infra.conftest import ROOT, Synthesis, flat
from tests.local.refusals import made_calls
from tests.local.refusals.refused_calls import NOTHING_KNOWN, ROWS
from tests.local.refusals.test_refused_calls import SERVICES

LIMITS = {"Resources": 500, "Parameters": 200, "Outputs": 200}
POLICY = 10_240  # characters of a role's inline policies, without white space


def known() -> set[tuple[str, str]]:
    assert SERVICES  # imported, so that their rows are there
    return {(row.service, row.call) for row in ROWS} | set(NOTHING_KNOWN) | set(made_calls.ELSEWHERE)


def test_every_call_of_our_code_has_a_row() -> None:
    assert made_calls.clients() <= set(made_calls.SERVICES), "SERVICES lacks a service of which our code makes a client"
    assert len(made_calls.of_code()) > 20
    assert sorted(made_calls.of_code() - known()) == []


def test_every_integration_of_our_state_machines_has_a_row(example: Synthesis) -> None:
    definitions = [
        json.dumps(flat(each["Properties"])) for each in example.resources("AWS::StepFunctions::StateMachine").values()
    ]
    made = {call for definition in definitions for call in made_calls.of_machines(definition)}

    assert {
        ("dynamodb", "UpdateItem"),
        ("eks", "DescribeCluster"),
        ("lambda", "Invoke"),
        ("ssm", "GetParameter"),
    } <= made
    assert sorted(made - known()) == []


def test_every_type_of_our_templates_has_a_row(example: Synthesis, local: Synthesis) -> None:
    for synthesis in (example, local):
        assert sorted(made_calls.of_template(synthesis.template) - known()) == []


def test_the_refusals_that_are_tested_elsewhere_are_there() -> None:
    """Each of these files is beside the table's folder."""
    missing = sorted({name for name in made_calls.ELSEWHERE.values() if not (ROOT / name).is_file()})
    assert missing == []


def test_what_is_not_modelled_is_listed_in_the_documentation() -> None:
    text = Path(ROOT / "docs/local-stack.md").read_text(encoding="utf-8")
    section = text.partition("## What AWS refuses and the local AWS does not")[2].partition("\n## ")[0]
    listed = [line for line in section.splitlines() if line.startswith("| `")]

    expected = [
        f"| `{row.service}` {row.call} | {row.what} | {row.why_not_modelled} |" for row in ROWS if row.attempt is None
    ]
    assert sorted(listed) == sorted(expected)


def test_our_template_is_below_the_limits_of_cloudformation(example: Synthesis, local: Synthesis) -> None:
    for synthesis in (example, local):
        assert len(json.dumps(synthesis.template)) < 0.8 * 1_000_000
        for section, most in LIMITS.items():
            assert len(synthesis.template.get(section, {})) < 0.8 * most, section


def test_the_policies_of_each_role_are_below_the_limit_of_iam(example: Synthesis) -> None:
    sizes: dict[str, int] = {}
    for policy in example.resources("AWS::IAM::Policy").values():
        for role in policy["Properties"]["Roles"]:
            text = json.dumps(flat(policy["Properties"]["PolicyDocument"]), separators=(",", ":"))
            sizes[flat(role)] = sizes.get(flat(role), 0) + len(text)
    assert max(sizes.values()) < 0.8 * POLICY, max(sizes, key=lambda role: sizes[role])


def test_log_groups_of_state_machines_need_no_entry_in_the_resource_policy(example: Synthesis) -> None:
    """A policy of CloudWatch Logs has 5,120 characters for all log groups of an account, except those under
    /aws/vendedlogs/.
    """
    groups = example.resources("AWS::Logs::LogGroup")
    for name, machine in example.resources("AWS::StepFunctions::StateMachine").items():
        (destination,) = machine["Properties"]["LoggingConfiguration"]["Destinations"]
        logical = destination["CloudWatchLogsLogGroup"]["LogGroupArn"]["Fn::GetAtt"][0]
        assert str(flat(groups[logical]["Properties"].get("LogGroupName", ""))).startswith("/aws/vendedlogs/"), name

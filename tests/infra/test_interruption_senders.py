"""Who may send interruption events: a spot warning drains a node regardless of budgets."""

from tests.infra.conftest import Synthesis, flat


def test_only_the_rules_may_send_interruption_events(example: Synthesis) -> None:
    queue = next(name for name in example.resources("AWS::SQS::Queue") if name.startswith("InterruptionQueue"))
    policies = [flat(each["Properties"]) for each in example.resources("AWS::SQS::QueuePolicy").values()]
    (refusal,) = [
        statement
        for policy in policies
        for statement in policy["PolicyDocument"]["Statement"]
        if statement.get("Sid") == "OnlyRules"
    ]

    assert (refusal["Effect"], refusal["Principal"], refusal["Action"]) == ("Deny", {"AWS": "*"}, "sqs:SendMessage")
    assert refusal["Resource"] == f"${{{queue}.Arn}}"
    rules = example.resources("AWS::Events::Rule")
    assert refusal["Condition"] == {"ArnNotEquals": {"aws:SourceArn": [f"${{{name}.Arn}}" for name in rules]}}

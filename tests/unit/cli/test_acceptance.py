"""The order of the steps of an acceptance run, its report, and its documentation."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from botocore.exceptions import ClientError

from joiner.adapters.kube_errors import Unauthorized
from joiner.pools.codecs.declared_objects import read_node_pool
from joiner_cli.acceptance import acceptance_objects
from joiner_cli.acceptance.accept_command import describe_error
from joiner_cli.acceptance.acceptance_report import mask_secrets, render_report
from joiner_cli.acceptance.acceptance_steps import (
    CLEANUP,
    STEPS,
    AcceptanceFailed,
    AcceptanceStep,
    StepResult,
    run_steps,
    wait_for,
)

ROOT = Path(__file__).parents[3]
NAMES = [step.name for step in (*STEPS, CLEANUP)]


def showing(**others: Callable[[AcceptanceStep], str]) -> dict[str, Callable[[AcceptanceStep], str]]:
    """Return actions that succeed, except the given ones."""
    return {name: others.get(name.replace("-", "_"), lambda _: "fine") for name in NAMES}


def ran(**others: Callable[[AcceptanceStep], str]) -> tuple[dict[str, StepResult], bool]:
    reported: list[StepResult] = []
    results, interrupted = run_steps(showing(**others), report=reported.append, explained=describe_error)
    assert reported == results
    return {each.step: each for each in results}, interrupted


def fail(_: AcceptanceStep) -> str:
    raise AcceptanceFailed("no ring", "look at the webhook")


def test_all_steps_run_in_order_and_each_is_reported_when_it_ends() -> None:
    results, interrupted = ran()

    assert list(results) == NAMES
    assert {each.outcome for each in results.values()} == {"shown"}
    assert not interrupted


def test_a_failure_skips_what_needs_it_by_name_and_cleans_up() -> None:
    results, _ = ran(ring=fail)

    assert (results["ring"].message, results["ring"].remedy) == ("no ring", "look at the webhook")
    assert (results["node-up"].outcome, results["node-up"].message) == ("skipped", "needs ring")
    assert (results["node-down"].outcome, results["node-down"].message) == ("skipped", "needs node-up")
    assert results["token"].outcome == results["cleanup"].outcome == "shown"


def test_an_interruption_skips_all_but_the_cleanup() -> None:
    def interrupt(_: AcceptanceStep) -> str:
        raise KeyboardInterrupt

    results, interrupted = ran(node_up=interrupt)

    assert interrupted
    assert {name: results[name].outcome for name in NAMES[-3:]} == {
        "node-up": "failed",
        "node-down": "skipped",
        "cleanup": "shown",
    }
    assert results["node-down"].message == "the run was interrupted"


@pytest.mark.parametrize(
    ("error", "text", "remedy"),
    [
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "X"), "AWS refuses: no", "docs/command.md"),
        (
            Unauthorized("401"),
            "the API server denies your request",
            "AmazonEKSClusterAdminPolicy: docs/first-account.md",
        ),
        (ValueError("odd"), "ValueError: odd", "a defect of the command"),
    ],
)
def test_an_unexpected_error_is_a_failure_with_a_remedy(error: Exception, text: str, remedy: str) -> None:
    def break_down(_: AcceptanceStep) -> str:
        raise error

    results, _ = ran(token=break_down)

    assert results["token"].outcome == "failed"
    assert text in results["token"].message
    assert remedy in results["token"].remedy


def test_a_step_has_a_time_limit_and_reports_what_was_missing() -> None:
    times = iter([0.0, 1.0, 3.0])

    with pytest.raises(AcceptanceFailed, match=r"not within 2 s: 1 of 2 nodes") as failed:
        wait_for(
            lambda: "",
            AcceptanceStep("x", "", 2),
            missing=lambda: "1 of 2 nodes",
            remedy="wait",
            every=0,
            clock=lambda: next(times),
        )
    assert failed.value.remedy == "wait"


def test_all_report_formats_have_the_same_content_without_accounts_and_secrets() -> None:
    secret = "k8s-aws-v1.aHR0cHM6Ly9zdHM"
    results = [
        StepResult(
            "token",
            "failed",
            f"arn:aws:iam::123456789012:role/x sent {secret}",
            "https://a/ring/abcdefghijklmnopqrstuvw/pods",
        )
    ]

    texts = {form: render_report(results, {"cluster": "prod"}, form) for form in ("table", "json", "yaml")}

    assert json.loads(texts["json"]) == yaml.safe_load(texts["yaml"])
    for text in texts.values():
        assert "123456789012" not in text
        assert secret not in text
        assert "abcdefghijklmnopqrstuvw" not in text
        assert "arn:aws:iam::************:role/x sent ..." in text


def test_other_numbers_are_not_masked() -> None:
    assert (
        mask_secrets("i-0123456789abcdef0 1732320000123 12345678901") == "i-0123456789abcdef0 1732320000123 12345678901"
    )


def test_the_documentation_lists_the_steps_of_the_program_in_order() -> None:
    page = (ROOT / "docs/first-account.md").read_text(encoding="utf-8")

    assert re.findall(r"^\| `([\w-]+)` \|", page, flags=re.MULTILINE) == NAMES


def test_the_pool_and_the_pod_match_only_each_other() -> None:
    pool, pod = (
        read_node_pool(acceptance_objects.build_node_pool("1", "default")),
        acceptance_objects.build_pod("1", acceptance_objects.PAUSE),
    )

    assert pod["spec"]["nodeSelector"] == pool.labels == {acceptance_objects.KEY: "1"}
    assert [(taint.key, taint.value, taint.effect) for taint in pool.taints] == [
        (acceptance_objects.KEY, "1", "NoSchedule")
    ]
    assert pod["spec"]["tolerations"] == [
        {"key": acceptance_objects.KEY, "operator": "Equal", "value": "1", "effect": "NoSchedule"}
    ]


def test_a_pool_that_names_the_label_is_found() -> None:
    other = {
        "metadata": {"name": "other"},
        "spec": {"template": {"spec": {"requirements": [{"key": acceptance_objects.KEY, "operator": "Exists"}]}}},
    }

    assert acceptance_objects.pools_naming_label([{"metadata": {"name": "free"}, "spec": {}}, other]) == ["other"]

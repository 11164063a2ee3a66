"""Checks of the templates of all clusters by cfn-lint and cdk-nag. `make check` runs them.

cfn-lint checks templates against CloudFormation's schemas and documentation. The definition of a state machine is a
text with references, which no linter reads, so it is rendered as an object first. cdk-nag's AwsSolutions pack checks
the constructs; `nag_suppressions.py` has a reason for each finding that is accepted. A synthesis for a deployment runs
neither.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
if __name__ == "__main__":
    os.environ.pop("CDK_VALIDATION", None)  # tests set it to "false", which turns cdk-nag off

from infra.nag_suppressions import SUPPRESSIONS, NagFinding, NagSuppression
from infra.settings import load_settings

ROOT: Final = Path(__file__).parent.parent

IGNORED: Final = {"W3005": "CDK writes a DependsOn in addition to references that imply it"}
"""Rules of cfn-lint that do not apply, and why."""


def main(names: Sequence[str]) -> int:
    """Check the clusters of these names, all clusters by default. Return 1 if anything is found."""
    names = names or sorted(path.stem for path in (ROOT / "clusters").glob("*.yaml"))
    with tempfile.TemporaryDirectory(prefix="joiner-lint-") as work:
        stacks = [synthesise(name, Path(work) / name) for name in names]
        findings = [finding for _, found in stacks for finding in found]
        messages = [
            f"cdk-nag: {finding} has no reason in infra/nag_suppressions.py"
            for finding in without_reason(findings, SUPPRESSIONS)
        ]
        messages += [
            f"cdk-nag: no finding needs the reason for {reason.rule} any more"
            for reason in without_finding(findings, SUPPRESSIONS)
        ]
        messages += cfn_lint([template for template, _ in stacks])
    for line in messages:
        print(line)
    explained = len(findings) - len(without_reason(findings, SUPPRESSIONS))
    print(
        f"linters: {', '.join(names)}: {len(messages)} to fix; "
        f"cdk-nag: {explained} findings have one of {len(SUPPRESSIONS)} reasons"
    )
    return 1 if messages else 0


def synthesise(name: str, folder: Path) -> tuple[Path, list[NagFinding]]:
    """Return the template of a cluster, with its state machines as objects, and the findings of cdk-nag in its
    stack."""
    # jsii reads its environment when it starts, which takes seconds: the other functions need no CDK
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    from infra.cluster_stack import ClusterStack

    flags: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(context=flags, outdir=str(folder), analytics_reporting=False)
    stack = ClusterStack(app, load_settings(ROOT / "clusters" / f"{name}.yaml"))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        # The CDK prints all findings, those that have a reason, too: hundreds
        with contextlib.redirect_stderr(printed):
            app.synth()
    except RuntimeError as reason:  # jsii raises one class for all errors
        if "Validation failed" not in str(reason):
            printed.seek(0)
            sys.stderr.write(printed.read())
            raise
    path = folder / f"{stack.stack_name}.template.json"
    path.write_text(
        json.dumps(with_definitions(json.loads(path.read_text(encoding="utf-8"))), indent=1), encoding="utf-8"
    )
    return path, nag_findings(json.loads((folder / "validation-report.json").read_text(encoding="utf-8")))


def nag_findings(report: Mapping[str, Any]) -> list[NagFinding]:
    """Return every construct of every violation of a report, those of cdk-nag and of the CDK."""
    return [
        NagFinding(violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


def without_reason(findings: Iterable[NagFinding], reasons: Sequence[NagSuppression]) -> list[NagFinding]:
    """Return the findings that no suppression explains."""
    return [finding for finding in findings if not any(reason.explains(finding) for reason in reasons)]


def without_finding(findings: Sequence[NagFinding], reasons: Iterable[NagSuppression]) -> list[NagSuppression]:
    """Return the suppressions that explain no finding."""
    return [reason for reason in reasons if reason.always and not any(reason.explains(finding) for finding in findings)]


def with_definitions(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template with the definition of each state machine as an object instead of a text."""
    return {**template, "Resources": {name: _with_definition(each) for name, each in template["Resources"].items()}}


def _with_definition(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    if resource["Type"] != "AWS::StepFunctions::StateMachine":
        return resource
    properties = dict(resource["Properties"])
    definition = json.loads(_as_text(properties.pop("DefinitionString")), object_hook=_with_times)
    return {**resource, "Properties": properties | {"Definition": definition}}


def _with_times(state: dict[str, Any]) -> dict[str, Any]:
    """Replace expressions in a task's timeouts: cfn-lint 1.58 does not know them, but JSONata states may have them.

    Source: https://docs.aws.amazon.com/step-functions/latest/dg/state-task.html

    >>> _with_times({"Type": "Task", "TimeoutSeconds": "{% $seconds %}"})
    {'Type': 'Task', 'TimeoutSeconds': 1}
    """
    limits = ("TimeoutSeconds", "HeartbeatSeconds")
    return {key: 1 if key in limits and str(value).startswith("{%") else value for key, value in state.items()}


def _as_text(value: Any) -> str:
    """Return a text in which references are replaced by example ARNs.

    >>> _as_text({"Fn::Join": ["", ["a", {"Ref": "Table"}]]})
    'aarn:aws:lambda:eu-west-1:123456789012:function:Table'
    """
    match value:
        case {"Fn::Join": [str(between), list(parts)]}:
            return between.join(map(_as_text, parts))
        case {"Ref": "AWS::Partition"}:
            return "aws"
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), str(_)]}:
            return f"arn:aws:lambda:eu-west-1:123456789012:function:{name}"
        case str():
            return value
        case _:
            raise ValueError(f"a definition with {value}")


def cfn_lint(templates: Sequence[Path]) -> list[str]:
    """Return the findings of cfn-lint in the templates, one line each: rule, place, text."""
    program = str(Path(sys.executable).parent / "cfn-lint")
    command = [program, "--format", "parseable", "--ignore-checks", *IGNORED, "--template"]
    done = subprocess.run([*command, *map(str, templates)], capture_output=True, text=True, check=False)
    if done.returncode and not done.stdout:
        return [f"cfn-lint ended with {done.returncode}: {done.stderr.strip()}"]
    return [f"cfn-lint: {line}" for line in done.stdout.splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""AWS's own rules for what is deployed: cfn-lint and cdk-nag over the templates of all clusters' settings. Run by `make check`.

cfn-lint reads templates as CloudFormation's schemas and documentation have them. A state machine's definition is a text with references
in a template, which no linter reads: it is rendered as an object first. cdk-nag's AwsSolutions pack reads the constructs;
`nag_suppressions.py` says why each of its findings stays. Synthesis for a deployment runs neither.
"""

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
    os.environ.pop("CDK_VALIDATION", None)  # "false", which tests say, would turn cdk-nag off

import aws_cdk as cdk  # jsii reads its environment when it starts

from infra.cluster_stack import ClusterStack
from infra.nag_suppressions import SUPPRESSIONS, NagFinding, NagSuppression
from infra.settings import load_settings

ROOT: Final = Path(__file__).parent.parent

IGNORED: Final = {"W3005": "CDK writes a DependsOn beside many a reference that says the same"}
"""Rules of cfn-lint that do not apply, and why."""


def main(names: Sequence[str]) -> int:
    """Check the clusters of these names, all that there are by default; 1 if anything is found."""
    names = names or sorted(path.stem for path in (ROOT / "clusters").glob("*.yaml"))
    with tempfile.TemporaryDirectory(prefix="joiner-lint-") as work:
        stacks = [synthesise(name, Path(work) / name) for name in names]
        findings = [finding for _, found in stacks for finding in found]
        said = [
            f"cdk-nag: {finding} has no reason in infra/nag_suppressions.py"
            for finding in without_reason(findings, SUPPRESSIONS)
        ]
        said += [
            f"cdk-nag: no finding needs the reason for {reason.rule} any more"
            for reason in without_finding(findings, SUPPRESSIONS)
        ]
        said += cfn_lint([template for template, _ in stacks])
    for line in said:
        print(line)
    explained = len(findings) - len(without_reason(findings, SUPPRESSIONS))
    print(
        f"linters: {', '.join(names)}: {len(said)} to repair; cdk-nag: {explained} findings have one of {len(SUPPRESSIONS)} reasons"
    )
    return 1 if said else 0


def synthesise(name: str, folder: Path) -> tuple[Path, list[NagFinding]]:
    """The template of a cluster with its state machines as objects, and what cdk-nag finds in its stack."""
    from cdk_nag import AwsSolutionsChecks

    flags: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(context=flags, outdir=str(folder), analytics_reporting=False)
    stack = ClusterStack(app, load_settings(ROOT / "clusters" / f"{name}.yaml"))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as reason:  # jsii has one class for all errors
        if "Validation failed" not in str(reason):
            raise
    path = folder / f"{stack.stack_name}.template.json"
    path.write_text(
        json.dumps(with_definitions(json.loads(path.read_text(encoding="utf-8"))), indent=1), encoding="utf-8"
    )
    return path, nag_findings(json.loads((folder / "validation-report.json").read_text(encoding="utf-8")))


def nag_findings(report: Mapping[str, Any]) -> list[NagFinding]:
    """Every construct of every violation, cdk-nag's and CDK's own."""
    return [
        NagFinding(violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


def without_reason(findings: Iterable[NagFinding], reasons: Sequence[NagSuppression]) -> list[NagFinding]:
    """Those that nothing explains."""
    return [finding for finding in findings if not any(reason.explains(finding) for reason in reasons)]


def without_finding(findings: Sequence[NagFinding], reasons: Iterable[NagSuppression]) -> list[NagSuppression]:
    """Those that explain nothing (any more)."""
    return [reason for reason in reasons if reason.always and not any(reason.explains(finding) for finding in findings)]


def with_definitions(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template with each state machine's definition as an object instead of a text."""
    return {**template, "Resources": {name: _with_definition(each) for name, each in template["Resources"].items()}}


def _with_definition(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    if resource["Type"] != "AWS::StepFunctions::StateMachine":
        return resource
    properties = dict(resource["Properties"])
    definition = json.loads(_as_text(properties.pop("DefinitionString")), object_hook=_with_times)
    return {**resource, "Properties": properties | {"Definition": definition}}


def _with_times(state: dict[str, Any]) -> dict[str, Any]:
    """cfn-lint 1.58 knows no expressions for a task's limits, which JSONata states may have.
    https://docs.aws.amazon.com/step-functions/latest/dg/state-task.html

    >>> _with_times({"Type": "Task", "TimeoutSeconds": "{% $seconds %}"})
    {'Type': 'Task', 'TimeoutSeconds': 1}
    """
    limits = ("TimeoutSeconds", "HeartbeatSeconds")
    return {key: 1 if key in limits and str(value).startswith("{%") else value for key, value in state.items()}


def _as_text(value: Any) -> str:
    """A text with references as ARNs that nobody has.

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
    """What cfn-lint says of the templates, one line a finding: rule, place, text."""
    program = str(Path(sys.executable).parent / "cfn-lint")
    command = [program, "--format", "parseable", "--ignore-checks", *IGNORED, "--template"]
    done = subprocess.run([*command, *map(str, templates)], capture_output=True, text=True, check=False)
    if done.returncode and not done.stdout:
        return [f"cfn-lint ended with {done.returncode}: {done.stderr.strip()}"]
    return [f"cfn-lint: {line}" for line in done.stdout.splitlines() if line.strip()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

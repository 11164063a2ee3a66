"""The command line of `joiner accept`."""

import importlib.metadata
import secrets
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from joiner_cli.acceptance.acceptance_objects import PAUSE
from joiner_cli.acceptance.acceptance_report import all_passed, render_report, render_step
from joiner_cli.acceptance.acceptance_steps import (
    CLEANUP,
    STEPS,
    AcceptanceFailed,
    AcceptanceStep,
    StepResult,
    run_steps,
)
from joiner_cli.deployed_stack import Cluster, DeployedStack, Region, commentary, exit_with_error
from joiner_cli.unexpected_errors import INTERRUPTED

NOT_SHOWN: Final = 2


class ReportFormat(StrEnum):
    """How the result is shown."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def accept_command(  # noqa: PLR0917  typer calls it by keyword
    cluster: Cluster,
    region: Region = None,
    node_class: Annotated[str, typer.Option(metavar="NAME", help="EC2NodeClass of the node.")] = "default",
    image: Annotated[str, typer.Option(metavar="IMAGE", help="Image of the pod that runs on the node.")] = PAUSE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Stop before creating anything in the cluster or in EC2.")
    ] = False,
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="How to show the result.")
    ] = ReportFormat.TABLE,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the result to this file, too.")
    ] = None,
) -> None:
    """Test a deployed Joiner on its real account; launch and terminate one small node.

    Costs less than 5 US cents: one small instance for a few minutes. Exit code 0: every step passed. 2: a step failed.
    1: no Joiner is deployed for the cluster, or a call to AWS failed. 130: interrupted; everything that the run created
    is removed.
    """
    from joiner_cli.acceptance.acceptance_run import AcceptanceRun, connect_api_server

    here = DeployedStack.find(cluster, region)
    if report is not None and not report.parent.is_dir():
        exit_with_error(f"{report}: there is no folder {report.parent}")
    run = AcceptanceRun(here, connect_api_server(here), secrets.token_hex(4), node_class, image)
    began = datetime.now(UTC)
    results, interrupted = _run_steps(run.actions(), output, dry_run=dry_run)
    about = {
        "joiner": importlib.metadata.version("joiner"),
        "cluster": cluster,
        "region": here.region,
        "began": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "run": run.run,
    }
    _write_report(results, about, output, report)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if all_passed(results) else NOT_SHOWN)


def _run_steps(
    actions: Mapping[str, Callable[[AcceptanceStep], str]], output: ReportFormat, *, dry_run: bool
) -> tuple[list[StepResult], bool]:
    """Run the steps and show each result. SIGTERM ends them as Ctrl-C does, so that the run is cleaned up."""

    def report(result: StepResult) -> None:
        if output is ReportFormat.TABLE:
            typer.echo(render_step(result))
        else:
            commentary.print(render_step(result))

    until = [step.name for step in STEPS].index("ring") if dry_run else len(STEPS)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run_steps(actions, report=report, explained=describe_error, steps=(*STEPS[:until], CLEANUP))
    finally:
        signal.signal(signal.SIGTERM, before)


def _write_report(results: list[StepResult], about: dict[str, str], output: ReportFormat, report: Path | None) -> None:
    if output is not ReportFormat.TABLE:
        typer.echo(render_report(results, about, output))
    if report is None:
        return
    form = "json" if output is ReportFormat.TABLE else str(output)
    try:
        report.write_text(render_report(results, about, form) + "\n", encoding="utf-8")
    except OSError as error:
        exit_with_error(f"{report} cannot be written: {error.strerror}")
    commentary.print(f"The report is in {report}; it holds no secrets, and account numbers are masked")


def describe_error(error: Exception) -> AcceptanceFailed:
    """Describe an unexpected error of a step, with a remedy."""
    from joiner.adapters.ec2_errors import Ec2Error
    from joiner.adapters.kube_errors import Forbidden, KubeError, Unauthorized, Unreachable
    from joiner_cli.aws_errors import AWS_ERRORS, describe_aws_error

    cause = error.__cause__ if isinstance(error, Ec2Error) and isinstance(error.__cause__, Exception) else error
    remedy = "docs/command.md lists the permissions of this command"
    match cause:
        case _ if isinstance(cause, AWS_ERRORS):
            return AcceptanceFailed(describe_aws_error(cause, needs="the permissions of this command"), remedy)
        case Unauthorized() | Forbidden():
            return AcceptanceFailed(
                f"the API server denies your request: {cause}",
                "give your role an access entry with AmazonEKSClusterAdminPolicy: docs/first-account.md, also for the "
                "local stack",
            )
        case Unreachable():
            return AcceptanceFailed(
                f"the API server does not answer: {cause}",
                "a private endpoint answers only inside its VPC: run this command there",
            )
        case KubeError():
            return AcceptanceFailed(f"the API server returned an error: {cause}", "inspect the object with kubectl")
        case _:
            return AcceptanceFailed(f"{type(cause).__name__}: {cause}", "this is a defect of the command: report it")

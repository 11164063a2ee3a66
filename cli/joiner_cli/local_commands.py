"""The commands `joiner local`: an EKS cluster and its AWS account on this machine, to try NodePools without a real
cluster.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from joiner_cli.local_executions import ExecutionUnknown, describe_execution, list_executions
from joiner_local.control_plane.control_plane_binaries import BinariesMissing
from joiner_local.knob_client import KnobRefused, KnobUnknown
from joiner_local.stack.cdk_deployment import Deployment, DeploymentFailed
from joiner_local.stack.stack_control import AGENT, REPOSITORY, LocalStack, StackFailed
from joiner_local.stack.stack_processes import ProgramFailed
from joiner_local.tooling.command_progress import StepFailed
from joiner_local.tooling.toolchains import ToolMissing

app = typer.Typer(no_args_is_help=True, help="An EKS cluster and its AWS account on this machine.")

commentary = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def _absolute_path(folder: Path) -> Path:
    """Return the folder as an absolute path; a wrong command line if the working folder does not exist any more."""
    try:
        return folder.absolute()
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{folder}: the working folder does not exist: name an absolute path") from error


Root = Annotated[
    Path,
    typer.Option(
        "--root",
        help="Folder of the stack; each folder is a separate stack.",
        show_default=".local",
        callback=_absolute_path,
    ),
]
DEFAULT_ROOT = REPOSITORY / ".local"


@contextmanager
def _failures_reported() -> Iterator[None]:
    """Turn expected failures into one line and exit code 1; joiner_cli.app reports other exceptions."""
    try:
        yield
    except (
        StackFailed,
        DeploymentFailed,
        ProgramFailed,
        StepFailed,
        ToolMissing,
        BinariesMissing,
        KnobRefused,
        ExecutionUnknown,
    ) as error:
        commentary.print(f"joiner: {error}")
        raise typer.Exit(1) from error
    except OSError as error:
        if error.filename is None:
            raise
        commentary.print(f"joiner: {error.filename}: {error.strerror}")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        commentary.print("joiner: interrupted")
        raise typer.Exit(130) from error


@app.command()
def up(
    root: Root = DEFAULT_ROOT,
    deploy: Annotated[bool, typer.Option(help="Deploy this checkout's app into it.")] = True,
    boot_seconds: Annotated[
        float | None,
        typer.Option(help="Seconds from an instance's launch to its Node.", show_default="5", min=0.0),
    ] = None,
) -> None:
    """Start the stack in the background and deploy into it. If it runs already, only deploy."""
    with _failures_reported():
        stack = LocalStack(root, boot_seconds=boot_seconds, say=commentary.print)
        deployment = Deployment(REPOSITORY, stack.root, say=commentary.print)
        if not stack.is_running:
            stack.start(meanwhile=deployment.begin_synthesis if deploy else lambda: None)
        try:
            outputs = stack.deploy(deployment) if deploy else {}
        except KeyboardInterrupt:
            stack.stop()
            raise
        finally:
            stack.detach()  # the stack survives a failed deployment: inspect it, or deploy again
    for name, value in outputs.items():
        if name.endswith("Console"):
            continue  # links to the AWS console, which does not show this stack
        commentary.print(f"  {name} = {value}")
    for name, value in stack.environment().items():
        typer.echo(f"{name}={value}")
    commentary.print(f"To use it: set -a; . {_relative_path(stack.root / 'env')}; set +a; kubectl get nodes")


@app.command()
def down(root: Root = DEFAULT_ROOT) -> None:
    """Stop the stack, or what a crash left of it."""
    with _failures_reported():
        found = LocalStack(root).stop()
    commentary.print("the stack is stopped" if found else "no stack was running")


@app.command(short_help="Show whether the stack runs, and its addresses.")
def status(root: Root = DEFAULT_ROOT) -> None:
    """Show whether the stack runs, and its addresses; exit code 1 if it does not run."""
    stack = LocalStack(root)
    record = stack.record()
    if record is None or not stack.is_running:
        reason = f": {record.error}" if record and record.error else ""
        commentary.print(f"no stack is ready in {_relative_path(stack.root)}{reason}")
        raise typer.Exit(1)
    fields: dict[str, Any] = {"cluster": record.cluster, "since": record.started, "process": record.supervisor.pid}
    fields |= {
        "aws": record.aws,
        "apiServer": record.api_server,
        "nodeAgent": record.node_agent,
        "kubeconfig": str(stack.kubeconfig),
    }
    for name, value in fields.items():
        typer.echo(f"{name:<12}{value}")


@app.command("fire-sweep")
def fire_sweep(root: Root = DEFAULT_ROOT) -> None:
    """Run the sweep now instead of at the next minute."""
    with _failures_reported():
        typer.echo(json.dumps(LocalStack(root).fire_sweep()))


@app.command(short_help="Change what the local AWS simulates.")
def knob(
    name: Annotated[
        str,
        typer.Argument(help="Name of the knob; an unknown name lists all. Names of the node agent begin with agent/."),
    ],
    request: Annotated[str, typer.Argument(help="A JSON object.")] = "{}",
    root: Root = DEFAULT_ROOT,
) -> None:
    """Change what the local AWS simulates: capacity, prices, interruptions, boot times, faults."""
    try:
        asked = json.loads(request)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise typer.BadParameter(f"{request} is not a JSON object: write {{...}}")
    with _failures_reported():
        stack = LocalStack(root)
        try:
            answer = (
                stack.agent_knob(name.removeprefix(AGENT), asked) if name.startswith(AGENT) else stack.knob(name, asked)
            )
        except KnobUnknown as unknown:
            raise KnobUnknown(name, stack.knobs()) from unknown
        typer.echo(json.dumps(answer, indent=2))


@app.command(short_help="List executions of state machines, or the states of one.")
def executions(
    name: Annotated[
        str | None, typer.Argument(help="Name of an execution.", show_default="the newest of each machine")
    ] = None,
    root: Root = DEFAULT_ROOT,
) -> None:
    """List the newest executions of each state machine, or the states that one has entered, with their durations."""
    with _failures_reported():
        states = LocalStack(root).client("stepfunctions")
        for line in describe_execution(states, name) if name else list_executions(states, datetime.now(UTC)):
            typer.echo(line)


def _relative_path(path: Path) -> Path:
    with suppress(OSError):  # the working folder does not exist any more
        return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return path

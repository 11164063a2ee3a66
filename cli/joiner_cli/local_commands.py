"""`joiner local`: a whole EKS cluster and its AWS account on this machine, to try NodePools on before they touch a real one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from joiner_local.aws_knobs import KnobRefused, KnobUnknown
from joiner_local.binaries import BinariesMissing
from joiner_local.deployment import Deployment, DeploymentFailed
from joiner_local.processes import ProgramFailed
from joiner_local.progress import StepFailed
from joiner_local.stack import AGENT, REPOSITORY, Stack, StackFailed
from joiner_local.toolchains import ToolMissing

app = typer.Typer(no_args_is_help=True, help="A whole EKS cluster and its AWS account on this machine.")

commentary = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

Root = Annotated[
    Path, typer.Option("--root", help="Folder of the stack; each folder is a stack of its own.", show_default=".local")
]
DEFAULT_ROOT = REPOSITORY / ".local"


@contextmanager
def _failures_reported() -> Iterator[None]:
    """What can go wrong outside this program is one message and exit code 1; a traceback is for our own mistakes."""
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
        typer.Option(help="From an instance's launch to its node's first sign.", show_default="5", min=0.0),
    ] = None,
) -> None:
    """Start the stack and deploy into it; it stays up. If it is up already, only deploy."""
    with _failures_reported():
        stack = Stack(root, boot_seconds=boot_seconds, say=commentary.print)
        deployment = Deployment(REPOSITORY, stack.root, say=commentary.print)
        if not stack.is_running:
            stack.start(meanwhile=deployment.begin_synthesis if deploy else lambda: None)
        try:
            outputs = stack.deploy(deployment) if deploy else {}
        except KeyboardInterrupt:
            stack.stop()
            raise
        finally:
            stack.detach()  # a failed deployment leaves the stack, to look at and to deploy into again
    for name, value in outputs.items():
        if name.endswith("Console"):
            continue  # links into the real console, where this stack is not
        commentary.print(f"  {name} = {value}")
    for name, value in stack.environment().items():
        typer.echo(f"{name}={value}")
    commentary.print(f"To use it: set -a; . {_relative_path(stack.root / 'env')}; set +a; kubectl get nodes")


@app.command()
def down(root: Root = DEFAULT_ROOT) -> None:
    """End the stack, or what a crash left of it."""
    with _failures_reported():
        found = Stack(root).stop()
    commentary.print("the stack is down" if found else "nothing to end")


@app.command()
def status(root: Root = DEFAULT_ROOT) -> None:
    """Whether the stack runs, and where; exit code 1 if it does not."""
    stack = Stack(root)
    record = stack.record()
    if record is None or not stack.is_running:
        reason = f": {record.error}" if record and record.error else ""
        commentary.print(f"no stack is ready in {_relative_path(stack.root)}{reason}")
        raise typer.Exit(1)
    told: dict[str, Any] = {"cluster": record.cluster, "since": record.started, "process": record.supervisor.pid}
    told |= {
        "aws": record.aws,
        "apiServer": record.api_server,
        "nodeAgent": record.node_agent,
        "kubeconfig": str(stack.kubeconfig),
    }
    for name, value in told.items():
        typer.echo(f"{name:<12}{value}")


@app.command("fire-sweep")
def fire_sweep(root: Root = DEFAULT_ROOT) -> None:
    """Run the sweep now instead of at the next full minute."""
    with _failures_reported():
        typer.echo(json.dumps(Stack(root).fire_sweep()))


@app.command()
def knob(
    name: Annotated[
        str, typer.Argument(help="Which; a wrong name lists all. Those of the node agent begin with agent/.")
    ],
    request: Annotated[str, typer.Argument(help="A JSON object.")] = "{}",
    root: Root = DEFAULT_ROOT,
) -> None:
    """Turn the weather: capacity, prices, interruptions, boot times, faults."""
    try:
        asked = json.loads(request)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise typer.BadParameter(f"{request} is no JSON object: write {{...}}")
    with _failures_reported():
        stack = Stack(root)
        try:
            answer = (
                stack.agent_knob(name.removeprefix(AGENT), asked) if name.startswith(AGENT) else stack.knob(name, asked)
            )
        except KnobUnknown as unknown:
            raise KnobUnknown(name, stack.knobs()) from unknown
        typer.echo(json.dumps(answer, indent=2))


def _relative_path(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path

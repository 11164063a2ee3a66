"""The commands of `joiner`: results on stdout, commentary on stderr.

Exit codes: 0, the command succeeded; 1, the command failed or the command line is wrong, and stderr says why; 2, pods
stay pending or nodes are not launched; 3, an unexpected error (``unexpected_errors``).
"""

import importlib.metadata
import importlib.util
from typing import Annotated

import typer

from joiner_cli import admission_command, cost_command, pause_commands, plan_commands, status_command, uninstall_command
from joiner_cli.acceptance.accept_command import accept_command
from joiner_cli.explain_node_command import explain_node_command
from joiner_cli.usage_errors import word_usage_errors

app = typer.Typer(
    name="joiner",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same in a terminal, in a pipe and in the docs
    pretty_exceptions_enable=False,  # joiner_cli.app reports unexpected errors in one line
    help="Nodes for EKS clusters, with nothing running in the cluster.",
)

word_usage_errors()

# Click cuts off the short help of a command after 57 characters, in a terminal of 80 columns.
app.command("plan", short_help="Show the nodes that manifests would get.")(plan_commands.plan_command)
app.command("catalogue")(plan_commands.catalogue_command)
plan_commands.explain_app.command("node", short_help="Explain why a node was removed, or why it stays.")(
    explain_node_command
)
app.add_typer(plan_commands.explain_app, name="explain", short_help="Show the reasons for a pod's or node's place.")
app.command("cost", short_help="Show what the nodes of a cluster cost.")(cost_command.cost_command)
app.command("status")(status_command.status_command)
app.command("pause")(pause_commands.pause_command)
app.command("resume")(pause_commands.resume_command)
app.command("admit-installer", short_help="Let Joiner into a cluster with aws-auth only.")(
    admission_command.admit_installer_command
)
app.command("accept", short_help="Test a deployment with one small node.")(accept_command)
app.command("uninstall", short_help="Drain or keep the nodes before `cdk destroy`.")(
    uninstall_command.uninstall_command
)

# The local stack comes with a checkout, not with every installation.
if importlib.util.find_spec("joiner_local"):
    from joiner_cli import local_commands

    app.add_typer(local_commands.app, name="local")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"joiner {importlib.metadata.version('joiner')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Nodes for EKS clusters, with nothing running in the cluster."""

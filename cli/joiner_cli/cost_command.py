"""The command `joiner cost`: what the nodes of a cluster cost, by pool, from a dump."""

from enum import StrEnum
from typing import Annotated

import typer

from joiner_cli.cluster_cost import cost_of_manifests
from joiner_cli.manifest_plan import PlanRequest
from joiner_cli.plan_commands import (
    CatalogueFile,
    CatalogueRegion,
    Deadline,
    Files,
    Prices,
    Seed,
    SettingsFile,
    WhichPrices,
    input_errors_reported,
    print_cut_short,
    print_inputs,
    print_problems,
)
from joiner_cli.rendering.cost_table import render_cost_table
from joiner_cli.rendering.standard_output import print_result
from joiner_cli.rendering.structured_output import render_json, render_yaml
from joiner_cli.settings_limits import read_limits


class CostFormat(StrEnum):
    """How the cost is shown."""

    table = "table"
    json = "json"
    yaml = "yaml"


def cost_command(  # noqa: PLR0917 - typer reads the options off the parameters
    files: Files,
    catalogue: CatalogueFile = None,
    region: CatalogueRegion = None,
    deadline: Deadline = 1.0,
    seed: Seed = 0,
    settings: SettingsFile = None,
    prices: WhichPrices = Prices.whole,
    output: Annotated[CostFormat, typer.Option("--output", "-o", help="How to show it.")] = CostFormat.table,
) -> None:
    """Show what the nodes of a cluster cost, by pool, and what its pods would cost on new nodes.

    The manifests are those of a dump. Exit code 0: the cost is shown. 1: some input is invalid; the cost leaves it
    out.
    """
    with input_errors_reported():
        limits = read_limits(settings)
        found = cost_of_manifests(
            PlanRequest(tuple(files), catalogue, region, deadline, seed, limits, prices is Prices.instance)
        )
        print_problems(found.problems, found.inputs.manifests.where)
        if found.anew is not None:
            print_cut_short(found.anew)
        print_inputs(found.inputs.catalogue, found.inputs.manifests)
        match output:
            case CostFormat.table:
                print_result(render_cost_table(found))
            case CostFormat.json:
                print_result(render_json(found.to_json()))
            case CostFormat.yaml:
                print_result(render_yaml(found.to_json()))
        raise typer.Exit(1 if found.errors else 0)

"""`joiner plan`, `joiner catalogue`, `joiner explain`: what would happen, without AWS and without a cluster."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from joiner.catalogue import near_types
from joiner_cli.catalogue_files import load_catalogue
from joiner_cli.manifest_plan import ManifestPlan, PlanRequest, plan_manifests, problem_lines
from joiner_cli.manifests import UnreadableInput
from joiner_cli.pod_explanation import UnknownPod, explain_pod
from joiner_cli.rendering.catalogue_table import render_catalogue_table
from joiner_cli.rendering.plan_page import render_plan_page
from joiner_cli.rendering.plan_table import render_plan_table
from joiner_cli.rendering.standard_output import print_result

MAX_REPORTED_PROBLEMS: Final = 50
"""So many are told; whoever has more has one mistake many times."""


class PlanFormat(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"
    html = "html"


class CatalogueFormat(StrEnum):
    table = "table"
    json = "json"


Files = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f", metavar="FILE|DIR", help="Manifests: YAML or JSON, folders with them, or - for stdin."
    ),
]
CatalogueFile = Annotated[
    Path | None,
    typer.Option(
        "--catalogue", metavar="FILE", help="Instance types and prices, as `joiner catalogue -o json` prints them."
    ),
]
Region = Annotated[
    str | None, typer.Option("--region", metavar="REGION", help="Offer only what this region has.", show_default=False)
]
Deadline = Annotated[
    float,
    typer.Option("--deadline", metavar="SECONDS", min=0.01, max=3600.0, help="How long to look for a cheaper plan."),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed", metavar="NUMBER", min=0, help="Decides between plans that look alike; the same seed, the same plan."
    ),
]


def plan_command(  # noqa: PLR0917 - typer reads the options off the parameters
    files: Files,
    catalogue: CatalogueFile = None,
    region: Region = None,
    deadline: Deadline = 1.0,
    seed: Seed = 0,
    output: Annotated[PlanFormat, typer.Option("--output", "-o", help="How to show it.")] = PlanFormat.table,
) -> None:
    """Show which nodes these manifests would get, and their price.

    The plan says how far it is from the proven minimum, and for each pod that stays pending what keeps it out of each pool.
    Exit code 0: every pod has a place. 2: some stay pending. 1: something could not be read; the plan is without it.
    """
    with _input_errors_reported():
        found = plan_manifests(PlanRequest(tuple(files), catalogue, region, deadline, seed))
        _print_commentary(found)
        if not (found.errors and found.empty and output in (PlanFormat.table, PlanFormat.html)):
            print_result(_render(found, output))
        raise typer.Exit(found.exit_code)


def catalogue_command(
    types: Annotated[
        list[str] | None, typer.Argument(metavar="TYPE", help="Only these; * stands for anything (m7*.large).")
    ] = None,
    catalogue: CatalogueFile = None,
    region: Region = None,
    output: Annotated[
        CatalogueFormat, typer.Option("--output", "-o", help="How to show it.")
    ] = CatalogueFormat.table,
) -> None:
    """List instance types: what their nodes carry, hold and cost."""
    with _input_errors_reported():
        found = load_catalogue(catalogue, region)
        chosen, unknown = found.select(types or [])
        if unknown:
            near = dict.fromkeys(name for one in unknown for name in near_types(one, found.catalogue.types)[:1])
            asked = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UnreadableInput(" ".join(unknown), "no instance type is called so", f"see `joiner catalogue`{asked}")
        number = _number(len(chosen.types), "instance type")
        _print_to_stderr(f"catalogue: {found.source}, {f'facts of {found.dated}, ' if found.dated else ''}{number}")
        print_result(
            json.dumps(chosen.to_json(), indent=1) if output is CatalogueFormat.json else render_catalogue_table(chosen)
        )


explain_app = typer.Typer(no_args_is_help=True, help="Why a pod is where it is, or nowhere.")


@explain_app.command("pod")
def explain_pod_command(  # noqa: PLR0917 - typer reads the options off the parameters
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pod: namespace/name, or its name alone.")],
    files: Files,
    catalogue: CatalogueFile = None,
    region: Region = None,
    deadline: Deadline = 1.0,
    seed: Seed = 0,
) -> None:
    """Explain where a pod goes and what the next best would cost; or, for each pool and group of types, what keeps it out.

    Exit code 0: it has a place. 2: it stays pending. 1: something could not be read, or there is no such pod.
    """
    with _input_errors_reported():
        found = plan_manifests(PlanRequest(tuple(files), catalogue, region, deadline, seed))
        _print_commentary(found)
        try:
            told = explain_pod(name, found)
        except UnknownPod as unknown:
            _print_to_stderr(f"joiner: {unknown}{'; what could not be read is told above' if found.errors else ''}")
            raise typer.Exit(1) from None
        print_result(told.text)
        raise typer.Exit(1 if found.errors else 0 if told.placed else 2)


def _render(found: ManifestPlan, output: PlanFormat) -> str:
    match output:
        case PlanFormat.table:
            return render_plan_table(found.plan)
        case PlanFormat.json:
            return json.dumps(found.to_json(), indent=1)
        case PlanFormat.yaml:
            return yaml.safe_dump(found.to_json(), sort_keys=False, allow_unicode=True, width=200).rstrip()
        case PlanFormat.html:
            snapshot = found.world.snapshot
            notes = problem_lines(found.plan.problems, found.world.where)
            return render_plan_page(
                found.plan, snapshot.pods, {node.name: node.allocatable for node in snapshot.nodes}, notes=notes
            )


def _print_commentary(found: ManifestPlan) -> None:
    """What a reader should know beside the result, on stderr."""
    problems = sorted(found.plan.problems, key=lambda one: one.severity != "error")
    shown = problems[:MAX_REPORTED_PROBLEMS]
    for one, line in zip(shown, problem_lines(shown, found.world.where), strict=True):
        _print_to_stderr(f"joiner: {'' if one.severity == 'error' else 'note: '}{line}")
    if len(problems) > MAX_REPORTED_PROBLEMS:
        _print_to_stderr(f"joiner: and {len(problems) - MAX_REPORTED_PROBLEMS} more")
    if found.errors:
        _print_to_stderr(
            f"joiner: {'there is nothing to plan' if found.empty else 'the plan is'} without {_count_omissions(found)}"
        )
    elif not (found.world.where or found.world.passed_over):
        _print_to_stderr("joiner: there is no manifest in what was given")
    if found.plan.cut_short:
        _print_to_stderr("joiner: the deadline ended the search: a longer --deadline may find a cheaper plan")
    if found.world.passed_over:
        _print_to_stderr(
            f"passed over: {', '.join(f'{number} {kind}' for kind, number in found.world.passed_over.items())}"
        )
    facts = f" (facts of {found.market.dated}; on demand only: spot prices change by the minute, give them with --catalogue)"
    _print_to_stderr(f"catalogue: {found.market.source}{facts if found.market.dated else ''}")
    _print_to_stderr(f"read in {found.read_seconds:.2f} s, planned in {found.plan_seconds:.2f} s")


def _count_omissions(found: ManifestPlan) -> str:
    """How many objects are left out, and how many files could not be read, or not to their end."""
    files = len(set(found.world.unreadable))
    objects = len({one.object for one in found.errors} - {*found.world.unreadable})
    told = [f"{_number(objects, 'object')} that cannot be used"] if objects else []
    told += [f"what could not be read of {_number(files, 'file')}"] if files else []
    return " and ".join(told)


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _print_to_stderr(line: str) -> None:
    if sys.stderr is None:  # closed; print would take stdout
        return
    with suppress(OSError):  # nobody can be told, and the result is worth writing all the same
        print("".join(one if one.isprintable() else "?" for one in line), file=sys.stderr, flush=True)


@contextmanager
def _input_errors_reported() -> Iterator[None]:
    """A file that cannot be read is one sentence and exit code 1."""
    try:
        yield
    except UnreadableInput as error:
        _print_to_stderr(f"joiner: {error}")
        raise typer.Exit(1) from None

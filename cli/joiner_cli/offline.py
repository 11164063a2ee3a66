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
from joiner_cli.catalogues import market
from joiner_cli.explaining import UnknownPod, explain
from joiner_cli.manifests import Unreadable
from joiner_cli.planning import Answer, Question, answer, object_problems
from joiner_cli.showing.catalogue_table import catalogue_table
from joiner_cli.showing.picture import picture
from joiner_cli.showing.plan_table import plan_table
from joiner_cli.showing.result import show

MOST_PROBLEMS: Final = 50
"""So many are told; whoever has more has one mistake many times."""


class PlanFormat(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"
    html = "html"


class Format(StrEnum):
    table = "table"
    json = "json"


Files = Annotated[
    list[str], typer.Option("--filename", "-f", metavar="FILE|DIR", help="Manifests: YAML or JSON, folders with them, or - for stdin.")
]
CatalogueFile = Annotated[
    Path | None, typer.Option("--catalogue", metavar="FILE", help="Instance types and prices, as `joiner catalogue -o json` prints them.")
]
Region = Annotated[str | None, typer.Option("--region", metavar="REGION", help="Offer only what this region has.", show_default=False)]
Deadline = Annotated[
    float, typer.Option("--deadline", metavar="SECONDS", min=0.01, max=3600.0, help="How long to look for a cheaper plan.")
]
Seed = Annotated[
    int, typer.Option("--seed", metavar="NUMBER", min=0, help="Decides between plans that look alike; the same seed, the same plan.")
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
    with _refusals_told():
        found = answer(Question(tuple(files), catalogue, region, deadline, seed))
        _comment(found)
        if not (found.errors and found.empty and output in (PlanFormat.table, PlanFormat.html)):
            show(_rendered(found, output))
        raise typer.Exit(found.exit_code)


def catalogue_command(
    types: Annotated[list[str] | None, typer.Argument(metavar="TYPE", help="Only these; * stands for anything (m7*.large).")] = None,
    catalogue: CatalogueFile = None,
    region: Region = None,
    output: Annotated[Format, typer.Option("--output", "-o", help="How to show it.")] = Format.table,
) -> None:
    """List instance types: what their nodes carry, hold and cost."""
    with _refusals_told():
        found = market(catalogue, region)
        chosen, unknown = found.select(types or [])
        if unknown:
            near = dict.fromkeys(name for one in unknown for name in near_types(one, found.catalogue.types)[:1])
            asked = f"; did you mean {' or '.join(near)}?" if near else ""
            raise Unreadable(" ".join(unknown), "no instance type is called so", f"see `joiner catalogue`{asked}")
        number = _number(len(chosen.types), "instance type")
        _say(f"catalogue: {found.source}, {f'facts of {found.dated}, ' if found.dated else ''}{number}")
        show(json.dumps(chosen.to_json(), indent=1) if output is Format.json else catalogue_table(chosen))


explain_app = typer.Typer(no_args_is_help=True, help="Why a pod is where it is, or nowhere.")


@explain_app.command("pod")
def explain_pod(  # noqa: PLR0917 - typer reads the options off the parameters
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
    with _refusals_told():
        found = answer(Question(tuple(files), catalogue, region, deadline, seed))
        _comment(found)
        try:
            told = explain(name, found)
        except UnknownPod as unknown:
            _say(f"joiner: {unknown}{'; what could not be read is told above' if found.errors else ''}")
            raise typer.Exit(1) from None
        show(told.text)
        raise typer.Exit(1 if found.errors else 0 if told.placed else 2)


def _rendered(found: Answer, output: PlanFormat) -> str:
    match output:
        case PlanFormat.table:
            return plan_table(found.plan)
        case PlanFormat.json:
            return json.dumps(found.to_json(), indent=1)
        case PlanFormat.yaml:
            return yaml.safe_dump(found.to_json(), sort_keys=False, allow_unicode=True, width=200).rstrip()
        case PlanFormat.html:
            snapshot = found.world.snapshot
            notes = object_problems(found.plan.problems, found.world.where)
            return picture(found.plan, snapshot.pods, {node.name: node.allocatable for node in snapshot.nodes}, notes=notes)


def _comment(found: Answer) -> None:
    """What a reader should know beside the result, on stderr."""
    problems = sorted(found.plan.problems, key=lambda one: one.severity != "error")
    shown = problems[:MOST_PROBLEMS]
    for one, line in zip(shown, object_problems(shown, found.world.where), strict=True):
        _say(f"joiner: {'' if one.severity == 'error' else 'note: '}{line}")
    if len(problems) > MOST_PROBLEMS:
        _say(f"joiner: and {len(problems) - MOST_PROBLEMS} more")
    if found.errors:
        _say(f"joiner: {'there is nothing to plan' if found.empty else 'the plan is'} without {_counted(found)}")
    elif not (found.world.where or found.world.passed_over):
        _say("joiner: there is no manifest in what was given")
    if found.plan.cut_short:
        _say("joiner: the deadline ended the search: a longer --deadline may find a cheaper plan")
    if found.world.passed_over:
        _say(f"passed over: {', '.join(f'{number} {kind}' for kind, number in found.world.passed_over.items())}")
    facts = f" (facts of {found.market.dated}; on demand only: spot prices change by the minute, give them with --catalogue)"
    _say(f"catalogue: {found.market.source}{facts if found.market.dated else ''}")
    _say(f"read in {found.read_seconds:.2f} s, planned in {found.plan_seconds:.2f} s")


def _counted(found: Answer) -> str:
    """How many objects are left out, and how many files could not be read, or not to their end."""
    files = len(set(found.world.unreadable))
    objects = len({one.object for one in found.errors} - {*found.world.unreadable})
    told = [f"{_number(objects, 'object')} that cannot be used"] if objects else []
    told += [f"what could not be read of {_number(files, 'file')}"] if files else []
    return " and ".join(told)


def _number(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _say(line: str) -> None:
    if sys.stderr is None:  # closed; print would take stdout
        return
    with suppress(OSError):  # nobody can be told, and the result is worth writing all the same
        print("".join(one if one.isprintable() else "?" for one in line), file=sys.stderr, flush=True)


@contextmanager
def _refusals_told() -> Iterator[None]:
    """A file that cannot be read is one sentence and exit code 1."""
    try:
        yield
    except Unreadable as error:
        _say(f"joiner: {error}")
        raise typer.Exit(1) from None

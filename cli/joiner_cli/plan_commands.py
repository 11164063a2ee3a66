"""The commands `joiner plan`, `joiner catalogue` and `joiner explain`, which need neither AWS nor a cluster."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from joiner.catalogue import suggest_instance_types
from joiner.catalogue.assumed_spot_offerings import lacks_spot_prices
from joiner.planning import Plan
from joiner.pools import InvalidManifest
from joiner_cli.catalogue_files import LoadedCatalogue, load_catalogue
from joiner_cli.manifest_plan import ManifestPlan, PlanRequest, plan_manifests, problem_lines
from joiner_cli.manifests import ManifestSet, UnreadableInput
from joiner_cli.missing_spot_prices import ABOUT_CATALOGUE
from joiner_cli.pod_explanation import UnknownPod, explain_pod
from joiner_cli.rendering.catalogue_table import render_catalogue_table
from joiner_cli.rendering.plan_page import render_plan_page
from joiner_cli.rendering.plan_table import render_plan_table
from joiner_cli.rendering.standard_output import print_result
from joiner_cli.rendering.structured_output import render_json, render_yaml
from joiner_cli.settings_limits import read_limits

MAX_REPORTED_PROBLEMS: Final = 50
"""More problems than this usually repeat one mistake."""
ALIKE: Final = ("Pod", "Node")
"""Kinds of which many objects may have the same problem: they share a line."""

SEVERITIES: Final[Mapping[str, str]] = {"error": "", "warning": "warning: ", "info": "note: "}
"""How lines on stderr begin, in the order of the lines."""


class PlanFormat(StrEnum):
    """The formats in which a plan is printed."""

    table = "table"
    json = "json"
    yaml = "yaml"
    html = "html"


class CatalogueFormat(StrEnum):
    """The formats in which the catalogue is printed."""

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
CatalogueRegion = Annotated[
    str | None,
    typer.Option("--region", metavar="REGION", help="Use only the offerings of this region.", show_default=False),
]
SettingsFile = Annotated[
    Path | None,
    typer.Option(
        "--settings", metavar="FILE", help="Settings of the cluster: ceilings, prices, what classes may name."
    ),
]


class Prices(StrEnum):
    """Which price is shown: that of the whole node, or of its instance only."""

    whole = "whole"
    instance = "instance"


WhichPrices = Annotated[
    Prices,
    typer.Option("--prices", help="The whole price of nodes, with volumes and running, or that of their instances."),
]
Deadline = Annotated[
    float,
    typer.Option("--deadline", metavar="SECONDS", min=0.01, max=3600.0, help="How long to search for a cheaper plan."),
]
Seed = Annotated[
    int,
    typer.Option("--seed", metavar="NUMBER", min=0, help="Seed of the search: the same seed gives the same plan."),
]


def plan_command(  # noqa: PLR0917 - typer reads the options off the parameters
    files: Files,
    catalogue: CatalogueFile = None,
    region: CatalogueRegion = None,
    deadline: Deadline = 1.0,
    seed: Seed = 0,
    settings: SettingsFile = None,
    prices: WhichPrices = Prices.whole,
    output: Annotated[PlanFormat, typer.Option("--output", "-o", help="How to show it.")] = PlanFormat.table,
) -> None:
    """Show which nodes these manifests would get, and their price.

    The plan shows whether it is proven to be optimal, or its distance from a lower bound of the price; and for each
    pod that stays pending, the reason for each pool. Exit code 0: every pod is placed. 2: some pods stay pending, or
    a NodeClaim or a static pool does not get its nodes. 1: some input is invalid; the plan leaves it out.
    """
    with input_errors_reported():
        limits = read_limits(settings)
        found = plan_manifests(
            PlanRequest(tuple(files), catalogue, region, deadline, seed, limits, prices is Prices.instance)
        )
        _print_commentary(found)
        if not (found.errors and found.empty and output in (PlanFormat.table, PlanFormat.html)):
            print_result(_render(found, output))
        raise typer.Exit(found.exit_code)


def catalogue_command(
    types: Annotated[
        list[str] | None, typer.Argument(metavar="TYPE", help="Only these types; * matches anything (m7*.large).")
    ] = None,
    catalogue: CatalogueFile = None,
    region: CatalogueRegion = None,
    output: Annotated[CatalogueFormat, typer.Option("--output", "-o", help="How to show it.")] = CatalogueFormat.table,
) -> None:
    """List instance types with their capacity and price."""
    with input_errors_reported():
        found = load_catalogue(catalogue, region)
        chosen, unknown = found.select(types or [])
        if unknown:
            near = dict.fromkeys(
                name for one in unknown for name in suggest_instance_types(one, found.catalogue.types)[:1]
            )
            asked = f"; did you mean {' or '.join(near)}?" if near else ""
            raise UnreadableInput(" ".join(unknown), "there is no such instance type", f"see `joiner catalogue`{asked}")
        number = _number(len(chosen.types), "instance type")
        _print_to_stderr(f"catalogue: {found.source}, {f'facts of {found.dated}, ' if found.dated else ''}{number}")
        for problem in found.problems:
            _print_to_stderr(f"joiner: {SEVERITIES[problem.severity]}{problem}")
        print_result(
            render_json(chosen.to_json()) if output is CatalogueFormat.json else render_catalogue_table(chosen)
        )


explain_app = typer.Typer(
    no_args_is_help=True, help="Show why a pod is placed or stays pending, and why a node is removed or stays."
)


@explain_app.command("pod", short_help="Explain where a pod is placed, or what excludes it.")
def explain_pod_command(  # noqa: PLR0917 - typer reads the options off the parameters
    name: Annotated[str, typer.Argument(metavar="NAME", help="The pod: namespace/name, or its name alone.")],
    files: Files,
    catalogue: CatalogueFile = None,
    region: CatalogueRegion = None,
    deadline: Deadline = 1.0,
    seed: Seed = 0,
    settings: SettingsFile = None,
) -> None:
    """Explain where a pod is placed and what the next best node costs; or which rule excludes each pool and instance
    type.

    Exit code 0: the pod is placed. 2: it stays pending. 1: some input is invalid, or there is no such pod.
    """
    with input_errors_reported():
        found = plan_manifests(PlanRequest(tuple(files), catalogue, region, deadline, seed, read_limits(settings)))
        _print_commentary(found)
        try:
            explanation = explain_pod(name, found)
        except UnknownPod as unknown:
            _print_to_stderr(f"joiner: {unknown}{'; the invalid input is listed above' if found.invalid else ''}")
            raise typer.Exit(1) from None
        print_result(explanation.text)
        raise typer.Exit(1 if found.errors else 0 if explanation.placed else 2)


def _render(found: ManifestPlan, output: PlanFormat) -> str:
    match output:
        case PlanFormat.table:
            return render_plan_table(found.plan)
        case PlanFormat.json:
            return render_json(found.to_json())
        case PlanFormat.yaml:
            return render_yaml(found.to_json())
        case PlanFormat.html:
            snapshot = found.manifests.snapshot
            notes = problem_lines(found.plan.problems, found.manifests.where)
            return render_plan_page(
                found.plan, snapshot.pods, {node.name: node.allocatable for node in snapshot.nodes}, notes=notes
            )


def _print_commentary(found: ManifestPlan) -> None:
    """Print problems, the catalogue's source, and durations on stderr."""
    print_problems(found.plan.problems, found.manifests.where)
    if found.errors:
        begin = "there is nothing to plan" if found.empty else "the plan is"
        left_out = f" without {_count_omissions(found)}" if found.manifests.holds_manifests else ""
        _print_to_stderr(f"joiner: {begin}{left_out}")
    for warning in found.plan.warnings:
        _print_to_stderr(f"joiner: warning: {warning}")
    print_cut_short(found.plan)
    print_inputs(found.catalogue, found.manifests)
    counts = [_number(number, kind) for kind, number in found.manifests.counts.items()]
    if unused := found.unused_overlays:
        counts = [f"{each} ({len(unused)} not applied)" if "NodeOverlay" in each else each for each in counts]
    read = ", ".join(counts) or "no objects"
    _print_to_stderr(f"read {read} in {found.read_seconds:.2f} s, planned in {found.plan_seconds:.2f} s")


def print_cut_short(plan: Plan) -> None:
    """Print a note on stderr if the deadline stopped the search, unless the plan is optimal all the same."""
    if plan.cut_short and not plan.optimal:
        _print_to_stderr("joiner: the search stopped at the deadline: a longer --deadline may find a cheaper plan")


def print_problems(problems: Sequence[InvalidManifest], where: Mapping[str, str]) -> None:
    """Print the problems on stderr, errors first, one line each; pods with the same problem share a line, and nodes.
    `where` is the file of each object."""
    alike: dict[tuple[str, ...], list[InvalidManifest]] = {}
    for number, one in enumerate(sorted(problems, key=lambda one: [*SEVERITIES].index(one.severity))):
        kind = one.object.partition("/")[0]
        group = kind if kind in ALIKE else str(number)
        alike.setdefault((group, one.severity, one.message), []).append(one)
    shown = [each[0] for each in alike.values()][:MAX_REPORTED_PROBLEMS]
    for one, line, each in zip(shown, problem_lines(shown, where), alike.values(), strict=False):
        kind = one.object.partition("/")[0]
        others = f" (and {_number(len(each) - 1, f'other {kind}')} with the same)" if len(each) > 1 else ""
        _print_to_stderr(f"joiner: {SEVERITIES[one.severity]}{line}{others}")
    if len(alike) > MAX_REPORTED_PROBLEMS:
        _print_to_stderr(f"joiner: and {len(alike) - MAX_REPORTED_PROBLEMS} more")


def print_inputs(catalogue: LoadedCatalogue, manifests: ManifestSet) -> None:
    """Print on stderr the objects that are ignored, and the source of the catalogue."""
    if manifests.passed_over:
        _print_to_stderr(
            f"ignored: {', '.join(_number(number, kind) for kind, number in manifests.passed_over.items())}"
        )
    facts = [f"facts of {catalogue.dated}"] if catalogue.dated else []
    if lacks_spot_prices(catalogue.catalogue):
        facts.append(ABOUT_CATALOGUE)
    about = f" ({'; '.join(facts)})" if facts else ""
    _print_to_stderr(f"catalogue: {catalogue.source}{about}")


def _count_omissions(found: ManifestPlan) -> str:
    """Return how many objects are left out, and how many files could not be read completely. Overlays that contradict
    others are valid."""
    files, unused = len(set(found.manifests.unreadable.values())), found.unused_overlays
    invalid = found.invalid - found.manifests.unreadable.keys()
    parts = [f"{_number(len(invalid), 'invalid object')}"] if invalid else []
    parts += (
        [f"{_number(len(unused), 'NodeOverlay')} that contradict{'s' * (len(unused) == 1)} another"] if unused else []
    )
    parts += [f"the unreadable parts of {_number(files, 'file')}"] if files else []
    return " and ".join(parts)


def _number(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> _number(1, "Pod"), _number(2000, "EC2NodeClass"), _number(2, "NetworkPolicy"), _number(2, "Gateway")
    ('1 Pod', '2,000 EC2NodeClasses', '2 NetworkPolicies', '2 Gateways')
    """
    if number == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"


def _print_to_stderr(line: str) -> None:
    if sys.stderr is None:  # stderr is closed; print would write to stdout
        return
    with suppress(OSError):  # stderr cannot be written; the result on stdout still can
        print("".join(one if one.isprintable() else "?" for one in line), file=sys.stderr, flush=True)


@contextmanager
def input_errors_reported() -> Iterator[None]:
    """Turn ``UnreadableInput`` into lines on stderr, one for each mistake, and exit code 1."""
    try:
        yield
    except UnreadableInput as error:
        for line in error.lines:
            _print_to_stderr(f"joiner: {line}")
        raise typer.Exit(1) from None

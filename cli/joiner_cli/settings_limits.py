"""What the settings of a cluster decide about its plans, read from ``clusters/NAME.yaml`` for `joiner plan`.

The deployment reads the same file: ``infra.settings`` defines its fields.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from joiner.catalogue.allocatable import CapacityEstimate
from joiner.catalogue.published_prices import PublishedPrices
from joiner.catalogue.reserved_instances_and_savings_plans import DeclaredCommitments, commitments_of_settings
from joiner.launching.additional_cost_computation import DEFAULT_OVERHEAD_PRICE
from joiner.launching.named_resources import list_unchecked_resources
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.planning import Ceilings, PlanPolicies, PlanTolerances
from joiner.pools import InvalidManifest, NodeClass
from joiner_cli.manifests.manifest_documents import SeveralMistakes, UnreadableInput

if TYPE_CHECKING:
    from infra.settings import Settings

SETTINGS: Final = "settings"
"""The object of problems of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsLimits:
    """What the settings decide about plans. Without settings, the ceilings and the ``policy``, what node classes may
    name, are unknown.

    ``overhead_price`` is what the running of a node costs in $/h, ``default_spreads`` are the default topology spread
    constraints of the cluster's scheduler. ``region`` is that of the cluster. The catalogue has ``estimate``,
    ``prices`` (None: its own) and ``commitments``; interruptions of spot nodes count only if ``weighs_interruptions``.
    ``account_settings`` are the names of the given settings that need an account.
    """

    ceilings: Ceilings = field(default_factory=Ceilings)
    policy: NodeClassPolicy | None = None
    overhead_price: float = DEFAULT_OVERHEAD_PRICE
    tolerances: PlanTolerances = field(default_factory=PlanTolerances)
    policies: PlanPolicies = field(default_factory=PlanPolicies)
    default_spreads: tuple[Mapping[str, Any], ...] = ()
    region: str = ""
    estimate: CapacityEstimate = field(default_factory=CapacityEstimate)
    prices: PublishedPrices | None = None
    commitments: DeclaredCommitments = ((), ())
    weighs_interruptions: bool = True
    account_settings: tuple[str, ...] = ()


def read_limits(path: Path | None) -> SettingsLimits:
    """Return what a settings file decides; nothing without a file. Raises ``UnreadableInput``."""
    if path is None:
        return SettingsLimits()
    try:
        from infra.settings import load_settings  # only a checkout has it
        from infra.settings_reader import SettingsError
    except ImportError as error:
        raise UnreadableInput(
            "--settings", "this installation cannot read settings", "use a checkout of Joiner, after `make setup`"
        ) from error
    if path.is_dir():
        raise UnreadableInput(str(path), "it is a folder", "name a settings file in it, such as clusters/NAME.yaml")
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such file", "name a settings file, such as clusters/NAME.yaml")
    try:
        return _limits(load_settings(path))
    except SettingsError as error:
        raise SeveralMistakes(
            str(path), (line.removeprefix(f"{path}: ") for line in str(error).splitlines())
        ) from error


def _limits(settings: "Settings") -> SettingsLimits:
    planning, nodes = settings.planning, settings.nodes
    return SettingsLimits(
        ceilings=Ceilings(settings.ceilings.nodes, settings.ceilings.price_per_hour),
        policy=_node_class_policy(settings),
        overhead_price=planning.node_overhead_price_per_hour,
        tolerances=PlanTolerances(
            planning.fewer_nodes_tolerance_percent / 100, planning.zone_spread_tolerance_percent / 100
        ),
        policies=PlanPolicies(planning.preference_policy == "Respect", planning.min_values_policy == "BestEffort"),
        default_spreads=tuple(one.to_kube() for one in planning.default_topology_spread_constraints),
        region=settings.region,
        estimate=CapacityEstimate(nodes.memory_overhead_percent / 100, nodes.reserved_interfaces),
        prices=_read_prices(settings.prices.file),
        commitments=commitments_of_settings(json.loads(settings.commitments.to_json() or "{}")),
        weighs_interruptions=planning.interruption_lost_hours > 0,
        account_settings=tuple(_given_account_settings(settings)),
    )


def _node_class_policy(settings: "Settings") -> NodeClassPolicy:
    from infra.node_class_limits import node_class_limits
    from infra.settings import node_role_name

    roles = settings.node_roles.names or (node_role_name(settings),)
    return NodeClassPolicy(
        node_roles=roles,
        instance_profile="",
        image_owners=settings.image_owners,
        account=settings.account or "",
        windows_roles=settings.node_roles.windows_names if settings.node_roles.manage_node_access_entry else None,
        role_profiles=roles,  # a deployment makes a profile for each role, whose name is not known here
    ).with_limits(node_class_limits(settings))


def _read_prices(file: str | None) -> PublishedPrices | None:
    """Return the price table, which the reader of the settings has checked."""
    if file is None:
        return None
    return PublishedPrices.from_json(json.loads(Path(file).read_text(encoding="utf-8")))


def _given_account_settings(settings: "Settings") -> Iterator[str]:
    """Yield the settings whose effect on plans depends on the account: its commitments, what EC2 answers about spot
    capacity, and the interruptions that were recorded there."""
    from infra.planning_settings import DEFAULT_PLANNING

    if settings.commitments.from_account:
        yield "commitments.fromAccount"
    if settings.planning.interruption_lost_hours not in (0, DEFAULT_PLANNING.interruption_lost_hours):
        yield "planning.interruptionLostHours"
    if settings.planning.spot_placement_scores:
        yield "planning.spotPlacementScores"


def describe_unchecked(limits: SettingsLimits, classes: Iterable[NodeClass]) -> Iterator[InvalidManifest]:
    """Yield one note about what only the account shows: whether the settings allow what these classes name, and what
    other settings do."""
    if limits.policy is None:
        return
    named: dict[str, dict[str, None]] = {}
    for one in classes:
        for resource in list_unchecked_resources(one, limits.policy):
            named.setdefault(resource.setting, {})[resource.text] = None
    parts = []
    if named:
        texts = " and ".join(f"{', '.join(each)} ({setting})" for setting, each in named.items())
        are = "are" if sum(map(len, named.values())) > 1 else "is"
        parts.append(
            f"whether {texts} {are} allowed is not checked, because only the account shows tags, owners and roles"
        )
    if limits.account_settings:
        texts = " and ".join(limits.account_settings)
        several = len(limits.account_settings) > 1
        does, them = ("change nothing here", "them") if several else ("changes nothing here", "it")
        parts.append(f"{texts} {does}: the refresh of a deployed catalogue uses {them} (--catalogue)")
    if parts:
        yield InvalidManifest(SETTINGS, "", "", "; ".join(parts), "info")

"""The limits that the settings of a cluster set for all plans, read from ``clusters/NAME.yaml`` for `joiner plan`.

The deployment reads the same file: ``infra.settings`` defines its fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joiner.launching.additional_cost_computation import DEFAULT_OVERHEAD_PRICE
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from joiner.planning import Ceilings, PlanPolicies, PlanTolerances
from joiner_cli.manifests.manifest_documents import UnreadableInput

if TYPE_CHECKING:
    from infra.node_class_limits import NodeClassLimit
    from infra.settings import Settings


@dataclass(frozen=True, slots=True)
class SettingsLimits:
    """The ceilings of all pools together, and what node classes may name; without settings, both are unknown.
    ``overhead_price`` is what the running of a node costs in $/h, ``default_spreads`` are the default topology spread
    constraints of the cluster's scheduler. ``region`` is that of the cluster."""

    ceilings: Ceilings = field(default_factory=Ceilings)
    policy: NodeClassPolicy | None = None
    overhead_price: float = DEFAULT_OVERHEAD_PRICE
    tolerances: PlanTolerances = field(default_factory=PlanTolerances)
    policies: PlanPolicies = field(default_factory=PlanPolicies)
    default_spreads: tuple[Mapping[str, Any], ...] = ()
    region: str = ""


def read_limits(path: Path | None) -> SettingsLimits:
    """Return the limits in a settings file; none without a file. Raises ``UnreadableInput``."""
    if path is None:
        return SettingsLimits()
    try:
        from infra.node_class_limits import launch_template_limit  # only a checkout has it
        from infra.settings import load_settings, node_role_name
        from infra.settings_reader import SettingsError
    except ImportError as error:
        raise UnreadableInput(
            "--settings", "this installation cannot read settings", "use a checkout of Joiner, after `make setup`"
        ) from error
    if not path.is_file():
        raise UnreadableInput(str(path), "there is no such file", "name a settings file, such as clusters/NAME.yaml")
    try:
        settings = load_settings(path)
    except SettingsError as error:
        mistakes = "; ".join(line.removeprefix(f"{path}: ") for line in str(error).splitlines())
        raise UnreadableInput(str(path), mistakes, "correct the settings") from error
    return SettingsLimits(
        Ceilings(settings.ceilings.nodes, settings.ceilings.price_per_hour),
        _node_class_policy(settings, node_role_name(settings), launch_template_limit(settings)),
        settings.planning.node_overhead_price_per_hour,
        PlanTolerances(
            settings.planning.fewer_nodes_tolerance_percent / 100, settings.planning.zone_spread_tolerance_percent / 100
        ),
        PlanPolicies(
            settings.planning.preference_policy == "Respect", settings.planning.min_values_policy == "BestEffort"
        ),
        tuple(one.to_kube() for one in settings.planning.default_topology_spread_constraints),
        settings.region,
    )


def _node_class_policy(settings: "Settings", own_role: str, templates: "NodeClassLimit | None") -> NodeClassPolicy:
    roles = settings.node_roles.names or (own_role,)
    return NodeClassPolicy(
        node_roles=roles,
        instance_profile="",
        # Without the account, the number of an owner may be that of the account itself
        image_owners=settings.image_owners if settings.account or "self" not in settings.image_owners else (),
        account=settings.account or "",
        kms_keys=settings.node_classes.kms_keys,
        windows_roles=settings.node_roles.windows_names if settings.node_roles.manage_node_access_entry else None,
        role_profiles=roles,  # a deployment makes a profile for each role, whose name is not known here
        launch_templates=AllowedResources(templates.ids, templates.tags) if templates else None,
    )

"""Settings of plans: what they reckon with beside the prices of instances and volumes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal

from infra.settings_reader import NumberRange, SettingsMistake, TextPattern, camel_case

LONGEST_DEFAULT_SPREADS: Final = 3000
"""Characters of JSON: Lambda allows 4 KB for all variables of a function."""

TopologyKey = TextPattern(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?",
    "the key of a node label, such as topology.kubernetes.io/zone",
)


@dataclass(frozen=True, slots=True)
class DefaultSpreadSettings:
    """One default topology spread constraint of kube-scheduler, with the fields of `defaultConstraints`."""

    max_skew: Annotated[int, NumberRange(1, 150_000)]
    """The largest difference between the pods in two domains. A cluster has at most 150,000 pods."""
    topology_key: Annotated[str, TopologyKey]
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """DoNotSchedule keeps pods pending, and may cost nodes; ScheduleAnyway is a preference that costs nothing."""
    min_domains: Annotated[int | None, NumberRange(1, 5000)] = None
    """null: one, as Kubernetes has it. Only with DoNotSchedule."""
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    """Kubernetes' default."""
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    """Kubernetes' default."""

    def to_kube(self) -> dict[str, Any]:
        """Return the constraint as Kubernetes writes it.

        >>> DefaultSpreadSettings(1, "zone", "DoNotSchedule", min_domains=3).to_kube()["minDomains"]
        3
        """
        written = {camel_case(each.name): getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in written.items() if value is not None}


@dataclass(frozen=True, slots=True)
class PlanningSettings:
    """What plans reckon with beside the prices of instances and volumes."""

    node_overhead_price_per_hour: Annotated[float, NumberRange(0, 100)] = 0.01
    """US$ an hour for the running of a node, whatever its size: image pulls, its part of the API server's work, its
    addresses, and agents that are licensed by node. About 7 a month: less than most licences, and enough that ten tiny
    nodes cost more than one that holds the same pods. A pool sets its own price with the annotation
    `joiner.dev/node-overhead-price`."""
    fewer_nodes_tolerance_percent: Annotated[float, NumberRange(0, 20)] = 0.5
    """How much more a plan may cost for fewer and larger nodes and fewer instance types. Nodes are merged at equal
    price in any case. Half a percent is less than plans differ from their lower bound."""
    zone_spread_tolerance_percent: Annotated[float, NumberRange(0, 20)] = 1.0
    """How much more a plan may cost for nodes in more zones. Spot prices often differ by more between zones; then the
    nodes stay in the cheapest ones."""
    preference_policy: Literal["Respect", "Ignore"] = "Respect"
    """Whether plans choose, of offers of the same price, those that satisfy more preferences of the pods. Respect never
    costs more, and never leaves a pod pending."""
    min_values_policy: Literal["Strict", "BestEffort"] = "Strict"
    """Whether a pod stays pending (Strict) if its node could not choose among as many values as a pool's minValues
    require, or gets a node with fewer choices."""
    interruption_lost_hours: Annotated[float, NumberRange(0, 100)] = 0.5
    """Hours of a spot node's work that an interruption loses: what its pods did since they last saved anything, and the
    start of their successors. Plans weigh it with how often spot nodes of the type and zone were interrupted. Half an
    hour is what a batch job loses on average that saves every hour, and more than a service loses. 0: plans do not
    weigh interruptions."""
    spot_placement_scores: bool = False
    """Whether the refresh of the catalogue asks EC2 for the placement scores of the families of which the cluster had
    most spot nodes. They decide between offers of about the same price, where spot nodes have no history yet. Off,
    because EC2 limits how many different requests an account makes in a day. Needs `interruptionLostHours` above 0."""
    default_topology_spread_constraints: tuple[DefaultSpreadSettings, ...] = ()
    """The default constraints of the cluster's scheduler (`defaultConstraints` of its plugin PodTopologySpread, with
    `defaultingType: List`), for pods without constraints of their own. None: the scheduler that EKS manages has those
    of Kubernetes, which are ScheduleAnyway, and cannot be configured. Only a cluster whose own scheduler is named
    default-scheduler can have others. With any, scale-ups and disruptions also list Services, ReplicaSets, StatefulSets
    and ReplicationControllers."""


DEFAULT_PLANNING: Final = PlanningSettings()


def check_planning(planning: PlanningSettings) -> list[SettingsMistake]:
    """Return the mistakes of the settings of plans that several values show together."""
    return [*_check_placement_scores(planning), *check_default_spreads(planning)]


def _check_placement_scores(planning: PlanningSettings) -> list[SettingsMistake]:
    """Placement scores only change how often interruptions are expected, which costs nothing without lost hours."""
    if not planning.spot_placement_scores or planning.interruption_lost_hours > 0:
        return []
    field = "planning.spotPlacementScores"
    cause = "it has no effect while planning.interruptionLostHours is 0"
    return [SettingsMistake(field, f"{field} is true: {cause}: write more than 0 there, or leave one of them out")]


def check_default_spreads(planning: PlanningSettings) -> list[SettingsMistake]:
    """Return what kube-scheduler would refuse in the default constraints: repeated ones, and minDomains of a
    preference."""
    mistakes: list[SettingsMistake] = []
    seen: dict[tuple[str, str], str] = {}
    for index, one in enumerate(planning.default_topology_spread_constraints):
        where = f"planning.defaultTopologySpreadConstraints[{index}]"
        first = seen.setdefault((one.topology_key, one.when_unsatisfiable), where)
        if first != where:
            cause = f"is the second with the topologyKey {one.topology_key!r} and {one.when_unsatisfiable}"
            mistakes.append(SettingsMistake(where, f"{where} {cause}: keep {first} or this one"))
        if one.min_domains is not None and one.when_unsatisfiable != "DoNotSchedule":
            field = f"{where}.minDomains"
            remedy = "leave it out, since ScheduleAnyway has none"
            mistakes.append(SettingsMistake(field, f"{field} is {one.min_domains}: {remedy}"))
    size = len(default_spreads_environment(planning)["JOINER_DEFAULT_SPREADS"])
    if size > LONGEST_DEFAULT_SPREADS:
        field = "planning.defaultTopologySpreadConstraints"
        cause = f"has {size} characters, and the environment of a function has place for {LONGEST_DEFAULT_SPREADS}"
        mistakes.append(SettingsMistake(field, f"{field} {cause}: keep fewer constraints"))
    return mistakes


def default_spreads_environment(planning: PlanningSettings) -> Mapping[str, str]:
    """Return the environment variable with the default constraints, for functions that read pods."""
    constraints = [one.to_kube() for one in planning.default_topology_spread_constraints]
    return {"JOINER_DEFAULT_SPREADS": json.dumps(constraints, separators=(",", ":"))}

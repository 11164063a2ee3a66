"""Settings of plans: what they reckon with beside the prices of instances and volumes."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from infra.settings_reader import NumberRange


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


DEFAULT_PLANNING: Final = PlanningSettings()

"""Settings of commitments: the reserved instances and savings plans that nodes of the cluster may use.

They become one environment variable of `refresh_catalogue`, which Lambda limits to 4 KB with all others.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from infra.settings_reader import NumberRange, SettingsMistake, TextPattern

MOST_CHARACTERS: Final = 2_500
"""Of the environment variable; the other variables of the function need the rest of the 4 KB."""


@dataclass(frozen=True, slots=True)
class ReservedInstanceSettings:
    """Reserved instances of one type, for Linux on shared hardware."""

    instance_type: Annotated[str, TextPattern(r"[a-z0-9-]+\.[a-z0-9-]+", "an instance type, such as m5.large")]
    count: Annotated[int, NumberRange(1, 100_000)]
    zone: Annotated[str | None, TextPattern(r"[a-z]{2,4}(-[a-z0-9]+)+", "a zone, such as eu-west-1a")] = None
    """None: they are regional, and apply to all sizes of the family."""


@dataclass(frozen=True, slots=True)
class SavingsPlanSettings:
    """A savings plan, or the part of one that is meant for the nodes of this cluster."""

    price_per_hour: Annotated[float, NumberRange(0.001, 100_000)]
    """US$ an hour, as AWS shows the commitment."""
    discount_percent: Annotated[float, NumberRange(0, 90)]
    """By how much the plan is cheaper than the on-demand price. It decides how many instances the commitment covers."""
    family: Annotated[str | None, TextPattern(r"[a-z0-9-]+", "a family of instance types, such as m5")] = None
    """None: a Compute Savings Plan, which applies to all families."""


@dataclass(frozen=True, slots=True)
class CommitmentSettings:
    """What the account pays for whether instances run or not. Plans use it first, as if it cost nothing."""

    reserved_instances: tuple[ReservedInstanceSettings, ...] = ()
    savings_plans: tuple[SavingsPlanSettings, ...] = ()
    from_account: bool = False
    """Whether those of the account are read, too, and added to the others."""

    def to_json(self) -> str:
        """Return the text for `joiner.catalogue.reserved_instances_and_savings_plans`; empty without commitments."""
        if not (self.reserved_instances or self.savings_plans or self.from_account):
            return ""
        content: Mapping[str, Any] = {
            "reservedInstances": [
                {"instanceType": one.instance_type, "count": one.count} | ({"zone": one.zone} if one.zone else {})
                for one in self.reserved_instances
            ],
            "savingsPlans": [
                {"pricePerHour": one.price_per_hour, "discountPercent": one.discount_percent}
                | ({"family": one.family} if one.family else {})
                for one in self.savings_plans
            ],
            **({"fromAccount": True} if self.from_account else {}),
        }
        return json.dumps(content, separators=(",", ":"))


NO_COMMITMENTS: Final = CommitmentSettings()


def check_commitments(commitments: CommitmentSettings) -> list[SettingsMistake]:
    """Return a mistake if the commitments do not fit into the environment of a function."""
    size = len(commitments.to_json())
    if size <= MOST_CHARACTERS:
        return []
    remedy = "add up those of the same type and zone, and savings plans of the same family and discount"
    message = f"commitments has {size} characters as JSON, and {MOST_CHARACTERS} are possible: {remedy}"
    return [SettingsMistake("commitments", message)]

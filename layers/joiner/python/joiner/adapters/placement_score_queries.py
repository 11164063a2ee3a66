"""Ask EC2 for spot placement scores, zone by zone; a family whose request EC2 refuses has none."""

from collections.abc import Mapping
from typing import Any

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.parallel_calls import call_each
from joiner.catalogue.placement_scores import ASKED_CAPACITY, PlacementScores


def read_placement_scores(
    ec2: Ec2, region: str, families: Mapping[str, tuple[str, ...]]
) -> tuple[PlacementScores, Mapping[str, str]]:
    """Return the scores by family and zone, and why EC2 refused those of other families.

    EC2 scores the ten best zones, and names them by id.
    """
    if not families:
        return {}, {}
    try:
        zones = ec2.zones_by_id()
    except Ec2Error as refusal:
        return {}, dict.fromkeys(families, str(refusal))

    def ask(family: str) -> Mapping[str, int]:
        asked: dict[str, Any] = {
            "InstanceTypes": list(families[family]),
            "TargetCapacity": ASKED_CAPACITY,
            "TargetCapacityUnitType": "units",
            "SingleAvailabilityZone": True,
            "RegionNames": [region],
        }
        found = ec2.pages("get_spot_placement_scores", "SpotPlacementScores", **asked)
        return {
            zones[each["AvailabilityZoneId"]]: int(each["Score"])
            for each in found
            if each.get("AvailabilityZoneId") in zones
        }

    answers = dict(call_each(sorted(families), ask, Ec2Error))
    scores = {family: answer for family, answer in answers.items() if isinstance(answer, Mapping)}
    return scores, {family: str(answer) for family, answer in answers.items() if isinstance(answer, Ec2Error)}

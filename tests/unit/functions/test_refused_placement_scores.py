"""A refusal of EC2 to score a family leaves its offerings with the history of the cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.placement_score_queries import read_placement_scores
from tests.unit.functions.fake_ec2 import refused

FAMILIES = {"c5": ("c5.2xlarge", "c5.large", "c5.xlarge"), "m5": ("m5.2xlarge", "m5.large", "m5.xlarge")}


@dataclass
class ScoringEc2:
    """EC2's answers about two zones; it refuses the family `refuses`, and the zones if `denied`."""

    refuses: str = ""
    denied: bool = False

    def describe_availability_zones(self) -> dict[str, Any]:
        if self.denied:
            raise refused("DescribeAvailabilityZones", "UnauthorizedOperation", "no")
        zones = [{"ZoneId": f"use1-az{number}", "ZoneName": f"us-east-1{zone}"} for number, zone in enumerate("ab")]
        return {"AvailabilityZones": zones}

    def get_paginator(self, operation: str) -> "ScoringEc2":
        assert operation == "get_spot_placement_scores"
        return self

    def paginate(self, *, InstanceTypes: list[str], **asked: Any) -> Iterator[dict[str, Any]]:
        if InstanceTypes[0].startswith(self.refuses or "-"):
            raise refused("GetSpotPlacementScores", "RequestLimitExceeded", "too many requests of the day")
        assert (asked["SingleAvailabilityZone"], asked["RegionNames"]) == (True, ["us-east-1"])
        yield {"SpotPlacementScores": [{"AvailabilityZoneId": "use1-az0", "Score": 7}]}
        yield {"SpotPlacementScores": [{"AvailabilityZoneId": "use1-az1", "Score": 2}, {"Score": 9}]}


def test_all_pages_of_the_other_families_count() -> None:
    scores, why = read_placement_scores(Ec2(ScoringEc2(refuses="c5")), "us-east-1", FAMILIES)

    assert scores == {"m5": {"us-east-1a": 7, "us-east-1b": 2}}
    assert why.keys() == {"c5"}
    assert "too many requests of the day" in why["c5"]


def test_without_the_zones_no_family_has_a_score() -> None:
    scores, why = read_placement_scores(Ec2(ScoringEc2(denied=True)), "us-east-1", FAMILIES)

    assert scores == {}
    assert why.keys() == FAMILIES.keys()

"""A blast radius of vCPUs leaves no pod pending that needs a larger node because of other pods, or in its zone."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.planning.drawn_clusters import HOST, ZONE, ZONES, affinity, instance_type, near, pods, spread
from tests.unit.planning.test_fewer_nodes import FREE, SIZES, kinds, planned, shop


def near_pods(app: str) -> dict[str, Any]:
    return affinity(podAffinity=[near(HOST, app)])


@pytest.mark.parametrize(("large", "side"), [({}, near_pods("large")), (near_pods("side"), {})])
def test_pods_that_must_be_on_one_host_share_a_node_that_one_of_them_needs(
    large: Mapping[str, Any], side: Mapping[str, Any]
) -> None:
    waiting = [*pods(1, "large", cpu="30", **large), *pods(1, "side", cpu="1", **side)]
    made = planned(shop(waiting, **{"joiner.dev/blast-radius": "16"}), FREE)

    assert made.pending == ()
    assert kinds(made) == {"r.8xlarge": 1}


def test_pods_that_must_be_on_one_host_get_a_node_that_holds_them_together() -> None:
    waiting = pods(2, "pair", cpu="10", **near_pods("pair"))
    made = planned(shop(waiting, **{"joiner.dev/blast-radius": "16"}), FREE)

    assert made.pending == ()
    assert kinds(made) == {"r.8xlarge": 1}


def test_affinity_within_a_zone_keeps_the_blast_radius() -> None:
    waiting = pods(8, cpu="3500m", memory="28Gi", **affinity(podAffinity=[near(ZONE, "web")]))
    types = {**SIZES, "r.8xlarge": instance_type("r.8xlarge", 32, 256, 1.2, pods=60)}

    assert kinds(planned(shop(waiting, **{"joiner.dev/blast-radius": "8"}), FREE, types)) == {"r.2xlarge": 4}


def test_a_zone_without_a_smaller_type_keeps_the_larger_ones() -> None:
    types = {
        "r.xlarge": instance_type("r.xlarge", 4, 32, 0.25, zones=[ZONES[0], ZONES[2]]),
        "r.2xlarge": instance_type("r.2xlarge", 8, 64, 0.2, pods=30),
    }
    spread_out: dict[str, Any] = {"topologySpreadConstraints": [spread(ZONE)]}
    waiting = pods(6, cpu="3500m", memory="28Gi", **spread_out)
    made = planned(shop(waiting, **{"joiner.dev/blast-radius": "4"}), FREE, types)

    assert made.pending == ()
    assert sorted((node.zone, node.instance_type) for node in made.nodes) == [
        (ZONES[0], "r.xlarge"),
        (ZONES[0], "r.xlarge"),
        (ZONES[1], "r.2xlarge"),
        (ZONES[2], "r.xlarge"),
        (ZONES[2], "r.xlarge"),
    ]

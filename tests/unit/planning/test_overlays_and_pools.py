"""NodeOverlays are compared with the offerings that the pools and their classes allow."""

import pytest

from tests.unit.planning.drawn_clusters import ZONES, Json, node_pool, planned, pod

TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
ARCH = "kubernetes.io/arch"
NO_OFFERING = "no offering of any pool meets it, so the overlay changes nothing: "


def require(**allowed: str) -> list[Json]:
    keys = {"type": TYPE, "capacity": CAPACITY_TYPE, "zone": ZONE, "arch": ARCH}
    return [{"key": keys[key], "operator": "In", "values": value.split()} for key, value in allowed.items()]


def overlay(*requirements: Json) -> Json:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "saving"},
        "spec": {"requirements": [*requirements], "priceAdjustment": "-10%"},
    }


def reported(asked: list[Json], *pools: Json) -> list[str]:
    lists: dict[str, list[Json]] = {"nodepools": [*pools], "pods": [pod("web-0")], "nodeoverlays": [overlay(*asked)]}
    return [one.remedy for one in planned(lists).problems if one.object == "NodeOverlay/saving"]


NARROW = node_pool("narrow", requirements=require(type="m.xlarge", capacity="on-demand", zone=ZONES[0]))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"type": "m.2xlarge"}, f"no pool allows {TYPE} as required; they allow m.xlarge"),
        ({"capacity": "spot"}, f"no pool allows {CAPACITY_TYPE} as required; they allow on-demand"),
        ({"zone": ZONES[1]}, f"no pool allows {ZONE} as required; they allow {ZONES[0]}"),
        ({"arch": "arm64"}, f"no pool allows {ARCH} as required; they allow amd64"),
        ({"type": "m.xlrge", "capacity": "spot"}, f"none has {TYPE} as required; did you mean m.xlarge or m.2xlarge?"),
    ],
    ids=["type", "capacity type", "zone", "architecture", "no type at all"],
)
def test_an_overlay_for_what_no_pool_allows_is_reported(asked: dict[str, str], why: str) -> None:
    assert reported(require(**asked), NARROW) == [NO_OFFERING + why]


@pytest.mark.parametrize(
    "pool", [{"type": "m.2xlarge"}, {"capacity": "spot", "type": "m.xlarge m.2xlarge"}], ids=["type", "capacity type"]
)
def test_an_overlay_is_not_reported_if_one_of_several_pools_allows_its_nodes(pool: dict[str, str]) -> None:
    wide = node_pool("wide", requirements=require(**pool))

    assert reported(require(type="m.2xlarge"), NARROW, wide) == []
    assert reported(require(type="m.xlarge"), NARROW, wide) == []


def test_an_overlay_whose_parts_are_allowed_by_different_pools_is_reported() -> None:
    spot = node_pool("spot", requirements=require(type="m.2xlarge", capacity="spot"))

    assert reported(require(type="m.xlarge", capacity="spot"), NARROW, spot) == [
        f"{NO_OFFERING}each requirement is met, but by no offering are all of them"
    ]


@pytest.mark.parametrize("asked", [{"type": "m.xlarge"}, {"capacity": "on-demand"}, {"capacity": "reserved"}], ids=str)
def test_an_overlay_for_nodes_in_reservations_is_not_doubted(asked: dict[str, str]) -> None:
    """The catalogue has no offering of a reservation; only the account shows them."""
    assert reported(require(**asked), node_pool(requirements=require(capacity="reserved"))) == []


def test_without_a_pool_no_overlay_is_reported() -> None:
    assert reported(require(type="m.xlarge")) == []
    assert reported(require(type="unknown")) == []

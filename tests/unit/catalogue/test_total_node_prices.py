"""Prices of existing nodes are those that plans reckon with."""

from dataclasses import replace

import pytest

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.catalogue.commitments import Coverage
from joiner.catalogue.total_node_prices import NodePrices
from joiner.cluster import Requirements, Resources
from joiner.pools import NodeClassRef, NodeOverlay, NodePool, Overlays

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"))
TYPE = InstanceType(
    "m5.large", {}, Resources.of(cpu=2), Resources.of(cpu=2), (Offering("us-east-1a", "on-demand", 0.096),)
)
LABELS = {names.INSTANCE_TYPE: "m5.large", names.ZONE: "us-east-1a", names.CAPACITY_TYPE: "on-demand"}


def price(*overlays: NodeOverlay) -> float:
    prices = NodePrices(Catalogue.of([TYPE]), {POOL.key: POOL}, {}, Overlays.of(overlays))
    return prices.of({**LABELS, names.NODEPOOL: "default"}, POOL.key)


def test_an_overlay_counts_for_a_running_node_as_for_a_new_one() -> None:
    mine = Requirements.from_kube([{"key": names.NODEPOOL, "operator": "In", "values": ["default"]}])
    other = Requirements.from_kube([{"key": names.NODEPOOL, "operator": "In", "values": ["other"]}])

    assert price() == 0.096
    assert price(NodeOverlay("savings", mine, adjustment="-50%")) == 0.048
    assert price(NodeOverlay("licence", mine, adjustment="+0.1")) == 0.196
    assert price(NodeOverlay("other", other, price=9.0)) == 0.096


def test_a_node_on_dedicated_hardware_costs_its_surcharge_more_and_no_commitment_covers_it() -> None:
    known = replace(TYPE, dedicated_surcharge=0.01)
    prices = NodePrices(Catalogue.of([known]), {}, {}, coverage=Coverage({"node-1": 1.0}))

    assert prices.of({**LABELS, names.TENANCY: "dedicated"}, POOL.key, "node-1") == pytest.approx(0.106)
    assert prices.of({**LABELS, names.TENANCY: "default"}, POOL.key, "node-1") < 0.001

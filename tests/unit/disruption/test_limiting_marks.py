"""Which marks of offerings without capacity start a look for nodes to disrupt when they end."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner.disruption.limiting_marks import find_limiting_ends
from joiner.planning import Snapshot
from tests.unit.disruption.initialized_nodes import LONG_AGO, claim_and_node
from tests.unit.disruption.proposed_consolidations import NOW, cluster, pool
from tests.unit.planning.drawn_clusters import CATALOGUE, ZONES, Json

END = NOW + timedelta(minutes=3)
KINDS = Catalogue.from_json(CATALOGUE)
DRIFTED = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": LONG_AGO}
OVERLAY = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "cheap"},
    "spec": {"requirements": [], "priceAdjustment": "-50%"},
}


def counts(
    kind: str,
    lists: Mapping[str, Sequence[Json]],
    *,
    capacity_type: str = "on-demand",
    zone: str = ZONES[0],
    recommended: Sequence[str] = (),
) -> bool:
    """Return whether the end of the mark of this offering counts."""
    marks = [((capacity_type, kind, zone), END)]
    found = find_limiting_ends(marks, Snapshot.from_lists(lists), KINDS, recommended)
    assert found in ([], [END])
    return bool(found)


def world(kind: str = "m.xlarge", **more: Any) -> dict[str, Sequence[Json]]:
    return cluster(claim_and_node("a", kind=kind), claim_and_node("b", kind="s.large"), **more)


def of_pool(*requirements: Json) -> dict[str, Sequence[Json]]:
    made = pool()
    spec = made["spec"]["template"]["spec"]
    spec["requirements"] = [*spec["requirements"], *requirements]
    return world(nodepools=[made])


def test_a_mark_counts_if_its_offering_costs_less_than_some_node() -> None:
    prices = [KINDS.price(kind, ZONES[0], "on-demand") or 0 for kind in ("s.large", "m.xlarge", "m.2xlarge")]
    assert prices == sorted(prices)

    assert counts("s.large", world())
    assert not counts("m.xlarge", world()), "it saves nothing"
    assert not counts("m.2xlarge", world())
    assert counts("m.xlarge", world("m.2xlarge"))


def test_a_mark_counts_if_a_pool_allows_its_offering() -> None:
    def only(key: str, *values: str) -> Json:
        return {"key": key, "operator": "In", "values": list(values)}

    assert counts("s.large", of_pool(only("node.kubernetes.io/instance-type", "s.large")))
    assert not counts("s.large", of_pool(only("node.kubernetes.io/instance-type", "m.xlarge")))
    assert not counts("s.large", of_pool(only("topology.kubernetes.io/zone", ZONES[1])))
    assert counts("s.large", of_pool(only("topology.kubernetes.io/zone", ZONES[1])), zone=ZONES[1])
    assert not counts("s.large", of_pool(only("karpenter.sh/capacity-type", "spot")))
    assert not counts("s.large", world(nodepools=[]))


def drifted() -> dict[str, Sequence[Json]]:
    lists = world()
    lists["nodeclaims"][0]["status"]["conditions"].append(DRIFTED)
    return lists


@pytest.mark.parametrize(
    ("lists", "recommended"),
    [
        (drifted(), ()),
        (world(), ("a",)),
        (world(nodepools=[pool({"joiner.dev/expiration": "graceful"})]), ()),
        (world(nodeoverlays=[OVERLAY]), ()),
    ],
    ids=["drifted", "at risk", "graceful expiration", "other prices"],
)
def test_a_mark_of_any_price_counts_if_a_node_may_be_replaced_at_any_price(
    lists: Mapping[str, Sequence[Json]], recommended: Sequence[str]
) -> None:
    assert counts("m.2xlarge", lists, recommended=recommended)


def test_a_mark_without_a_price_counts() -> None:
    assert counts("*", world())
    assert counts("m.2xlarge", world(), zone="*")


def test_a_node_without_a_price_lets_all_marks_count() -> None:
    lists = world()
    lists["nodes"][0]["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "m.unknown"

    assert counts("m.2xlarge", lists)

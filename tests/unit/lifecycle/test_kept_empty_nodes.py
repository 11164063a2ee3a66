"""Which empty nodes stay for pods that must leave other nodes, and for how long."""

from dataclasses import replace
from datetime import timedelta

from joiner.cluster import Node
from joiner.lifecycle.kept_empty_nodes import assign_kept_nodes, find_recently_draining
from tests.unit.lifecycle.joining_nodes import NOON, claim, daemon_pod, node, pod


def empty_node(name: str, cpu: str = "2") -> Node:
    return node(name, provider_id=f"aws:///us-east-1a/i-{name}", taints=[], allocatable={"cpu": cpu})


NODES = [empty_node("c"), empty_node("a"), empty_node("b")]


def test_each_pod_keeps_the_first_node_that_it_fits_and_pods_share_one_as_far_as_they_fit() -> None:
    two, third = [pod(name, cpu="1", on="old") for name in ("web-1", "web-2")], pod("web-3", cpu="1", on="old")

    assert assign_kept_nodes(NODES, two, ()) == {"a": "default/web-1"}
    assert assign_kept_nodes(NODES, [third, *two], ()) == {"a": "default/web-1", "b": "default/web-3"}
    assert assign_kept_nodes(NODES, [third, *two], ()) == assign_kept_nodes(NODES[::-1], [*two, third], ())


def test_what_runs_on_a_node_is_not_free() -> None:
    daemons = [daemon_pod("agent", "a", cpu="500m", on="a")]

    assert assign_kept_nodes(NODES, [pod("web", cpu="1600m", on="old")], daemons) == {"b": "default/web"}
    assert assign_kept_nodes(
        NODES, [pod("web", cpu="1600m", on="old")], [replace(each, phase="Succeeded") for each in daemons]
    ) == {"a": "default/web"}


def test_a_pod_keeps_neither_its_own_node_nor_one_that_it_does_not_suit_nor_one_that_is_too_small() -> None:
    bound_to = pod("web", on="a", spec={"nodeSelector": {"kubernetes.io/hostname": "c"}})

    assert assign_kept_nodes(NODES, [bound_to], ()) == {"c": "default/web"}
    assert assign_kept_nodes(NODES, [pod("web", cpu="3", on="old")], ()) == {}
    assert assign_kept_nodes([empty_node("a")], [pod("web", on="a")], ()) == {}


def test_only_drains_that_began_lately_keep_nodes() -> None:
    def found(minutes: int) -> set[str]:
        going = claim("a", provider_id="aws:///us-east-1a/i-a", deletion=NOON - timedelta(minutes=minutes))
        return set(find_recently_draining({"a", "b"}, NODES, [going], NOON))

    assert (found(10), found(11)) == ({"a", "b"}, {"b"})

"""The memory that nodes report replaces the estimate, by type and image, for 60 days."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from joiner.catalogue import InstanceType
from joiner.catalogue.observed_memory import (
    ObservedMemory,
    memory_of_nodes,
    note_observed_memory,
    valid_memory,
)
from joiner.cluster import Node, Resources
from joiner.cluster.resources import MEMORY
from joiner.pools import NodeClaim
from joiner.pools.codecs.node_claim_manifests import read_node_claim
from tests.unit.planning.drawn_clusters import node
from tests.unit.planning.test_in_flight import TYPE, claim

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
GIB = 2**30


def of_a_type(image: str, gib: int) -> tuple[NodeClaim, Node]:
    manifest = claim()
    manifest["status"]["imageID"] = image
    return read_node_claim(manifest), Node.from_kube(node("a", gib=gib))


def test_the_smallest_node_of_a_type_and_image_counts() -> None:
    nodes = [of_a_type("ami-1", 15), of_a_type("ami-1", 14), of_a_type("ami-2", 16), of_a_type("", 13)]

    assert memory_of_nodes(nodes) == {TYPE: {"ami-1": 14 * GIB, "ami-2": 16 * GIB}}


def test_a_node_without_capacity_is_no_observation() -> None:
    own, _ = of_a_type("ami-1", 15)

    assert memory_of_nodes([(own, Node("a"))]) == {}


def test_an_observation_counts_for_sixty_days_after_the_last_node() -> None:
    first = note_observed_memory({}, {TYPE: {"ami-1": 15 * GIB}}, NOON)
    again = note_observed_memory(first, {TYPE: {"ami-1": 15 * GIB}}, NOON + timedelta(days=30))

    assert valid_memory(again, NOON + timedelta(days=89)) == {TYPE: {"ami-1": 15 * GIB}}
    assert valid_memory(again, NOON + timedelta(days=90)) == {}
    assert note_observed_memory(again, {}, NOON + timedelta(days=90)) == {}


def test_nodes_with_more_memory_do_not_prolong_a_report_of_less() -> None:
    found = note_observed_memory({}, {TYPE: {"ami-1": 9 * GIB}}, NOON)
    for day in range(1, 61):
        found = note_observed_memory(found, {TYPE: {"ami-1": 15 * GIB}}, NOON + timedelta(days=day))
    after = note_observed_memory(found, {TYPE: {"ami-1": 15 * GIB}}, NOON + timedelta(days=60, minutes=1))

    assert valid_memory(after, NOON + timedelta(days=61)) == {TYPE: {"ami-1": 15 * GIB}}


def test_nothing_is_written_while_the_same_nodes_run_for_less_than_a_day() -> None:
    first = note_observed_memory({}, {TYPE: {"ami-1": 15 * GIB}}, NOON)

    assert note_observed_memory(first, {TYPE: {"ami-1": 15 * GIB}}, NOON + timedelta(hours=23)) == first
    later = note_observed_memory(first, {TYPE: {"ami-1": 15 * GIB}}, NOON + timedelta(hours=24))
    assert later == {TYPE: {"ami-1": ObservedMemory(15 * GIB, int((NOON + timedelta(days=1)).timestamp()))}}


@given(st.lists(st.integers(1, 100), min_size=1))
def test_the_order_of_the_sweeps_does_not_matter(sizes: list[int]) -> None:
    forward: dict[str, Any] = {}
    backward: dict[str, Any] = {}
    for number, (one, other) in enumerate(zip(sizes, reversed(sizes), strict=True)):
        at = NOON + timedelta(minutes=number)
        forward = dict(note_observed_memory(forward, {TYPE: {"ami-1": one}}, at))
        backward = dict(note_observed_memory(backward, {TYPE: {"ami-1": other}}, at))

    end = NOON + timedelta(days=1)
    assert valid_memory(forward, end) == valid_memory(backward, end) == {TYPE: {"ami-1": min(sizes)}}


def test_capacity_and_allocatable_change_by_the_same_amount() -> None:
    known = InstanceType(
        "m5.large",
        {"karpenter.k8s.aws/instance-memory": "8192"},
        capacity=Resources({MEMORY: 7 * GIB, "cpu": 2000}),
        allocatable=Resources({MEMORY: 6 * GIB, "cpu": 1900}),
    )
    more = known.with_memory(8 * GIB)

    assert (more.capacity, more.allocatable) == (
        Resources({MEMORY: 8 * GIB, "cpu": 2000}),
        Resources({MEMORY: 7 * GIB, "cpu": 1900}),
    )
    assert known.with_memory(None) is known
    assert known.with_memory(8 * GIB + 1) is known, "a node cannot have more than its type"
    assert known.with_memory(1) is known, "a node that reports almost nothing does not close its type"
    assert InstanceType.from_json("m5.large", more.to_json()) == more

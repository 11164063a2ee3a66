"""Launches of several claims keep the number of choices that minValues of their pool requires."""

from dataclasses import replace

import pytest

from joiner.catalogue import Catalogue
from joiner.launching import LaunchOffering
from joiner.launching.launch_grouping import group_launches
from tests.unit.launching.launch_scenario import CLUSTER, POOL, TEMPLATE, instance_type, wanted

FAMILY = "karpenter.k8s.aws/instance-family"
FAMILIES = ("m5", "c5", "r5", "m6i", "c6i")
CATALOGUE = Catalogue.of([instance_type(f"{family}.large", **{FAMILY: family}) for family in FAMILIES])


def offers(*families: str) -> tuple[LaunchOffering, ...]:
    return tuple(LaunchOffering(0.1, f"{family}.large", "us-east-1a") for family in families)


@pytest.mark.parametrize(
    ("least", "launched"),
    [
        (3, [["c5.large", "m5.large", "r5.large"]]),
        (4, [["c5.large", "m5.large", "m6i.large", "r5.large"], ["c5.large", "c6i.large", "m5.large", "r5.large"]]),
    ],
)
def test_claims_share_a_launch_only_if_it_has_the_values_that_min_values_requires(
    least: int, launched: list[list[str]]
) -> None:
    pool = replace(POOL, min_values={FAMILY: least})
    claims = [
        wanted("a", *offers("m5", "c5", "r5", "m6i"), pool=pool),
        wanted("b", *offers("m5", "c5", "r5", "c6i"), pool=pool),
    ]

    launches, refused = group_launches(claims, CATALOGUE, CLUSTER, execution="up-1")

    assert refused == ()
    assert [sorted(launch.images) for launch in launches] == launched


@pytest.mark.parametrize(
    ("minimums", "sent"),
    [
        ({}, "context-1"),
        ({FAMILY: 3}, "context-1"),
        ({FAMILY: 4}, None),
        ({FAMILY: 3, "node.kubernetes.io/instance-type": 4}, None),
        ({"topology.kubernetes.io/zone": 2}, None),
        ({"karpenter.sh/capacity-type": 2}, "context-1"),  # planning decides it
    ],
)
def test_a_launch_with_fewer_values_than_min_values_has_no_context(minimums: dict[str, int], sent: str | None) -> None:
    pool, node_class = replace(POOL, min_values=minimums), replace(TEMPLATE, context="context-1")
    claim = replace(wanted("a", *offers("m5", "c5", "r5"), pool=pool), node_class=node_class)

    (launch,), _ = group_launches([claim], CATALOGUE, CLUSTER, execution="up-1")

    assert launch.request.get("Context") == sent

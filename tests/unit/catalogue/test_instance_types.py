"""Labels and allocatable of every instance type, computed from EC2's description, against Karpenter's published table.

The descriptions are moto's copy of DescribeInstanceTypes. Where the two differ, one of them is older. Each difference
is listed here with its reason, and a new one fails the test.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import moto
import pytest

from joiner import names
from joiner.catalogue import (
    Catalogue,
    InstanceType,
    compute_allocatable,
    instance_type_from_ec2,
    load_network_facts,
    supports_nodes,
)
from joiner.cluster import Resources

PUBLISHED = Path(__file__).parents[2] / "data" / "documented_instance_types.json"
DESCRIBED = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"

SINCE_THEN = frozenset(
    [
        "c8gb",
        "c8gn",
        "c8ib",
        "c9g",
        "c9gd",
        "hpc7g",
        "i4i",
        "m8gb",
        "m8gn",
        "m8ib",
        "m8idb",
        "m8idn",
        "m8in",
        "r8gb",
        "r8gn",
        "r8ib",
        "r8idb",
        "r8idn",
        "r8in",
    ]
)
"""Families with sizes whose branch interfaces are newer than Karpenter's table; our limits have them."""

CLOCKS_NOT_LISTED = frozenset({"c1", "m1", "m2", "t1"})
"""Families whose clock speed EC2 does not publish: the table has 0, and we omit the label."""

NEW_CLOCKS = frozenset({"c9g", "c9gd", "i7i", "i7ie", "m9g", "m9gd"})
"""Families whose clock speed EC2 has corrected since."""


@pytest.fixture(scope="module")
def described() -> dict[str, Mapping[str, Any]]:
    return dict(json.loads(gzip.decompress(DESCRIBED.read_bytes())))


@pytest.fixture(scope="module")
def computed(described: Mapping[str, Mapping[str, Any]]) -> dict[str, InstanceType]:
    return {name: instance_type_from_ec2(info) for name, info in described.items() if supports_nodes(info)}


@pytest.fixture(scope="module")
def published() -> dict[str, tuple[dict[str, str], Resources]]:
    table = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    found = {}
    for name, *values in table["rows"]:
        labels = {key: value for key, value in zip(table["labels"], values, strict=False) if value is not None}
        amounts = {
            key: value
            for key, value in zip(table["allocatable"], values[len(table["labels"]) :], strict=True)
            if value is not None
        }
        found[name] = ({**labels, names.INSTANCE_TYPE: name, names.OS: "linux"}, Resources.from_kube(amounts))
    return found


def test_labels_are_those_that_karpenter_publishes(
    computed: Mapping[str, InstanceType], published: Mapping[str, tuple[dict[str, str], Resources]]
) -> None:
    differing = {
        (name.partition(".")[0], key.removeprefix(names.INSTANCE_PREFIX))
        for name, known in computed.items()
        if name in published
        for key in known.labels.keys() | published[name][0].keys()
        if known.labels.get(key) != published[name][0].get(key)
    }

    assert {key for _, key in differing} == {"cpu-sustained-clock-speed-mhz", "network-bandwidth"}
    clocks = {family for family, key in differing if key == "cpu-sustained-clock-speed-mhz"}
    assert clocks == CLOCKS_NOT_LISTED | NEW_CLOCKS
    # our own table of bandwidths is newer
    assert {family for family, key in differing if key == "network-bandwidth"} == {"g7"}


def test_allocatable_is_what_karpenter_publishes(
    computed: Mapping[str, InstanceType], published: Mapping[str, tuple[dict[str, str], Resources]]
) -> None:
    differing = {
        (name, key)
        for name, known in computed.items()
        if name in published
        for key in {*known.allocatable, *published[name][1]}
        if known.allocatable.get(key, 0) != published[name][1].get(key, 0)
    }

    # EC2 now describes fewer interfaces on the first network card of these than the table assumes
    recabled = {"i7ie.48xlarge", "i7ie.metal-48xl", "i8ge.48xlarge", "i8ge.metal-48xl"}
    assert {name for name, key in differing if key in ("pods", "memory")} == recabled
    branching = {name for name, key in differing if key == "vpc.amazonaws.com/pod-eni"}
    assert {name.partition(".")[0] for name in branching} == SINCE_THEN
    assert {key for _, key in differing} == {"pods", "memory", "vpc.amazonaws.com/pod-eni", "vpc.amazonaws.com/efa"}


def test_a_type_has_efa_only_if_a_pod_requests_it(
    computed: Mapping[str, InstanceType], published: Mapping[str, tuple[dict[str, str], Resources]]
) -> None:
    published_with = {
        name for name, (_, allocatable) in published.items() if allocatable.get("vpc.amazonaws.com/efa", 0)
    }
    assert len(published_with) > 100

    assert {name for name, known in computed.items() if known.allocatable.get("vpc.amazonaws.com/efa", 0)} == set()
    requested = {name: compute_allocatable(known, efa=True) for name, known in computed.items()}
    differing = {
        name
        for name in published_with & requested.keys()
        if requested[name]["vpc.amazonaws.com/efa"] != published[name][1]["vpc.amazonaws.com/efa"]
    }
    assert differing == set()


def test_nearly_every_published_type_is_computed(
    computed: Mapping[str, InstanceType], published: Mapping[str, tuple[dict[str, str], Resources]]
) -> None:
    assert published.keys() - computed.keys() == {
        f"g4ad.{size}" for size in ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
    }


def test_types_that_kubernetes_cannot_run_on_are_not_usable(described: Mapping[str, Mapping[str, Any]]) -> None:
    refused = {name.partition(".")[0] for name, info in described.items() if not supports_nodes(info)}

    assert {family.partition("-")[0].rstrip("0123456789") for family in refused} == {"mac"}


def test_a_label_that_a_type_has_no_fact_for_is_missing(computed: Mapping[str, InstanceType]) -> None:
    assert "karpenter.k8s.aws/instance-gpu-name" not in computed["m5.large"].labels
    assert computed["g5.xlarge"].labels["karpenter.k8s.aws/instance-gpu-name"] == "a10g"


def test_offerings_are_zones_with_a_price(described: Mapping[str, Mapping[str, Any]]) -> None:
    known = instance_type_from_ec2(described["m5.large"], ["a", "b"], {"a": 0.096, "b": 0.096}, {"b": 0.04})

    assert [(one.zone, one.capacity_type, one.price_per_hour) for one in known.offerings] == [
        ("a", "on-demand", 0.096),
        ("b", "on-demand", 0.096),
        ("b", "spot", 0.04),
    ]
    assert instance_type_from_ec2(described["m5.large"], ["a"]).offerings == ()


def test_the_catalogue_is_read_back_as_it_was_written(computed: Mapping[str, InstanceType]) -> None:
    catalogue = Catalogue.of(computed.values())

    assert Catalogue.from_json(json.loads(json.dumps(catalogue.to_json()))) == catalogue


def test_the_packaged_table_knows_all_but_the_newest_types(computed: Mapping[str, InstanceType]) -> None:
    unknown = {name.partition(".")[0] for name in computed.keys() - load_network_facts().keys()}

    assert unknown <= {"r9g", "r9gd", "t8i"}

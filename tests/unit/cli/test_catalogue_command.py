"""`joiner catalogue`: its output can be used for plans, and the packaged catalogue is up to date."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from joiner.catalogue import Catalogue
from joiner_cli.catalogue_files import packaged_catalogue
from joiner_local.packaged_data import catalogue_facts, kube_schemas
from tests.unit.cli.command_runs import joiner, pod, pool, write


def test_each_mistake_of_a_catalogue_has_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "types.json"
    path.write_text(json.dumps({f"m{number}.large": {"network": {"interfaces": 1}} for number in range(7)}))

    answer = joiner("catalogue", "--catalogue", path)

    assert answer.exit_code == 1
    missing = "network.addressesEach is missing: give a whole number"
    assert answer.err.splitlines() == [
        *(f"joiner: {path}: m{number}.large.{missing}" for number in range(5)),
        f"joiner: {path}: and 2 more mistakes",
    ]


def test_the_table_shows_what_a_node_can_allocate_and_what_it_costs() -> None:
    assert (
        joiner("catalogue", "m5.large", "g4dn.xlarge", "c7g.*medium").out
        == """\
INSTANCE TYPE  ARCH   VCPU    CPU   MEMORY  PODS  DEVICES           CAPACITY      $/H  ZONES
c7g.medium     arm64     1   940m   1392Mi     8  -                 on-demand  0.0363  us-east-1 a b c d f
g4dn.xlarge    amd64     4  3920m  14481Mi    29  1 nvidia.com/gpu  on-demand  0.5260  us-east-1 a b c d f
m5.large       amd64     2  1930m   6903Mi    29  -                 on-demand  0.0960  us-east-1 a b c d f
"""
    )


def test_the_json_has_all_that_planning_needs() -> None:
    shown = joiner("catalogue", "m5.large", "-o", "json").json["m5.large"]

    assert shown["capacity"] == {
        "cpu": "2",
        "memory": "7577Mi",
        "pods": "29",
        "ephemeral-storage": "20Gi",
        "vpc.amazonaws.com/pod-eni": "9",
    }
    assert shown["allocatable"]["cpu"] == "1930m"
    assert shown["labels"]["karpenter.k8s.aws/instance-category"] == "m"
    assert {"zone": "us-east-1a", "capacityType": "on-demand", "pricePerHour": 0.096} in shown["offerings"]


def test_what_is_printed_is_read_back_unchanged(tmp_path: Path) -> None:
    answer = joiner("catalogue", "-o", "json")
    file = tmp_path / "all.json"
    file.write_text(answer.out, encoding="utf-8")

    assert Catalogue.from_json(answer.json) == packaged_catalogue()
    assert joiner("catalogue", "--catalogue", file, "-o", "json").out == answer.out
    assert "catalogue: packaged, facts of 2026-07-20, 1,340 instance types" in answer.err


def test_commitments_of_a_deployed_catalogue_are_read_and_planned_with(tmp_path: Path) -> None:
    types = json.loads(joiner("catalogue", "m5.large", "-o", "json").out)
    reserved = {"id": "ri-1", "amount": 1, "uses": {"m5.large": 1}}
    elsewhere = {"id": "ri-2", "amount": 1, "uses": {"m5.large": 1}, "zone": "eu-west-1a"}
    file = tmp_path / "latest.json"
    file.write_text(json.dumps({**types, "commitments": [reserved, elsewhere]}), encoding="utf-8")

    shown = joiner("catalogue", "m5.*", "--catalogue", file, "-o", "json")
    there = joiner("catalogue", "--catalogue", file, "--region", "us-east-1", "-o", "json")
    planned = joiner("plan", "-f", write(tmp_path, pool(), pod("a")), "--catalogue", file, "-o", "json")

    assert shown.json["commitments"] == [reserved, elsewhere]
    assert there.json["commitments"] == [reserved]
    assert [node["instanceType"] for node in planned.json["nodes"]] == ["m5.large"]
    assert planned.json["committedPerHour"] > 0.09


def test_a_commitment_that_no_instance_type_uses_gives_a_warning(tmp_path: Path) -> None:
    types = json.loads(joiner("catalogue", "m5.large", "-o", "json").out)
    file = tmp_path / "latest.json"
    unused = {"id": "ri-1", "amount": 1, "uses": {"m5.lrage": 1}}
    nowhere = {"id": "ri-2", "amount": 1, "uses": {"m5.large": 1}, "zone": "us-east-1z"}
    file.write_text(json.dumps({**types, "commitments": [unused, nowhere]}), encoding="utf-8")
    warning = f"joiner: warning: {file}: commitments[0].uses is {{m5.lrage: 1}}: the catalogue has none of these"

    shown = joiner("catalogue", "--catalogue", file)
    planned = joiner("plan", "-f", write(tmp_path, pool(), pod("a")), "--catalogue", file)

    assert (shown.exit_code, planned.exit_code) == (0, 0)
    for answer in (shown, planned):
        assert warning in answer.err
        assert "instance types, so that nothing uses it; did you mean m5.large?" in answer.err
        assert "commitments[1].zone is us-east-1z: nothing uses it: the catalogue has no such zone;" in answer.err


def test_an_unknown_type_is_an_error() -> None:
    answer = joiner("catalogue", "m5.large", "m55.large")

    assert (answer.exit_code, answer.out) == (1, "")
    assert (
        answer.err
        == "joiner: m55.large: there is no such instance type: see `joiner catalogue`; did you mean m5.large?\n"
    )


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        ("[]", "it is not a mapping"),
        ("{", "its JSON is incomplete at the end, in line 1: it must be JSON"),
        ({"m5.large": []}, "m5.large is []: give fields (key: value) here"),
        ({"m5.large": {"capacity": {"cpu": "two"}}}, "m5.large.capacity.cpu is two: give a quantity"),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": "cheap"}]}},
            "m5.large.offerings[0].pricePerHour is cheap: give a price in $/h, such as 0.096",
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": -1}]}},
            "pricePerHour is -1: give a price",
        ),
        ({"m5.large": {"labels": {"a": 1}}}, 'm5.large.labels[a] is 1: put it in quotes: "1"'),
        (
            {"m5.large": {}},
            "m5.large.capacity is missing: give cpu, memory and pods, as `joiner catalogue -o json` does",
        ),
        (
            {"m5.large": {"network": {}}},
            "m5.large.network.addressesEach is missing: give a whole number",
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "sport", "pricePerHour": 1}]}},
            "m5.large.offerings[0].capacityType is sport: write one of on-demand, spot, reserved",
        ),
        (
            {"m5.large": {"offerings": [{"capacityType": "spot", "pricePerHour": 1}]}},
            "m5.large.offerings[0].zone is missing: give",
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": 1, "reservation": 5}]}},
            "m5.large.offerings[0].reservation is 5: put it in quotes",
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": 1, "count": -1}]}},
            "m5.large.offerings[0].count is -1: give a number of at least 0",
        ),
        (
            {"commitments": [{"id": "ri-1", "amount": 10**30}]},
            "commitments[0].amount is 1000000000000000000000000000000",
        ),
        ({"commitments": {}}, "commitments is {}: give a list here"),
        ({"commitments": [{"id": "ri-1"}]}, "commitments[0].amount is missing: give the units"),
        (
            {"commitments": [{"id": "ri-1", "amount": 1, "uses": {"m5.large": "one"}}]},
            "commitments[0].uses.m5.large is one: give a whole number",
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": 1, "count": 1}]}},
            "m5.large.offerings[0].count is 1: only an offering of the capacityType reserved has it: remove it",
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHuor": 1}]}},
            'm5.large.offerings[0].pricePerHuor is 1: there is no such field; did you mean "pricePerHour"?',
        ),
        (
            {"m5.large": {"offerings": [{"zone": "a", "capacityType": "spot", "pricePerHour": 1}] * 2}},
            "m5.large.offerings[1] is a spot: it is there twice: remove one of them",
        ),
        (
            {"m5.large": {"ofefrings": []}},
            'm5.large.ofefrings is []: there is no such field; did you mean "offerings"?',
        ),
        (
            {"m5.large": {"network": {"interfaces": 1, "addressesEach": 1, "cards": 2}}},
            "m5.large.network.cards is 2: there is no such field",
        ),
        ({"m5.large": {"features": {"cards": ["a"]}}}, "m5.large.features.cards is [a]: give the list of the numbers"),
        (
            {"m5.large": {"features": {"efas": 1}}},
            'm5.large.features.efas is 1: there is no such field; did you mean "efa"',
        ),
        ({"m5.large": {"observedMemory": {"ami-1": "4Gi"}}}, "observedMemory.ami-1 is 4Gi: give a whole number"),
        ({"m5.large": {"dedicatedSurchargePerHour": "1"}}, "dedicatedSurchargePerHour is 1: give a price in $/h"),
        (
            {"commitments": [{"id": "ri-1", "amount": 1}, {"id": "ri-1", "amount": 2}]},
            "commitments[1].id is ri-1: another commitment has this id, too: give each its own",
        ),
        (
            {"commitments": [{"id": "ri-1", "amount": 1, "zoen": "a"}]},
            'commitments[0].zoen is a: there is no such field; did you mean "zone"?',
        ),
        ({}, "it has no instance types"),
    ],
)
def test_an_invalid_catalogue_is_refused_with_its_field(content: Any, refusal: str, tmp_path: Path) -> None:
    file = tmp_path / "catalogue.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    answer = joiner("plan", "-f", write(tmp_path, pool(), pod("a")), "--catalogue", file)

    assert answer.exit_code == 1
    assert refusal in answer.err


@pytest.mark.parametrize(
    ("content", "refusal"),
    [
        (b"", "it is empty"),
        (gzip.compress(b"{}" * 5000)[:30], "it is compressed, and incomplete or damaged: fetch it again"),
        (b"\x28\xb5\x2f\xfd\x04\x00", "it is compressed by something else than gzip, or no text"),
    ],
    ids=["nothing", "half of it", "zstd"],
)
def test_a_catalogue_that_is_no_text_is_refused_as_what_it_is(content: bytes, refusal: str, tmp_path: Path) -> None:
    file = tmp_path / "catalogue.json.gz"
    file.write_bytes(content)

    answer = joiner("catalogue", "--catalogue", file)

    assert (answer.exit_code, refusal in answer.err) == (1, True), answer.err


def test_the_packaged_facts_are_up_to_date() -> None:
    """Update them with ``python -m joiner_local.packaged_data.catalogue_facts``."""
    kept = json.loads(gzip.decompress(catalogue_facts.PACKAGED.read_bytes()))

    assert kept == json.loads(json.dumps(catalogue_facts.facts()))
    assert catalogue_facts.PACKAGED.stat().st_size < 60_000


def test_the_packaged_schemas_of_custom_resources_are_up_to_date() -> None:
    """Update them with ``python -m joiner_local.packaged_data.kube_schemas``, as must be whenever a CRD changes."""
    assert kube_schemas.read(kube_schemas.OURS) == json.loads(json.dumps(kube_schemas.of_crds()))

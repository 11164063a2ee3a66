"""What settings change in the catalogue of a plan: as the next refresh of a deployed catalogue would."""

import gzip
import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from joiner.catalogue import Catalogue, Offering, instance_type_from_ec2
from joiner.catalogue.allocatable import CapacityEstimate
from joiner.cluster import Resources
from joiner_cli.catalogue_settings import apply_settings
from joiner_cli.settings_limits import read_limits
from tests.unit.cli.command_runs import deployment, joiner, node_class, pool, write
from tests.unit.cli.small_catalogue import small

RESERVED = {"reservedInstances": [{"instanceType": "m5.large", "count": 2}]}


def changed(folder: Path, catalogue: Catalogue, **settings: Any) -> tuple[Catalogue, list[str]]:
    path = folder / "prod.yaml"
    path.write_text(json.dumps({"cluster": "prod", "region": "us-east-1", **settings}))
    made, notes = apply_settings(catalogue, read_limits(path))
    return made, [str(each) for each in notes]


def test_memory_and_pods_are_what_a_refresh_with_these_settings_finds(tmp_path: Path) -> None:
    estimate = CapacityEstimate(0.05, 1)
    packaged = json.loads(gzip.decompress((files("joiner_cli") / "data" / "us-east-1.json.gz").read_bytes()))["types"]
    made, notes = changed(tmp_path, small(), nodes={"memoryOverheadPercent": 5, "reservedInterfaces": 1})

    for name, known in small().types.items():
        refreshed = instance_type_from_ec2({**packaged[name]["info"], "InstanceType": name}, estimate=estimate)
        assert (made.types[name].capacity, made.types[name].allocatable) == (refreshed.capacity, refreshed.allocatable)
        assert made.types[name].capacity != known.capacity
    assert notes == []


def test_measured_memory_of_a_catalogue_stays_and_is_noted(tmp_path: Path) -> None:
    known = small().types["m5.large"]
    measured = replace(known, capacity=Resources({**known.capacity, "memory": 8 * 10**9}))

    made, (note,) = changed(tmp_path, Catalogue.of([measured]), nodes={"memoryOverheadPercent": 5})

    assert made.types["m5.large"] == measured
    assert note.startswith("settings: nodes: memory and pods of m5.large are those of the catalogue")


def test_a_catalogue_of_a_deployment_with_the_same_settings_needs_no_note(tmp_path: Path) -> None:
    settings = {"memoryOverheadPercent": 5, "reservedInterfaces": 1}
    deployed, _ = changed(tmp_path, small(), nodes=settings)

    assert changed(tmp_path, deployed, nodes=settings) == (deployed, [])


def test_prices_of_the_price_file_replace_those_of_the_catalogue_in_its_region(tmp_path: Path) -> None:
    table = {"region": "us-east-1", "published": "2026-07-20", "prices": {"m5.large": 0.5}}
    (tmp_path / "prices.json").write_text(json.dumps(table))
    here, there = Offering("us-east-1a", "on-demand", 0.1), Offering("eu-west-1a", "on-demand", 0.1)
    spot = replace(here, capacity_type="spot", zone="us-east-1b", price_per_hour=0.04)
    types = [replace(small().types[name], offerings=(here, spot, there)) for name in ("m5.large", "m5.xlarge")]

    made, notes = changed(tmp_path, Catalogue.of(types), prices={"file": "prices.json"})

    sold = {
        name: [(one.zone, one.capacity_type, one.price_per_hour) for one in known.offerings]
        for name, known in made.types.items()
    }
    elsewhere = ("eu-west-1a", "on-demand", 0.1)
    assert sold == {
        "m5.large": [
            elsewhere,
            ("us-east-1a", "on-demand", 0.5),
            ("us-east-1b", "on-demand", 0.5),
            ("us-east-1b", "spot", 0.04),
        ],
        "m5.xlarge": [elsewhere, ("us-east-1b", "spot", 0.04)],
    }
    assert notes == [
        "settings: prices.file: on-demand prices are those of the price file, published on 2026-07-20; types without a "
        "price there are not launched on demand: m5.xlarge"
    ]


def test_interruptions_have_no_price_if_they_lose_nothing(tmp_path: Path) -> None:
    spot = Offering("us-east-1a", "spot", 0.04, interruptions=0.02)
    catalogue = Catalogue.of([small().types["m5.large"].with_offerings([spot])])

    kept, _ = changed(tmp_path, catalogue)
    made, _ = changed(tmp_path, catalogue, planning={"interruptionLostHours": 0})

    assert [each.types["m5.large"].offerings[0].interruptions for each in (kept, made)] == [0.02, 0.0]


def test_commitments_of_the_settings_are_used_unless_the_catalogue_has_them_already(tmp_path: Path) -> None:
    made, none = changed(tmp_path, small(), commitments=RESERVED)
    again, also_none = changed(tmp_path, made, commitments=RESERVED)
    more = {"reservedInstances": [{"instanceType": "m5.large", "count": 3}]}
    kept, (note,) = changed(tmp_path, made, commitments=more)

    assert [(one.id, one.amount) for one in made.commitments] == [("reserved-instances/m5", 32)]
    assert (again.commitments, kept.commitments) == (made.commitments, made.commitments)
    assert (none, also_none) == ([], [])
    assert note.startswith(
        "settings: commitments: commitments.reservedInstances[0] of the settings is not added to the commitments"
    )


def test_commitments_that_nothing_can_use_are_reported_with_their_setting(tmp_path: Path) -> None:
    declared = {
        "reservedInstances": [
            {"instanceType": "m5.large", "count": 1},
            {"instanceType": "m5.lrge", "count": 2},
            {"instanceType": "m5.large", "count": 1, "zone": "us-east-1z"},
            {"instanceType": "m5.xlarge", "count": 1, "zone": "us-east-1b"},
        ],
        "savingsPlans": [
            {"pricePerHour": 0.05, "discountPercent": 28},
            {"pricePerHour": 3, "discountPercent": 28, "family": "m55"},
        ],
    }
    here = Offering("us-east-1a", "on-demand", 0.1)
    there = replace(here, zone="us-east-1b")
    types = [small().types[name].with_offerings([one]) for name, one in (("m5.large", there), ("m5.xlarge", here))]

    made, notes = changed(tmp_path, Catalogue.of(types), commitments=declared)
    kept = replace(made, commitments=made.commitments[:1])
    _, (*_, note) = changed(tmp_path, kept, commitments=declared)

    assert notes == [
        "settings: commitments.reservedInstances[1].instanceType is m5.lrge: nothing uses it: the catalogue has no "
        "such instance type; did you mean m5.large or m5.xlarge?",
        "settings: commitments.reservedInstances[2].zone is us-east-1z: nothing uses it: the catalogue has no such "
        "zone; there are us-east-1a, us-east-1b",
        "settings: commitments.reservedInstances[3].zone is us-east-1b: nothing uses it: m5.xlarge is not offered "
        "there on demand: it is in us-east-1a",
        "settings: commitments.savingsPlans[1].family is m55: nothing uses it: the catalogue has no such family; did "
        'you mean "m5"?',
    ]
    assert "commitments.reservedInstances[3], commitments.savingsPlans[0] of the settings are not added" in note


def test_a_plan_with_settings_fills_reserved_instances_first(tmp_path: Path, catalogue: Path) -> None:
    choice = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "c6i.large"]}
    manifests = write(
        tmp_path,
        node_class(role="joiner-node-prod-us-east-1"),
        pool(requirements=[choice]),
        deployment("web", 1, cpu="1"),
    )
    (tmp_path / "prod.yaml").write_text(json.dumps({"cluster": "prod", "region": "us-east-1", "commitments": RESERVED}))
    arguments = ("plan", "-f", manifests, "--catalogue", catalogue, "-o", "json")

    without, declared = joiner(*arguments), joiner(*arguments, "--settings", tmp_path / "prod.yaml")

    assert [one.json["nodes"][0]["instanceType"] for one in (without, declared)] == ["c6i.large", "m5.large"]
    assert declared.json["priceParts"]["instance"] < without.json["priceParts"]["instance"] / 100

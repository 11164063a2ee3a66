"""Capacity reservations of a dump are used with the numbers of the catalogue; without them the plan says so."""

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.command_runs import CommandResult, joiner, node_class, pod, pool, write

ID = "cr-0123456789abcdef0"
TERMS = [{"id": ID}]
KIND = {"key": "karpenter.sh/capacity-type", "operator": "In"}
RESERVED = {**KIND, "values": ["reserved"]}
EITHER = {**KIND, "values": ["reserved", "on-demand"]}
SPOT_TOO = {**KIND, "values": ["reserved", "spot"]}


def of_status(**fields: Any) -> dict[str, Any]:
    there = {"id": ID, "instanceType": "m5.xlarge", "availabilityZone": "us-east-1b", "ownerID": "123456789012"}
    default = {"instanceMatchCriteria": "targeted", "reservationType": "default", "state": "active"}
    return {"capacityReservations": [{**there, **default, **fields}]}


def plan(folder: Path, catalogue: Path, *manifests: dict[str, Any]) -> CommandResult:
    return joiner("plan", "-f", write(folder, *manifests), "--catalogue", catalogue, "-o", "json")


def with_reservation(catalogue: Path, folder: Path) -> Path:
    """Return a catalogue in which one instance of the reservation is free."""
    types = json.loads(catalogue.read_text())
    offering = {"zone": "us-east-1b", "capacityType": "reserved", "pricePerHour": 0, "reservation": ID, "count": 1}
    types["m5.xlarge"]["offerings"].append(offering)
    file = folder / "reserved.json"
    file.write_text(json.dumps(types))
    return file


def messages(found: CommandResult) -> dict[str, str]:
    return {f"{one['object']} {one['severity']}": one["message"] for one in found.json["problems"]}


def test_the_status_does_not_tell_how_many_instances_are_free(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(of_status(), capacityReservationSelectorTerms=TERMS)

    found = plan(tmp_path, catalogue, there, pool(requirements=[EITHER]), pod("a"))

    assert [one["capacityType"] for one in found.json["nodes"]] == ["on-demand"]
    assert messages(found)["EC2NodeClass/default info"].endswith(
        f"the status does not say how many instances are free in {ID} (m5.xlarge in us-east-1b): this plan uses none "
        'of them; to use one, give --catalogue FILE in which m5.xlarge has the offering {"zone": "us-east-1b", '
        f'"capacityType": "reserved", "pricePerHour": 0, "reservation": "{ID}", "count": 1}}, with the number of free '
        "instances as count"
    )


def test_as_many_nodes_as_the_catalogue_has_free_are_in_the_reservation(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(of_status(), capacityReservationSelectorTerms=TERMS)
    pods = [pod("a", cpu="3"), pod("b", cpu="3")]

    found = plan(tmp_path, with_reservation(catalogue, tmp_path), there, pool(requirements=[EITHER]), *pods)

    nodes = found.json["nodes"]
    assert sorted(one["capacityType"] for one in nodes) == ["on-demand", "reserved"]
    labels = next(one["labels"] for one in nodes if one["capacityType"] == "reserved")
    assert labels["karpenter.k8s.aws/capacity-reservation-id"] == ID
    assert labels["karpenter.k8s.aws/capacity-reservation-type"] == "default"
    assert not [one for one in messages(found).values() if "reservation" in one]


def test_a_class_without_a_status_says_what_its_terms_are_taken_for(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(capacityReservationSelectorTerms=TERMS)
    objects = (there, pool(requirements=[EITHER]), pod("a"))

    without = messages(plan(tmp_path, catalogue, *objects))["EC2NodeClass/default info"]
    counted = messages(plan(tmp_path, with_reservation(catalogue, tmp_path), *objects))["EC2NodeClass/default info"]

    assert "capacity reservations are not looked up: this plan uses none; to use one, give --catalogue" in without
    assert counted.endswith("are not looked up: this plan assumes that they select those of the catalogue")


def test_reservations_that_a_class_does_not_select_are_reported(tmp_path: Path, catalogue: Path) -> None:
    reserved = with_reservation(catalogue, tmp_path)
    objects = (pool(requirements=[EITHER]), pod("a"))

    unset = messages(plan(tmp_path, reserved, node_class(), *objects))
    other = messages(plan(tmp_path, reserved, node_class(of_status(id="cr-9")), *objects))

    assert f"a cluster launches no node of it in {ID} of the catalogue" in unset["EC2NodeClass/default warning"]
    assert f"a cluster launches no node of it in {ID} of the catalogue" in other["EC2NodeClass/default warning"]
    assert "how many instances are free in cr-9" in other["EC2NodeClass/default info"]


def test_an_expiring_reservation_takes_no_nodes(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(of_status(state="expiring"), capacityReservationSelectorTerms=TERMS)

    found = plan(tmp_path, catalogue, there, pool(requirements=[EITHER]), pod("a"))

    assert f"{ID} is expiring: it takes no new nodes" in messages(found)["EC2NodeClass/default info"]


def test_a_pool_of_reserved_nodes_only_has_the_missing_numbers_as_its_reason(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(of_status(), capacityReservationSelectorTerms=TERMS)
    wanting = pod("b", nodeSelector={"karpenter.sh/capacity-type": "reserved"})
    only, either = pool("only", requirements=[RESERVED]), pool("either", requirements=[EITHER])

    found = plan(tmp_path, catalogue, there, only, either, wanting)

    none = "the catalogue has no capacity reservations (--catalogue)"
    (pending,) = found.json["pending"]
    assert {one["nodePool"]: one["reason"] for one in pending["reasons"]} == {
        "only": f"it allows reserved capacity only, and {none}: add them, or allow on-demand, too",
        "either": f"the pod requires reserved capacity, and {none}",
    }
    assert messages(found)["NodePool/only warning"] == f"{none}: add them, or allow on-demand, too"


def test_a_pool_of_reserved_and_spot_nodes_uses_reservations_without_spot_prices(
    tmp_path: Path, catalogue: Path
) -> None:
    types = json.loads(with_reservation(catalogue, tmp_path).read_text())
    for known in types.values():
        known["offerings"] = [one for one in known["offerings"] if one["capacityType"] != "spot"]
    file = tmp_path / "without-spot.json"
    file.write_text(json.dumps(types))
    there = node_class(of_status(), capacityReservationSelectorTerms=TERMS)

    found = plan(tmp_path, file, there, pool(requirements=[SPOT_TOO]), pod("a"))

    assert [one["capacityType"] for one in found.json["nodes"]] == ["reserved"]

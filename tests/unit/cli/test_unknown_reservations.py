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


def capacity_types(found: CommandResult) -> list[str]:
    return sorted(one["capacityType"] for one in found.json["nodes"])


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
    by_tags = node_class(of_status(id="cr-9"), capacityReservationSelectorTerms=[{"tags": {"team": "web"}}])
    other = messages(plan(tmp_path, reserved, by_tags, *objects))

    none = f"a cluster launches no node of it in {ID} of the catalogue, and this plan has none there"
    assert none in unset["EC2NodeClass/default warning"]
    assert none in other["EC2NodeClass/default warning"]
    assert "how many instances are free in cr-9" in other["EC2NodeClass/default info"]


def test_pools_without_reserved_capacity_need_no_reservation_of_the_catalogue(tmp_path: Path, catalogue: Path) -> None:
    reserved = with_reservation(catalogue, tmp_path)
    on_demand = {**KIND, "values": ["on-demand"]}
    other = pool("other", requirements=[on_demand])
    other["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "other"
    selecting = (node_class(of_status(), capacityReservationSelectorTerms=TERMS), pool(requirements=[EITHER]))
    unselecting = {**node_class(), "metadata": {"name": "other"}}

    alone = plan(tmp_path, reserved, node_class(), pool(requirements=[on_demand]), pod("a"))
    both = plan(tmp_path, reserved, *selecting, unselecting, other, pod("a"))

    assert not [one for one in (*messages(alone).values(), *messages(both).values()) if "reservation" in one]
    assert capacity_types(both) == ["reserved"]


def test_reservations_of_a_class_without_pools_of_reserved_capacity_are_reported(
    tmp_path: Path, catalogue: Path
) -> None:
    on_demand = pool(requirements=[{**KIND, "values": ["on-demand"]}])
    warning = (
        "no pool of this class allows karpenter.sh/capacity-type reserved, so that no node uses the reservations: add "
        "it to the requirements of a pool"
    )

    for there in (node_class(), node_class(of_status())):
        there["spec"]["capacityReservationSelectorTerms"] = TERMS
        for file in (catalogue, with_reservation(catalogue, tmp_path)):
            found = messages(plan(tmp_path, file, there, on_demand, pod("a")))
            assert [one for one in found.values() if "reservation" in one and "settings" not in one] == [warning]
    used = messages(plan(tmp_path, catalogue, there, on_demand, pool("either", requirements=[EITHER]), pod("a")))
    assert warning not in used.values()


def test_an_expiring_reservation_takes_no_nodes(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(of_status(state="expiring"), capacityReservationSelectorTerms=TERMS)

    found = plan(tmp_path, with_reservation(catalogue, tmp_path), there, pool(requirements=[EITHER]), pod("a"))

    assert capacity_types(found) == ["on-demand"]
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


OTHER = "cr-0fedcba9876543210"
BY_TAGS = [{"tags": {"team": "web"}}]


def test_a_term_with_an_id_selects_this_reservation_only(tmp_path: Path, catalogue: Path) -> None:
    reserved = with_reservation(catalogue, tmp_path)
    by_id = node_class(capacityReservationSelectorTerms=[{"id": OTHER}])
    stale = node_class(of_status(), capacityReservationSelectorTerms=[{"id": OTHER}])
    by_tags = node_class(capacityReservationSelectorTerms=BY_TAGS)

    excluded, old, assumed = (
        plan(tmp_path, reserved, one, pool(requirements=[EITHER]), pod("a")) for one in (by_id, stale, by_tags)
    )

    assert capacity_types(excluded) == capacity_types(old) == ["on-demand"]
    assert capacity_types(assumed) == ["reserved"]
    assert "are not looked up: this plan uses none" in messages(excluded)["EC2NodeClass/default info"]
    assert f'"reservation": "{OTHER}"' in messages(excluded)["EC2NodeClass/default info"]
    assert f"no node of it in {ID} of the catalogue" in messages(excluded)["EC2NodeClass/default warning"]


def test_only_the_named_reservations_are_assumed(tmp_path: Path, catalogue: Path) -> None:
    types = json.loads(with_reservation(catalogue, tmp_path).read_text())
    more = {"zone": "us-east-1a", "capacityType": "reserved", "pricePerHour": 0, "reservation": "cr-9", "count": 1}
    types["m5.large"]["offerings"].append(more)
    file = tmp_path / "two.json"
    file.write_text(json.dumps(types))
    there = node_class(capacityReservationSelectorTerms=[*TERMS, {"id": OTHER}])

    note = messages(plan(tmp_path, file, there, pool(requirements=[EITHER]), pod("a")))["EC2NodeClass/default info"]

    assert f"assumes that they select {ID} of the catalogue, and uses none of {OTHER}; to use one, give" in note


def test_an_absent_class_selects_no_reservation(tmp_path: Path, catalogue: Path) -> None:
    found = plan(tmp_path, with_reservation(catalogue, tmp_path), pool(requirements=[EITHER]), pod("a"))

    assert capacity_types(found) == ["on-demand"]
    warning = "it selects no capacity reservations: a cluster launches no node of it in"
    assert warning in messages(found)["EC2NodeClass/default warning"]


def test_an_aws_node_template_selects_no_reservation(tmp_path: Path, catalogue: Path) -> None:
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "old"},
        "spec": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
    }
    provisioner = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"providerRef": {"name": "old"}, "requirements": [EITHER]},
    }

    found = plan(tmp_path, with_reservation(catalogue, tmp_path), template, provisioner, pod("a"))

    assert capacity_types(found) == ["on-demand"]
    assert "only an EC2NodeClass selects" in messages(found)["AWSNodeTemplate/old warning"]


def test_a_status_that_contradicts_the_catalogue_is_reported(tmp_path: Path, catalogue: Path) -> None:
    elsewhere = of_status(instanceType="c6i.large", availabilityZone="us-east-1a")
    there = node_class(elsewhere, capacityReservationSelectorTerms=TERMS)

    found = plan(tmp_path, with_reservation(catalogue, tmp_path), there, pool(requirements=[EITHER]), pod("a"))

    assert capacity_types(found) == ["on-demand"]
    assert messages(found)["EC2NodeClass/default warning"] == (
        f"{ID} is of c6i.large in us-east-1a, and the catalogue has it as m5.xlarge in us-east-1b: this plan uses none "
        "of it: correct the file"
    )


def test_a_static_pool_of_reserved_nodes_lacks_reservations_and_not_types(tmp_path: Path, catalogue: Path) -> None:
    found = plan(tmp_path, catalogue, node_class(), pool(requirements=[RESERVED], replicas=2))

    (lacking,) = found.json["unlaunched"]
    none = "it allows reserved capacity only, and the catalogue has no capacity reservations (--catalogue)"
    assert lacking["reason"] == f"{none}: add them, or allow on-demand, too"
    replicas = next(one["message"] for one in found.json["problems"] if one["field"] == "spec.replicas")
    assert replicas == f"2 of these nodes cannot be launched: {lacking['reason']}"


def test_a_claim_for_reserved_capacity_lacks_reservations_and_not_types(tmp_path: Path, catalogue: Path) -> None:
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "mine"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [RESERVED],
        },
    }

    found = plan(tmp_path, catalogue, node_class(), claim)

    launched = [one["message"] for one in found.json["problems"] if "no instance is launched" in one["message"]]
    assert ["it allows reserved capacity only, and the catalogue has no capacity" in one for one in launched] == [True]


def test_reserved_or_spot_pools_without_either_name_both(tmp_path: Path, catalogue: Path) -> None:
    types = json.loads(catalogue.read_text())
    for known in types.values():
        known["offerings"] = [one for one in known["offerings"] if one["capacityType"] != "spot"]
    catalogue.write_text(json.dumps(types))

    found = plan(tmp_path, catalogue, node_class(), pool(requirements=[SPOT_TOO]), pod("a"))

    ((reason,),) = [one["reasons"] for one in found.json["pending"]]
    assert reason["reason"] == (
        "it allows Spot Instances and reserved capacity only, the catalogue has no spot prices (--catalogue), and its "
        "class has no free instance in a capacity reservation of the catalogue that the pool allows"
    )


def test_a_pod_that_selects_a_reservation_of_its_class_lacks_it(tmp_path: Path, catalogue: Path) -> None:
    wanting = pod("a", nodeSelector={"karpenter.k8s.aws/capacity-reservation-id": ID})
    declared = node_class(of_status(), capacityReservationSelectorTerms=TERMS)
    reserved = with_reservation(catalogue, tmp_path)

    by_status, by_terms, unselected, used = (
        plan(tmp_path, file, one, pool(requirements=[EITHER]), wanting)
        for file, one in (
            (catalogue, declared),
            (catalogue, node_class(capacityReservationSelectorTerms=TERMS)),
            (catalogue, node_class()),
            (reserved, declared),
        )
    )

    none = (
        f"the pod requires the capacity reservation {ID}, and the catalogue has no capacity reservations (--catalogue)"
    )
    assert [one.json["pending"][0]["reasons"][0]["reason"] for one in (by_status, by_terms)] == [none, none]
    assert "no node of this pool has that" in unselected.json["pending"][0]["reasons"][0]["reason"]
    assert capacity_types(used) == ["reserved"]


def test_a_misspelt_type_is_not_blamed_on_reservations(tmp_path: Path, catalogue: Path) -> None:
    misspelt = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.lrage"]}

    found = plan(tmp_path, catalogue, node_class(), pool(requirements=[RESERVED, misspelt]), pod("a"))

    assert "did you mean m5.large" in messages(found)["NodePool/default warning"]
    assert found.json["pending"][0]["reasons"][0]["reason"] == (
        "no instance type that is available meets the pool's requirements"
    )


def test_a_class_that_selects_nothing_is_the_reason_of_a_reserved_pool(tmp_path: Path, catalogue: Path) -> None:
    found = plan(tmp_path, with_reservation(catalogue, tmp_path), node_class(), pool(requirements=[RESERVED]), pod("a"))

    assert found.json["pending"][0]["reasons"][0]["reason"] == (
        "it allows reserved capacity only, and no capacity reservation of the catalogue that its class "
        "EC2NodeClass/default selects has a free instance for it: add one, or allow on-demand, too"
    )


def test_the_explanation_of_a_pod_knows_the_reservations_of_its_class(tmp_path: Path, catalogue: Path) -> None:
    there = node_class(of_status(), capacityReservationSelectorTerms=TERMS)
    file = write(tmp_path, there, pool(requirements=[RESERVED]), pod("a", cpu="3"), pod("b", cpu="9"))

    found = joiner("explain", "pod", "b", "-f", file, "--catalogue", with_reservation(catalogue, tmp_path))

    assert "too small: short of cpu" in found.out


def test_a_pool_that_excludes_all_other_capacity_is_shown_as_it_is_written(tmp_path: Path, catalogue: Path) -> None:
    excludes = {**KIND, "operator": "NotIn", "values": ["spot", "on-demand"]}

    found = plan(tmp_path, catalogue, node_class(), pool(requirements=[excludes]), pod("a"))

    (problem,) = [one for one in found.json["problems"] if one["object"] == "NodePool/default"]
    assert (problem["field"], problem["value"]) == (
        "spec.template.spec.requirements[karpenter.sh/capacity-type]",
        "NotIn [on-demand, spot]",
    )

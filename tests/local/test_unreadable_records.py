"""A table item that cannot be parsed stops no other: one broken item among correct ones, for each kind."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from joiner.adapters.disruption_items import DisruptionRecord, LastProposal
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.drift_detections import DriftDetections
from joiner.adapters.dynamodb_table import DynamoTable
from joiner.adapters.empty_nodes import EmptyNodes
from joiner.adapters.item_reading import UnreadableRecord
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, OfferingKey
from joiner.adapters.orphan_records import Absences, Impairments
from joiner.adapters.planning_back_off_items import PlanningBackOffs
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from joiner.disruption.drift_schedule import LastDetection
from joiner.lifecycle.class_verdicts import ClassVerdict
from joiner.lifecycle.planning_back_off import PendingPodClass, PlanningBackOff
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

NEWER = {"schemaNumber": {"N": "2"}}
Attributes = Mapping[str, Mapping[str, Any]]


class TableOfForeignItems:
    """A table, and items in it as another program or another version would write them."""

    def __init__(self, aws: RunningAws) -> None:
        self.client, self.name = aws.client("dynamodb"), aws.table("memory")
        self.ledger = Ledger(self.client, self.name)

    def part(self, kind: Callable[[Any, str], Any]) -> Any:
        return kind(self.client, self.name)

    def put(self, kind: str, item_id: str, attributes: Attributes) -> None:
        self.client.put_item(TableName=self.name, Item={"kind": {"S": kind}, "id": {"S": item_id}, **attributes})

    def spoil(self, kind: str, item_id: str, attributes: Attributes) -> None:
        """Overwrite some attributes of an item."""
        self.put(kind, item_id, {**self.raw(kind, item_id), **attributes})

    def raw(self, kind: str, item_id: str) -> dict[str, Any]:
        found = self.client.get_item(
            TableName=self.name, Key={"kind": {"S": kind}, "id": {"S": item_id}}, ConsistentRead=True
        )
        return dict(found.get("Item", {}))

    def launch(self, launch_id: str) -> None:
        lease = self.ledger.lease()
        if not lease.holder:
            values = {":me": "arn:up", ":until": 100, ":one": 1}
            self.ledger._update(
                "LEASE", "scale-up", "SET holder = :me, leaseUntil = :until ADD leaseNumber :one", values
            )
        self.ledger.begin_launch(
            LaunchRecord(
                launch_id,
                "{}",
                "token",
                claims=(f"claim-{launch_id}",),
                lease_number=self.ledger.lease().number,
                execution="arn:up",
            )
        )


@pytest.fixture
def memory(local_aws: RunningAws) -> TableOfForeignItems:
    return TableOfForeignItems(local_aws)


def pairing(memory: TableOfForeignItems, name: str) -> None:
    memory.ledger.pair(name, f"claim-{name}", "l-1")


def assignment(memory: TableOfForeignItems, name: str) -> None:
    memory.ledger.assign(name, {"class": 1}, 1)


def wave(memory: TableOfForeignItems, name: str) -> None:
    memory.ledger.begin_wave(name, f"arn:{name}", ["claim"], 10)


def retirement(memory: TableOfForeignItems, name: str) -> None:
    memory.part(Retirements).begin(name, "arn:retire", "deleted", 10)


def absence(memory: TableOfForeignItems, name: str) -> None:
    memory.part(Absences).keep({name}, {}, 10)


def emptiness(memory: TableOfForeignItems, name: str) -> None:
    memory.part(EmptyNodes).begin(name, 10)


def impairment(memory: TableOfForeignItems, name: str) -> None:
    memory.part(Impairments).keep({name}, {}, 10)


def recommendation(memory: TableOfForeignItems, name: str) -> None:
    memory.part(Recommendations).note(name, f"i-{name}", 10)


def disruption_of(name: str) -> DisruptionRecord:
    return DisruptionRecord(
        name, "arn:disrupt", "Drifted", message="a sentence", claims=(name,), workloads=(name,), since=10
    )


def disruption(memory: TableOfForeignItems, name: str) -> None:
    memory.part(Disruptions).begin(disruption_of(name))


def waves_with_claims(ledger: Ledger) -> set[str]:
    return {name for name, claims in ledger.awaited_claims(ledger.waves()).items() if claims}


def move(memory: TableOfForeignItems, name: str) -> None:
    memory.part(Disruptions).note_moves(disruption_of(name), "a", 10)


KINDS: Mapping[
    str, tuple[Callable[[TableOfForeignItems, str], None], type[DynamoTable], Callable[[Any], set[str]], Attributes]
] = {
    "LAUNCH": (
        TableOfForeignItems.launch,
        Ledger,
        lambda part: {one.id for one in part.unrecorded_launches() if not one.unreadable},
        {"request": {"S": "{"}},
    ),
    "INSTANCE": (pairing, Ledger, lambda part: set(part.pairings(["a", "b", "c"])), {"claim": {"N": "1"}}),
    "ASSIGNMENT": (assignment, Ledger, lambda part: set(part.assignments()), {"classes": {"S": '[{"class"'}}),
    "WAVE": (wave, Ledger, lambda part: {one.name for one in part.waves()}, {"execution": {"N": "1"}}),
    "AWAITED": (wave, Ledger, waves_with_claims, {"claims": {"S": "claim"}}),
    "RETIREMENT": (retirement, Retirements, lambda part: set(part.all()), {"reasons": {"BOOL": True}}),
    "ABSENT": (absence, Absences, lambda part: set(part.since()), {"since": {"S": "yesterday"}}),
    "IMPAIRED": (impairment, Impairments, lambda part: set(part.since()), {"since": {"S": "yesterday"}}),
    "RECOMMENDED": (recommendation, Recommendations, lambda part: set(part.since()), {"since": {"BOOL": True}}),
    "DISRUPTION": (
        disruption,
        Disruptions,
        lambda part: {one.id for one in part.all() if not one.unreadable},
        {"pods": {"S": '{"NodePool/default"'}},
    ),
    "MOVED": (
        move,
        Disruptions,
        lambda part: {name for one in part.moves(20) for name in one.workloads},
        {"workloads": {"S": "shop/ReplicaSet/web"}},
    ),
    "EMPTY": (emptiness, EmptyNodes, lambda part: set(part.all()), {"since": {"S": "yesterday"}}),
}


@pytest.mark.parametrize("broken_by", ["its own attribute", "a newer schema number"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_item_between_good_ones_is_left_out_and_named(
    memory: TableOfForeignItems, kind: str, broken_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, table, read, broken = KINDS[kind]
    for name in ("a", "b", "c"):
        make(memory, name)
    memory.spoil(kind, "b", NEWER if broken_by == "a newer schema number" else broken)
    part = memory.part(table)

    assert read(part) == {"a", "c"}
    ((found_kind, found_id, reason),) = [(one.kind, one.id, one.reason) for one in part.unreadable]
    assert (found_kind, found_id) == (kind, "b")
    assert reason
    assert f"item {kind} b of the table cannot be read: {reason}" in caplog.text
    assert ("its schema number is 2" in reason) == (broken_by == "a newer schema number")


def test_an_offering_with_an_unreadable_mark_stops_no_other(memory: TableOfForeignItems) -> None:
    memory.ledger.mark_unavailable(OfferingKey("spot", "m5.large", "us-east-1a"), 100, "short")
    memory.put("UNAVAILABLE", "spot#m5.large", {"until": {"N": "100"}})

    assert [mark.offering.zone for mark in memory.ledger.unavailable(50)] == ["us-east-1a"]
    assert memory.ledger.unreadable_ids("UNAVAILABLE") == {"spot#m5.large"}


def test_pairings_that_are_asked_for_by_name_leave_out_the_broken_one(memory: TableOfForeignItems) -> None:
    for name in ("i-a", "i-b", "i-c"):
        pairing(memory, name)
    memory.spoil("INSTANCE", "i-b", {"claim": {"L": []}})

    assert set(memory.ledger.pairings(["i-a", "i-b", "i-c"])) == {"i-a", "i-c"}


def test_a_back_off_that_cannot_be_read_counts_as_none_and_hides_no_other(memory: TableOfForeignItems) -> None:
    for name in ("class#v1#gpu", "class#v1#web"):
        memory.ledger.back_off(name, "the instance ended at its launch", 10)
    memory.spoil("BACKOFF", "class#v1#gpu", {"tries": {"S": "one"}})

    assert set(memory.ledger.back_offs(11)) == {"class#v1#web"}
    assert memory.ledger.unreadable_ids("BACKOFF") == {"class#v1#gpu"}
    assert memory.ledger.back_off("class#v1#gpu", "the instance ended at its launch", 12).tries == 1


def test_a_verdict_that_cannot_be_read_counts_as_none_and_hides_nothing_else(memory: TableOfForeignItems) -> None:
    memory.ledger.back_off("class#v1#web", "the instance ended at its launch", 10)
    for name in ("gpu", "web"):
        memory.ledger.note_verdict(f"EC2NodeClass/{name}", ClassVerdict("digest", (), 10))
    memory.spoil("BACKOFF", "validation#EC2NodeClass/gpu", {"refusals": {"S": "[["}})

    waits, verdicts = memory.ledger.class_holds(11)
    assert (set(waits), set(verdicts)) == ({"class#v1#web"}, {"EC2NodeClass/web"})


def test_a_last_proposal_that_cannot_be_read_counts_as_none_and_is_replaced(memory: TableOfForeignItems) -> None:
    disruptions = memory.part(Disruptions)
    disruptions.note_proposal(LastProposal("digest", 10, idle=3))
    memory.spoil("PROPOSED", "last", {"idle": {"S": "three"}})
    assert disruptions.last_proposal() == LastProposal()
    assert [(one.kind, one.id) for one in disruptions.unreadable] == [("PROPOSED", "last")]

    disruptions.note_proposal(LastProposal("digest", 20))

    assert memory.part(Disruptions).last_proposal() == LastProposal("digest", 20, 0)


def test_a_last_drift_check_that_cannot_be_read_counts_as_none_and_is_replaced(memory: TableOfForeignItems) -> None:
    drift = memory.part(DriftDetections)
    drift.note("digest", 10)
    memory.spoil("DRIFT", "last", {"at": {"S": "noon"}})
    assert drift.last() == LastDetection()
    assert [(one.kind, one.id) for one in drift.unreadable] == [("DRIFT", "last")]

    drift.note("digest", 20)

    assert memory.part(DriftDetections).last() == LastDetection("digest", 20)


def test_answers_that_cannot_be_read_count_as_none_and_are_replaced(memory: TableOfForeignItems) -> None:
    answers = memory.part(PlanningBackOffs)
    memory.put("ANSWERED", "pods", {"classes": {"S": '{"class": [1]}'}})
    assert answers.all() == {}
    assert [one.kind for one in answers.unreadable] == ["ANSWERED"]

    answer = {"class": PlanningBackOff(PendingPodClass(1, "2026-11-21T12:00:00Z", "digest"), 1, 100)}
    answers.put(answer, 10)

    assert answers.all() == answer
    assert answers.unreadable == ()


@pytest.mark.parametrize("recorded", [None, {"BOOL": False}, {"S": "yes"}])
def test_a_launch_that_cannot_be_read_is_unrecorded_and_keeps_its_claims(
    memory: TableOfForeignItems, recorded: Mapping[str, Any] | None
) -> None:
    memory.launch("a")
    memory.launch("b")
    memory.spoil("LAUNCH", "b", {"details": {"S": "{"}, **({"recorded": recorded} if recorded else {})})
    if recorded is None:
        item = {name: value for name, value in memory.raw("LAUNCH", "b").items() if name != "recorded"}
        memory.client.put_item(TableName=memory.name, Item=item)

    found = {one.id: one for one in memory.ledger.unrecorded_launches()}

    assert set(found) == {"a", "b"}
    assert (found["a"].unreadable, found["b"].claims) == ("", ("claim-b",))
    assert found["b"].unreadable


@pytest.mark.parametrize(
    ("spoiled", "claims"),
    [({"since": {"S": "noon"}}, ("b",)), (NEWER, ("b",)), ({"claims": {"N": "7"}}, ())],
    ids=["an attribute", "newer", "its claims"],
)
def test_a_disruption_that_cannot_be_read_is_listed_with_its_readable_claims(
    memory: TableOfForeignItems, spoiled: Attributes, claims: tuple[str, ...]
) -> None:
    for name in ("a", "b", "c"):
        disruption(memory, name)
    memory.spoil("DISRUPTION", "b", spoiled)

    found = memory.part(Disruptions).all()

    assert [(one.id, one.claims, bool(one.unreadable)) for one in found] == [
        ("a", ("a",), False),
        ("b", claims, True),
        ("c", ("c",), False),
    ]


def test_an_absence_that_cannot_be_read_begins_anew(memory: TableOfForeignItems) -> None:
    absences = memory.part(Absences)
    memory.put("ABSENT", "claim-of/i-1", {"since": {"S": "yesterday"}})

    absences.keep({"claim-of/i-1"}, absences.since(), 50)

    assert absences.since() == {"claim-of/i-1": 50}


def test_an_emptiness_that_cannot_be_read_begins_anew(memory: TableOfForeignItems) -> None:
    known = memory.part(EmptyNodes)
    memory.put("EMPTY", "claim-a", {"since": {"S": "yesterday"}})
    assert known.all() == {}

    known.begin("claim-a", 50)

    assert known.all()["claim-a"].since == 50


def test_a_lease_that_cannot_be_read_is_an_error_that_names_it(memory: TableOfForeignItems) -> None:
    memory.put("LEASE", "scale-up", {"holder": {"N": "7"}})

    with pytest.raises(
        UnreadableRecord,
        match="item LEASE scale-up of the table cannot be read: attribute holder has type N instead of S",
    ):
        memory.ledger.lease()


def test_every_item_is_written_with_its_schema_number(memory: TableOfForeignItems) -> None:
    memory.launch("a")
    for make in (pairing, assignment, wave, retirement, absence, emptiness):
        make(memory, "a")
    kinds = ("LAUNCH", "INSTANCE", "ASSIGNMENT", "WAVE", "AWAITED", "RETIREMENT", "ABSENT", "EMPTY")

    assert {kind: memory.raw(kind, "a")["schemaNumber"] for kind in kinds} == {kind: {"N": "1"} for kind in kinds}
    assert memory.raw("LEASE", "scale-up")["schemaNumber"] == {"N": "1"}


def test_a_newer_schema_number_is_not_overwritten(memory: TableOfForeignItems) -> None:
    wave(memory, "a")
    memory.spoil("WAVE", "a", NEWER)
    wave(memory, "a")

    assert memory.raw("WAVE", "a")["schemaNumber"] == {"N": "2"}
    assert json.loads(memory.raw("WAVE", "a")["seenAt"]["N"]) == 10


@pytest.mark.parametrize("spoiled", [{"deadline": {"S": "soon"}}, NEWER])
def test_a_retirement_that_cannot_be_read_has_one_owner_all_the_same(
    memory: TableOfForeignItems, spoiled: Attributes
) -> None:
    retirements = memory.part(Retirements)
    retirements.begin("claim-a", "arn:first", "deleted", 1000)
    memory.spoil("RETIREMENT", "claim-a", spoiled)

    assert retirements.begin("claim-a", "arn:second", "deleted", 1100) is None
    taken = retirements.begin("claim-a", "arn:second", "deleted", 1181)
    assert (taken.claim, taken.owner, taken.deadline) == ("claim-a", "arn:second", 0)
    assert retirements.begin("claim-a", "arn:third", "deleted", 1182) is None

"""The conditions of a claim are written beside other executions: what they wrote meanwhile stays."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.adapters.kube_claims import create_claim, get_claim, write_conditions, write_metadata, write_status
from joiner.adapters.kube_errors import Conflict, NotFound
from joiner.pools import NodeClaim, NodeClassRef
from tests.unit.functions.fake_kube import FakeKube

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAME = "default-a"
KINDS = ("NodeClaim", "Machine")


def set_condition(claim: NodeClaim, name: str, status: Any = "True") -> NodeClaim:
    return claim.with_condition(name, status, name, "", at=NOON)


def read(kube: FakeKube, kind: str = "NodeClaim") -> NodeClaim:
    claim = get_claim(kube, kind, NAME)
    assert claim is not None
    return claim


def statuses(claim: NodeClaim) -> dict[str, str]:
    return {condition.type: condition.status for condition in claim.conditions if condition.type != "Ready"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kube(kind: Any) -> FakeKube:
    """Return an API server with a claim that was launched and is not drifted."""
    made = FakeKube()
    claim = create_claim(made, NodeClaim(NAME, NodeClassRef("EC2NodeClass", "default"), kind=kind, pool="default"))
    write_conditions(made, set_condition(set_condition(claim, "Launched"), "Consolidatable"))
    return made


def test_conditions_that_were_written_after_the_read_stay(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    write_conditions(kube, set_condition(read(kube, kind), "Drifted"))

    written = write_conditions(kube, set_condition(old, "Registered").without_condition("Consolidatable"))

    assert statuses(read(kube, kind)) == {"Launched": "True", "Drifted": "True", "Registered": "True"}
    assert (written, written.resource_version) == (read(kube, kind), read(kube, kind).resource_version)


def test_a_condition_that_another_execution_removed_does_not_come_back(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    write_conditions(kube, read(kube, kind).without_condition("Consolidatable"))

    write_status(kube, set_condition(old, "Registered"))

    assert statuses(read(kube, kind)) == {"Launched": "True", "Registered": "True"}


def test_ready_follows_the_conditions_of_both_writers(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    write_conditions(kube, set_condition(read(kube, kind), "Registered"))

    written = write_conditions(kube, set_condition(old, "Initialized"))

    assert old.conditions["Ready"].status == "Unknown"
    assert written.conditions["Ready"].true
    assert read(kube, kind).conditions["Ready"] == written.conditions["Ready"]


@pytest.mark.parametrize("before", ["GET", "PATCH"])
def test_conditions_that_are_written_during_the_write_stay(kube: FakeKube, kind: str, before: str) -> None:
    """The other execution writes before this one reads the claim, or between its read and its write."""
    old = read(kube, kind)
    write_metadata(kube, replace(old, labels={"read": "before"}))
    calls = []

    def interleave(method: str, _path: str, do: Callable[[], Any]) -> Any:
        calls.append(method)
        if calls.count(before) == 1 and method == before and "Drifted" not in statuses(read_quietly()):
            kube.fault = None
            write_conditions(kube, set_condition(read(kube, kind), "Drifted"))
            kube.fault = interleave
        return do()

    def read_quietly() -> NodeClaim:
        kube.fault = None
        claim = read(kube, kind)
        kube.fault = interleave
        return claim

    kube.fault = interleave
    write_status(kube, set_condition(old, "Registered"))
    kube.fault = None

    assert statuses(read(kube, kind)) == {
        "Launched": "True",
        "Consolidatable": "True",
        "Drifted": "True",
        "Registered": "True",
    }


def test_a_write_after_one_of_the_metadata_needs_no_second_read(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    write_conditions(kube, set_condition(read(kube, kind), "Drifted"))
    calls: list[str] = []

    def count(method: str, _path: str, do: Callable[[], Any]) -> Any:
        calls.append(method)
        return do()

    kube.fault = count
    write_status(kube, write_metadata(kube, set_condition(old, "Registered")))
    kube.fault = None

    assert calls == ["PATCH", "PATCH"]
    assert statuses(read(kube, kind))["Drifted"] == "True"


def test_the_status_of_another_claim_of_the_name_is_not_written(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    key = next(key for key in kube.objects if key[2] == NAME)
    del kube.objects[key]
    create_claim(kube, NodeClaim(NAME, NodeClassRef("EC2NodeClass", "default"), kind=old.kind, pool="default"))

    with pytest.raises(NotFound, match="another claim has its name"):
        write_status(kube, set_condition(old, "Registered"))

    assert statuses(read(kube, kind)) == {}


def test_a_claim_that_changes_all_the_time_is_a_conflict(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    numbers = itertools.count()

    def change(method: str, _path: str, do: Callable[[], Any]) -> Any:
        if method == "PATCH":
            kube.fault = None
            write_metadata(kube, replace(read(kube, kind), annotations={"changed": str(next(numbers))}))
            kube.fault = change
        return do()

    kube.fault = change
    with pytest.raises(Conflict):
        write_status(kube, set_condition(old, "Registered"))


@pytest.mark.parametrize("write", [write_status, write_conditions])
def test_a_condition_that_another_execution_changed_otherwise_is_judged_again(
    kube: FakeKube, kind: str, write: Callable[..., NodeClaim]
) -> None:
    old = read(kube, kind)
    write_conditions(kube, set_condition(read(kube, kind), "Registered"))

    with pytest.raises(Conflict, match=f"{kind}/{NAME}: condition Registered was changed meanwhile"):
        write(kube, set_condition(old, "Registered", "False"))

    assert statuses(read(kube, kind))["Registered"] == "True"


def test_a_condition_that_another_execution_changed_in_the_same_way_is_no_conflict(kube: FakeKube, kind: str) -> None:
    old = read(kube, kind)
    write_conditions(kube, set_condition(read(kube, kind), "Registered"))

    write_conditions(kube, old.with_condition("Registered", "True", "Registered", "", at=NOON + timedelta(hours=1)))

    assert statuses(read(kube, kind))["Registered"] == "True"

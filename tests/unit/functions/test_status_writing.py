"""The statuses of pools and classes are written beside other executions: what they wrote meanwhile stays."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.registration_records import record_registrations
from joiner.adapters.status_writing import write_declared_statuses
from joiner.lifecycle.declared_status import find_status_patch
from joiner.pools import Conditions, NodeClaim, NodeClassRef, NodePool, ResolvedNodeClass
from tests.unit.functions.fake_kube import FakeKube
from tests.unit.functions.small_account import NODEPOOL

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLASS = ResolvedNodeClass("default", "EC2NodeClass", generation=1)
POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), generation=1)
CLAIM = NodeClaim("default-a", NodeClassRef("EC2NodeClass", "default"), pool="default")
FIND = partial(find_status_patch, pools={POOL.key: POOL}, classes={CLASS.key: CLASS}, problems=(), at=NOON)


def listed(kube: FakeKube) -> dict[str, Any]:
    return {**kube.get(kinds.NODEPOOLS, "default"), "kind": "NodePool"}


def outcomes(kube: FakeKube) -> tuple[str, list[str]]:
    status = kube.get(kinds.NODEPOOLS, "default")["status"]
    return Conditions.from_kube(status["conditions"])["NodeRegistrationHealthy"].status, status["lastRegistrations"]


@pytest.fixture
def kube() -> FakeKube:
    """Return an API server with a pool that has its conditions."""
    made = FakeKube([NODEPOOL])
    assert write_declared_statuses(made, [listed(made)], FIND) == []
    assert outcomes(made) == ("Unknown", [])
    return made


def test_registrations_that_were_recorded_after_the_list_stay(kube: FakeKube) -> None:
    old = listed(kube)
    record_registrations(kube, [(CLAIM, "RegistrationTimeout")] * 2, NOON)
    del old["status"]["nodes"], kube.objects["nodepools", "", "default"]["status"]["nodes"]  # something to write

    assert write_declared_statuses(kube, [old], FIND) == []

    assert outcomes(kube) == ("False", ["RegistrationTimeout"] * 2)
    assert kube.get(kinds.NODEPOOLS, "default")["status"]["nodes"] == 0


@pytest.mark.parametrize("before", ["GET", "PATCH"])
def test_registrations_that_are_recorded_during_the_write_stay(kube: FakeKube, before: str) -> None:
    """The other execution writes before this one reads the pool, or between its read and its write."""
    kube.objects["nodepools", "", "default"]["status"].pop("nodes")
    old = listed(kube)

    def interleave(method: str, _path: str, do: Callable[[], Any]) -> Any:
        if method == before:
            kube.fault = None
            record_registrations(kube, [(CLAIM, "RegistrationTimeout")] * 2, NOON)
        return do()

    kube.fault = interleave
    assert write_declared_statuses(kube, [old], FIND) == []

    assert outcomes(kube) == ("False", ["RegistrationTimeout"] * 2)
    assert kube.get(kinds.NODEPOOLS, "default")["status"]["nodes"] == 0


@pytest.mark.parametrize("change", [{"generation": 2}, {"uid": "another-pool"}])
def test_a_pool_that_was_changed_or_replaced_after_the_list_is_left_to_the_next_execution(
    kube: FakeKube, change: dict[str, Any]
) -> None:
    kube.objects["nodepools", "", "default"]["status"].pop("nodes")
    old = listed(kube)
    kube.objects["nodepools", "", "default"]["metadata"] |= change
    before = kube.get(kinds.NODEPOOLS, "default")

    assert write_declared_statuses(kube, [old], FIND) == []
    assert kube.get(kinds.NODEPOOLS, "default") == before


def test_a_status_that_is_up_to_date_costs_no_request(kube: FakeKube) -> None:
    current = listed(kube)
    kube.asked.clear()

    assert write_declared_statuses(kube, [current], FIND) == []
    assert kube.asked == []

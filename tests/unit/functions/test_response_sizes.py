"""Responses of functions do not grow with the cluster: 5,000 claims give a response as large as a hundred do.

The responses are inputs and results of states, which are limited to 256 KiB; `tests/infra/test_payloads_executed.py`
adds them up.
"""

import json
from typing import Any, Final

import pytest

from functions.begin_retirement import handler as begin_retirement
from functions.record_node_claims import handler as record_node_claims
from joiner.adapters.autoscaler_detection import AutoscalerDetection
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.dynamodb_table import ItemTooLarge
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.payload import Execution, Task
from joiner.adapters.retirements import Retirements
from joiner.adapters.wave_records import limit_wave
from joiner.lifecycle.due_retirements import DUE_AT_ONCE
from joiner.lifecycle.retirement import RETIRED_AT_ONCE, RetirementReason, RetirementRequest
from joiner.reporting.shortened_reasons import REASON_AT_MOST
from tests.unit.functions.retirement_execution import RetirementExecution
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CLUSTER, NODEPOOL, NOON, pending

MANY: Final = 5_000
TASK: Final = Task(Execution("x", arn("x"), ""), CLUSTER, 0, 1)


def deleted_claim(number: int) -> dict[str, Any]:
    """Return a claim that a user deleted, of an instance that does not exist."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": f"{'pool' * 15}-{number:05}",
            "uid": f"claim-{number}",
            "creationTimestamp": "2026-11-21T11:00:00Z",
            "deletionTimestamp": "2026-11-21T11:30:00Z",
            "finalizers": ["karpenter.sh/termination"],
            "labels": {"karpenter.sh/nodepool": "default"},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {
            "providerID": f"aws:///us-east-1a/i-{number:017x}",
            "nodeName": f"node-{number}",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-11-21T11:00:00Z"}
                for kind in ("Launched", "Registered")
            ],
        },
    }


@pytest.fixture
def crowded(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster in which all of 5,000 claims must be retired."""
    cluster.prepare()
    for number in range(MANY):
        cluster.kube.put(deleted_claim(number))
    return cluster


def size(answer: Any) -> int:
    return len(json.dumps(answer).encode())


def test_a_sweep_over_5000_claims_that_have_to_go_answers_with_a_part_of_them(crowded: SimulatedCluster) -> None:
    surveyed, instances = crowded.survey("s1")

    assert len(surveyed["retire"]) == DUE_AT_ONCE
    assert len(instances["retire"]) == RETIRED_AT_ONCE
    assert all(len(reason) <= REASON_AT_MOST for reason in surveyed["reasons"])
    found = (
        len(surveyed["retire"]) + 1
    )  # one reason for each claim, and one for their class, which has no finalizer yet
    assert surveyed["reasons"][-1] == f"and {found - 19} more"
    assert size(surveyed) + size(instances) < 100_000


def test_a_retirement_of_5000_claims_begins_a_hundred_and_counts_the_others(crowded: SimulatedCluster) -> None:
    table = (crowded.ledger._client, crowded.ledger._table)
    asked = [
        RetirementRequest(claim.name, RetirementReason.DELETED, claim.instance_id)
        for claim in list_claims(crowded.kube).claims
    ]

    answer = begin_retirement.RetirementStart(
        crowded.kube, crowded.ledger, Retirements(*table), Disruptions(*table), AutoscalerDetection(crowded.kube)
    ).answer(TASK, asked, NOON, 0)

    assert (answer["begun"], sum(map(len, answer["waves"]))) == (RETIRED_AT_ONCE, RETIRED_AT_ONCE)
    assert answer["overLimit"] == MANY - RETIRED_AT_ONCE
    (left,) = answer["skipped"]
    assert left["why"].startswith(f"{MANY - RETIRED_AT_ONCE} claims are more than one execution retires")
    assert size(answer) < 100_000


@pytest.mark.parametrize(("reason", "waves"), [("empty", [100]), ("deleted", [20, 20, 20, 20, 20])])
def test_a_hundred_empty_nodes_are_one_wave_and_others_are_five(
    cluster: SimulatedCluster, reason: str, waves: list[int]
) -> None:
    cluster.prepare()
    for number in range(100):
        manifest = deleted_claim(number)
        if reason == "empty":
            del manifest["metadata"]["deletionTimestamp"]
        cluster.kube.put(manifest)
    retirement = RetirementExecution(cluster, "retire-1")
    requests = [
        RetirementRequest(claim.name, RetirementReason(reason), claim.instance_id)
        for claim in list_claims(cluster.kube).claims
    ]

    begun = retirement._begin(requests, retirement._take_the_lease() if reason == "empty" else 0)

    assert [len(each) for each in begun["waves"]] == waves


@pytest.mark.long("300 groups in executed state machines")
def test_launches_beyond_one_look_are_planned_again_by_the_next_of_the_same_execution(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these pods selects a pool of its own, and claims of two pools share no launch."""
    most = record_node_claims.GROUPS_AT_ONCE
    pods = [pending(f"p-{number:03}") for number in range(most + 10)]
    for number, pod in enumerate(pods):
        pod["spec"]["nodeSelector"] = {"karpenter.sh/nodepool": f"pool-{number:03}"}
        cluster.kube.put({**NODEPOOL, "metadata": {"name": f"pool-{number:03}", "uid": f"pool-{number:03}"}})
    cluster.prepare(*pods)
    answers: list[dict[str, Any]] = []
    launch = cluster._launch

    def note_and_launch(task: Task, launches: str, index: int, until: int) -> None:
        answers.append(cluster.answers["record_node_claims"])
        launch(task, launches, index, until)

    monkeypatch.setattr(cluster, "_launch", note_and_launch)

    assert cluster.scale_up("up-1")

    rounds = [answer for number, answer in enumerate(answers) if number == 0 or answer is not answers[number - 1]]
    assert [(len(answer["groups"]), answer["postponed"]) for answer in rounds] == [(most, 10), (10, 0)]
    assert len(list_claims(cluster.kube).claims) == len(pods)


def test_a_wave_of_5000_claims_fits_into_its_item_and_the_sweep_finds_the_others(cluster: SimulatedCluster) -> None:
    names = [f"{'pool' * 30}-{number:05}" for number in range(MANY)]

    with pytest.raises(ItemTooLarge, match="maximum allowed size"):
        cluster.ledger.begin_wave("all", arn("all"), names, 0)
    mine = limit_wave(names)
    cluster.ledger.begin_wave("some", arn("some"), mine, 0)

    assert 2_000 < len(mine) < MANY
    assert set(cluster.ledger.claims_of_wave("some")) == set(mine)

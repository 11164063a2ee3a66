"""Instances that EC2 reports to be in trouble: failing status checks, scheduled events, rebalance recommendations."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.survey_instances.status_checks import InstanceHealth
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.disruption_items import LastProposal
from joiner.adapters.disruptions import Disruptions
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.kube_claims import list_claims
from joiner.adapters.lasting_records import KEPT
from joiner.adapters.orphan_records import Impairments
from joiner.adapters.rebalance_recommendations import Recommendations
from joiner.adapters.retirements import Retirements
from joiner.item_keys import RECOMMENDED
from joiner.lifecycle.checks.instance_survey import SeenClaim
from joiner.pools import NodeClaim, read_manifests
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.fake_kube import HELD
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending

IMPAIRED = {"InstanceStatus": {"Status": "impaired"}, "SystemStatus": {"Status": "ok"}}


@pytest.fixture
def standing(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with two nodes with a pod each, an hour after they joined."""
    cluster.prepare(pending("web-1"), pending("web-2"))
    cluster.scale_up("up-1")
    cluster.now += timedelta(hours=1)
    return cluster


def first(cluster: SimulatedCluster) -> NodeClaim:
    return next(iter(list_claims(cluster.kube).claims))


def memory(cluster: SimulatedCluster, kind: Any) -> Any:
    return kind(cluster.ledger._client, cluster.ledger._table)


def swept(cluster: SimulatedCluster, number: int, *, after: int = 60) -> dict[str, Any]:
    """Run the surveys of one sweep, some seconds after the last; return the answer of the survey of instances."""
    cluster.now += timedelta(seconds=after)
    return cluster.survey(f"s{number}")[1]


def retired(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["claim"], each["reason"]) for each in answer["retire"]]


def scheduled(code: str, description: str, starts: datetime) -> dict[str, Any]:
    return {"Events": [{"Code": code, "Description": description, "NotBefore": starts}]}


@pytest.mark.parametrize("failing", ["InstanceStatus", "SystemStatus"])
def test_an_instance_whose_checks_fail_for_two_minutes_is_retired_at_once(
    standing: SimulatedCluster, failing: str
) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = {failing: {"Status": "impaired"}}

    assert retired(swept(standing, 1)) == []
    assert retired(swept(standing, 2)) == []
    third = swept(standing, 3)

    assert retired(third) == [(claim.name, "impaired")]
    assert third["reasons"] == [f"status checks of instance {claim.instance_id} have failed for 120 s"]
    assert memory(standing, Retirements).of(claim.name).deadline == int(standing.now.timestamp())


def test_an_impaired_instance_is_retired_also_if_a_former_claim_with_its_name_left_the_record_of_its_own(
    standing: SimulatedCluster,
) -> None:
    claim, now = first(standing), int(standing.now.timestamp())
    memory(standing, Retirements).hurry(claim.name, "impaired", now - 60, now, instance="i-former")
    standing.ec2.statuses[claim.instance_id] = {"InstanceStatus": {"Status": "impaired"}}

    assert [retired(swept(standing, number)) for number in (1, 2, 3)] == [[], [], [(claim.name, "impaired")]]
    done = retire(standing, (claim.name, "impaired"))
    assert [each["stage"] for each in done.entries] == ["forgotten"]
    assert standing.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"


def test_no_impaired_instance_is_retired_while_those_of_more_than_a_fifth_of_the_pool_fail(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(*(pending(f"web-{number}") for number in range(6)))
    cluster.scale_up("up-1")
    cluster.now += timedelta(hours=1)
    mine = sorted(claim.instance_id for claim in list_claims(cluster.kube).claims)
    for instance in mine[:3]:
        cluster.ec2.statuses[instance] = IMPAIRED
    cluster.ec2.statuses[mine[0]] = {**IMPAIRED, **scheduled("instance-stop", "", cluster.now + timedelta(days=9))}
    for number in range(3):
        blocked = swept(cluster, number)
    events = [each for each in cluster.kube.all(kinds.EVENTS) if each["reason"] == "NodeRepairBlocked"]

    message = "status checks of 3 of 6 instances fail, more than 20 %: none is retired for it"
    assert [reason for _, reason in retired(blocked)] == ["maintenance"], "the guard is for status checks only"
    assert blocked["reasons"][0] == f"NodePool/default: {message}"
    assert [(each["regarding"]["kind"], each["note"]) for each in events] == [("NodePool", message)]
    del cluster.ec2.statuses[mine[2]]
    assert sorted(reason for _, reason in retired(swept(cluster, 4))) == ["impaired", "impaired"]


def test_an_instance_that_recovers_before_its_retirement_begins_stays(standing: SimulatedCluster) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = IMPAIRED
    assert [retired(swept(standing, number)) for number in range(3)][-1] == [(claim.name, "impaired")]

    standing.ec2.statuses.clear()

    assert retired(swept(standing, 4)) == []
    left = memory(standing, Retirements).of(claim.name)
    assert (left.reasons, left.deadline, left.owner) == ((), 0, "")


def test_an_impaired_instance_that_is_about_to_be_interrupted_keeps_its_retirement_and_its_deadline(
    standing: SimulatedCluster,
) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = IMPAIRED
    for number in range(3):
        swept(standing, number)
    until = int(standing.now.timestamp()) + 120
    memory(standing, Retirements).hurry(
        claim.name, "spot", until, int(standing.now.timestamp()), instance=claim.instance_id
    )

    standing.ec2.statuses.clear()

    assert [name for name, _ in retired(swept(standing, 4))] == [claim.name]
    assert memory(standing, Retirements).of(claim.name).deadline > 0


def test_an_instance_that_recovers_within_two_minutes_stays_and_starts_anew(standing: SimulatedCluster) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = IMPAIRED
    swept(standing, 1)
    assert set(memory(standing, Impairments).since()) == {claim.instance_id}

    standing.ec2.statuses.clear()
    swept(standing, 2)
    assert memory(standing, Impairments).since() == {}

    standing.ec2.statuses[claim.instance_id] = IMPAIRED
    assert retired(swept(standing, 3)) == retired(swept(standing, 4)) == []
    assert memory(standing, Retirements).all() == {}


@pytest.mark.parametrize(
    "code", ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"]
)
def test_a_scheduled_event_drains_the_node_until_its_start(standing: SimulatedCluster, code: str) -> None:
    claim, starts = first(standing), standing.now + timedelta(days=3)
    standing.ec2.statuses[claim.instance_id] = scheduled(code, "The instance is running on degraded hardware", starts)

    answer = swept(standing, 1)

    assert retired(answer) == [(claim.name, "maintenance")]
    assert answer["reasons"] == [
        f"AWS has scheduled {code} for instance {claim.instance_id} from {starts:%Y-%m-%d %H:%M} UTC"
    ]
    assert memory(standing, Retirements).of(claim.name).deadline == int(starts.timestamp())


def test_a_scheduled_event_that_has_started_sets_no_limit(standing: SimulatedCluster) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = scheduled("system-maintenance", "", standing.now - timedelta(hours=1))

    assert retired(swept(standing, 1)) == [(claim.name, "maintenance")]
    assert memory(standing, Retirements).of(claim.name).deadline == 0


@pytest.mark.parametrize("description", ["[Completed] The instance was rebooted", "[Canceled] The instance is fine"])
def test_an_event_that_is_over_changes_nothing(standing: SimulatedCluster, description: str) -> None:
    starts = standing.now + timedelta(days=3)
    standing.ec2.statuses[first(standing).instance_id] = scheduled("instance-reboot", description, starts)

    assert retired(swept(standing, 1)) == []
    assert memory(standing, Retirements).all() == {}


def test_a_repeated_report_does_not_end_the_back_off_of_a_blocked_retirement(standing: SimulatedCluster) -> None:
    claim, starts = first(standing), standing.now + timedelta(days=3)
    standing.ec2.statuses[claim.instance_id] = scheduled("instance-stop", "", starts)
    swept(standing, 1)
    [pod] = [each for each in standing.kube.all(kinds.PODS) if each["spec"].get("nodeName") == claim.node_name]
    standing.kube.held.add(pod["metadata"]["name"])
    retire(standing, (claim.name, "maintenance"), passes=3)

    noted = memory(standing, Retirements)
    noted.disown(claim.name, noted.of(claim.name).owner, int(standing.now.timestamp()) + 600)
    swept(standing, 2)

    assert memory(standing, Retirements).of(claim.name).back_off_until > standing.now.timestamp()


def test_while_joiner_is_paused_only_the_start_of_an_impairment_is_recorded(standing: SimulatedCluster) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = IMPAIRED
    standing.pause.paused = True
    for number in range(4):
        swept(standing, number)
    assert memory(standing, Retirements).all() == {}

    standing.pause.paused = False
    assert retired(swept(standing, 9)) == [(claim.name, "impaired")]


def test_a_missing_permission_is_reported_and_stops_no_other_check(standing: SimulatedCluster) -> None:
    claim = first(standing)
    standing.ec2.instances[claim.instance_id]["State"] = {"Name": "terminated"}

    def denied(operation: str, do: Any) -> Any:
        if operation == "DescribeInstanceStatus":
            raise refused(operation, "UnauthorizedOperation", "not authorized", 403)
        return do()

    standing.ec2.fault = denied
    answer = swept(standing, 1)

    assert retired(answer) == [(claim.name, "lost")]
    assert answer["reasons"][0] == (
        "EC2 does not answer ec2:DescribeInstanceStatus (UnauthorizedOperation), so impaired instances and scheduled "
        "events are not found: allow it to the role of survey_instances"
    )


def test_instances_of_others_are_ignored(standing: SimulatedCluster) -> None:
    standing.ec2.instances["i-stranger"] = {"State": {"Name": "running"}, "Tags": [], "InstanceId": "i-stranger"}
    standing.ec2.statuses["i-stranger"] = {**IMPAIRED, **scheduled("instance-stop", "", standing.now)}

    for number in range(4):
        assert retired(swept(standing, number)) == []
    assert memory(standing, Impairments).since() == {}


def choose(cluster: SimulatedCluster, choice: str | None) -> None:
    annotations = {"joiner.dev/rebalance": choice} if choice is not None else {}
    cluster.kube.patch(kinds.NODEPOOLS, "default", {"metadata": {"annotations": annotations}})


@pytest.mark.parametrize(
    ("choice", "drains"), [(None, False), ("ignore", False), ("Drain", False), ("replace", False), ("drain", True)]
)
def test_the_pool_decides_what_follows_a_rebalance_recommendation(
    standing: SimulatedCluster, choice: str | None, *, drains: bool
) -> None:
    claim = first(standing)
    choose(standing, choice)
    memory(standing, Recommendations).note(claim.name, claim.instance_id, int(standing.now.timestamp()))

    assert retired(swept(standing, 1)) == ([(claim.name, "rebalance")] if drains else [])


def test_a_proposal_for_a_recommended_node_is_due_at_once(standing: SimulatedCluster) -> None:
    choose(standing, "replace")
    looks, claim = memory(standing, Disruptions), first(standing)
    before = standing.survey("s1")[0]["disruption"]
    looks.note_proposal(LastProposal(before["digest"], int(standing.now.timestamp()), idle=9))
    memory(standing, Recommendations).note(claim.name, claim.instance_id, int(standing.now.timestamp()))
    standing.now += timedelta(seconds=60)

    due = standing.survey("s2")[0]["disruption"]

    assert (due["due"], due["digest"] != before["digest"]) == (True, True)
    looks.note_proposal(LastProposal(due["digest"], int(standing.now.timestamp()), idle=10))
    standing.now += timedelta(seconds=60)
    assert not standing.survey("s3")[0]["disruption"]["due"], "the look at this recommendation found nothing"


def test_a_choice_without_meaning_is_a_problem_of_the_pool_with_the_remedy() -> None:
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "annotations": {"joiner.dev/rebalance": "Drain"}},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [],
                }
            }
        },
    }

    read = read_manifests([pool])

    assert read.pools[0].disruption.settings.rebalance == "ignore"
    assert [each.message for each in read.problems if each.severity == "warning"] == [
        "metadata.annotations[joiner.dev/rebalance] is Drain: it has no effect; use ignore, replace or drain; "
        'did you mean "drain"?'
    ]


def ends_of_recommendations(cluster: SimulatedCluster) -> dict[str, int]:
    items = cluster.machine._query(RECOMMENDED)
    return {item["id"]["S"]: int(item["expires"]["N"]) for item in items}


def test_the_recommendation_for_an_existing_claim_ends_no_sooner_than_a_pause(standing: SimulatedCluster) -> None:
    claim, noted_at = first(standing), int(standing.now.timestamp())
    for name in (claim.name, "gone"):
        memory(standing, Recommendations).note(name, "i-any", noted_at)
    standing.pause.paused = True
    writes = []

    for number in range(12):
        before = len(standing.machine._client.asked)
        swept(standing, number, after=5 * 3600)
        writes.append(standing.machine._client.asked[before:].count(("UpdateItem", RECOMMENDED)))
        assert ends_of_recommendations(standing)[claim.name] - standing.now.timestamp() > 8 * 3600

    assert writes == [0, 0, 1] * 4
    assert ends_of_recommendations(standing)["gone"] == noted_at + KEPT
    assert memory(standing, Recommendations).since() == {claim.name: noted_at, "gone": noted_at}


def test_a_recommendation_ends_after_a_day_without_a_pause(standing: SimulatedCluster) -> None:
    claim, noted_at = first(standing), int(standing.now.timestamp())
    memory(standing, Recommendations).note(claim.name, claim.instance_id, noted_at)

    swept(standing, 1, after=20 * 3600)

    assert ends_of_recommendations(standing) == {claim.name: noted_at + KEPT}


def test_a_recommended_node_is_drained_with_respect_for_the_budgets_of_its_pods(standing: SimulatedCluster) -> None:
    claim = first(standing)
    [pod] = [each for each in standing.kube.all(kinds.PODS) if each["spec"].get("nodeName") == claim.node_name]
    standing.kube.held.add(pod["metadata"]["name"])

    done = retire(standing, (claim.name, "rebalance"), passes=3)

    assert (done.entries[0]["stage"], done.entries[0]["why"]) == (
        "draining",
        f"pod default/{pod['metadata']['name']} {HELD}",
    )
    assert standing.ec2.instances[claim.instance_id]["State"]["Name"] == "running"


@dataclass
class ThrottledTable:
    """A client of DynamoDB whose updates of retirements are throttled."""

    client: Any

    def query(self, **asked: Any) -> Any:
        return self.client.query(**asked)

    def update_item(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "UpdateItem")


def test_a_recovery_that_could_not_be_written_is_found_by_the_next_sweep(standing: SimulatedCluster) -> None:
    claim = first(standing)
    standing.ec2.statuses[claim.instance_id] = IMPAIRED
    for number in range(3):
        swept(standing, number)
    standing.ec2.statuses.clear()
    throttled = Retirements(ThrottledTable(standing.ledger._client), standing.ledger._table)
    health = InstanceHealth(Ec2(standing.ec2, "shared"), memory(standing, Impairments), throttled)
    seen = [SeenClaim(claim.name, claim.kind, claim.provider_id, registered=True, pool=claim.pool_key)]

    with pytest.raises(ClientError, match="ThrottlingException"):
        health.record(seen, standing.now, acting=True)

    assert [name for name, _ in retired(swept(standing, 4))] == []
    assert memory(standing, Retirements).of(claim.name).reasons == ()

"""What a scale-up reports on pods, pools and classes when it launches less than they need."""

from datetime import timedelta
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube_claims import list_claims
from joiner.pools import NodeClassProblem
from tests.unit.functions.fake_ec2 import refused
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.simulation_invariants import nothing_is_left
from tests.unit.functions.small_account import CLASS, NODEPOOL, pending
from tests.unit.functions.test_scale_up import reasons


def test_without_capacity_anywhere_the_execution_ends_well_and_reports_it(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.ec2.short = {(name, zone) for name in ("m5.large", "m5.xlarge") for zone in ("us-east-1a", "us-east-1b")}

    assert cluster.scale_up("up-1")

    assert list_claims(cluster.kube).claims == ()
    assert cluster.ledger.assignments() == {}
    assert cluster.ledger.unrecorded_launches() == []
    assert "InsufficientCapacityError" in reasons(cluster, "NodePool", "default")
    assert "NotTriggerScaleUp" in reasons(cluster, "Pod", "web-1")
    cluster.ec2.short = set()
    cluster.now += timedelta(minutes=4)
    cluster.sweep("up-later")
    nothing_is_left(cluster)


def test_what_ec2_refuses_is_reported_with_its_remedy_and_leaves_nothing(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))

    def refuse(name: str, do: Any) -> Any:
        if name == "CreateFleet":
            raise refused(name, "UnauthorizedOperation")
        return do()

    cluster.ec2.fault = refuse
    assert cluster.scale_up("up-1")

    assert cluster.answers["record_launches"] | {"waiting": 0, "pricePerHour": 0.0} == {
        "launched": 0,
        "short": 0,
        "failed": 1,
        "again": False,
        "later": False,
        "throttled": False,
        "launching": True,  # one launch: the state machine notes no end of launches
        "waiting": 0,
        "pricePerHour": 0.0,
        "events": ["events/up-1/1-launched.json.gz"],
    }
    assert list_claims(cluster.kube).claims == ()
    assert cluster.ledger.assignments() == {}


def test_a_class_that_is_not_ready_plans_nothing_and_its_pool_reports_why(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.node_class = CLASS.with_problems(
        [NodeClassProblem("SubnetsReady", "SubnetsNotFound", "no subnet has tag x: tag them")]
    )

    assert cluster.scale_up("up-1")

    conditions = {each["type"]: each for each in cluster.kube.get(kinds.NODEPOOLS, "default")["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "False"
    assert "tag them" in conditions["NodeClassReady"]["message"]
    assert reasons(cluster, "Pod", "web-1") == ["NotTriggerScaleUp"]
    assert cluster.ec2.instances == {}


def test_an_instance_type_that_does_not_exist_is_reported_on_its_pool(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.lrage"]}
    spec = {"template": {"spec": {**NODEPOOL["spec"]["template"]["spec"], "requirements": [requirement]}}}
    cluster.kube.put({**NODEPOOL, "spec": spec})

    cluster.scale_up("up-1")

    nothing_is_left(cluster)
    assert reasons(cluster, "NodePool", "default") == ["WithoutEffect"]
    conditions = {each["type"]: each for each in cluster.kube.get(kinds.NODEPOOLS, "default")["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["ValidationSucceeded"]["reason"]) == ("True", "WithoutEffect")
    message = conditions["ValidationSucceeded"]["message"]
    assert "instance-type] is m5.lrage: the catalogue has no such instance type; did you mean m5.large" in message


def test_a_mistake_that_lasts_is_reported_again_after_ten_minutes_at_the_earliest(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"cpus": "1"}}})
    start = cluster.now

    counts = []
    for minutes in (8, 11, 19, 29, 31):
        cluster.now = start + timedelta(minutes=minutes)
        cluster.kube.put(pending(f"web-{minutes}"))
        cluster.scale_up(f"up-{minutes}")
        cluster.check(f"up-{minutes}")
        counts.append(reasons(cluster, "NodePool", "default").count("WithoutEffect"))

    assert counts == [1, 1, 1, 2, 2]


def test_a_limit_on_a_resource_that_no_node_has_is_reported_on_its_pool(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"cpus": "1"}}})

    cluster.scale_up("up-1")

    nothing_is_left(cluster)
    message = (
        "spec.limits.cpus is 1: it limits nothing, because no instance type of the catalogue has this resource; did "
        "you mean cpu?"
    )
    events = [one for one in cluster.kube.all(kinds.EVENTS) if one["regarding"]["kind"] == "NodePool"]
    assert [(one["reason"], one["note"]) for one in events] == [("WithoutEffect", message)]
    conditions = {each["type"]: each for each in cluster.kube.get(kinds.NODEPOOLS, "default")["status"]["conditions"]}
    assert (conditions["ValidationSucceeded"]["reason"], conditions["ValidationSucceeded"]["message"]) == (
        "WithoutEffect",
        message,
    )


def test_a_limit_of_one_and_a_half_nodes_is_reported_on_its_pool(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"nodes": "1.5"}}})

    cluster.scale_up("up-1")

    message = "spec.limits.nodes is 1.5: it counts as 1, because it is rounded down to a whole amount; write 1 or 2"
    events = [one for one in cluster.kube.all(kinds.EVENTS) if one["regarding"]["kind"] == "NodePool"]
    assert [(one["type"], one["reason"], one["note"]) for one in events] == [("Warning", "WithoutEffect", message)]
    conditions = {each["type"]: each for each in cluster.kube.get(kinds.NODEPOOLS, "default")["status"]["conditions"]}
    found = conditions["ValidationSucceeded"]
    assert (found["reason"], found["message"], conditions["Ready"]["status"]) == ("WithoutEffect", message, "True")


def test_a_negative_limit_is_reported_on_its_pool(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"cpu": "-1"}}})

    cluster.scale_up("up-1")

    message = "spec.limits.cpu is -1: give a quantity of at least zero"
    events = [one for one in cluster.kube.all(kinds.EVENTS) if one["regarding"]["kind"] == "NodePool"]
    assert [(one["reason"], one["note"]) for one in events] == [("ValidationFailed", message)]
    conditions = {each["type"]: each for each in cluster.kube.get(kinds.NODEPOOLS, "default")["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["ValidationSucceeded"]["message"]) == ("False", message)
    assert cluster.ec2.instances == {}


def test_the_event_of_a_pod_that_a_limit_keeps_out_has_the_usage_and_the_remedy(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    cluster.kube.put({**NODEPOOL, "spec": {**NODEPOOL["spec"], "limits": {"cpu": "1"}}})

    cluster.scale_up("up-1")

    (message,) = (event["note"] for event in cluster.kube.all(kinds.EVENTS) if event["regarding"]["name"] == "web-1")
    assert message == (
        "No node can be made for it. default: all available instance types exceed limits for nodepool: limit "
        "cpu 1 of NodePool/default: "
        "0 used, the pod needs 1500m (the node that comes nearest has 2); raise spec.limits.cpu or free nodes"
    )


def test_a_mistake_in_one_pool_is_reported_on_it_and_does_not_stop_the_other(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"))
    broken = {**NODEPOOL, "metadata": {"name": "broken", "uid": "pool-2"}, "spec": {"weigth": 5}}
    cluster.kube.put(broken)

    cluster.scale_up("up-1")

    nothing_is_left(cluster)
    assert "ValidationFailed" in reasons(cluster, "NodePool", "broken")
    conditions = {
        each["type"]: each["status"] for each in cluster.kube.get(kinds.NODEPOOLS, "broken")["status"]["conditions"]
    }
    assert conditions["ValidationSucceeded"] == "False"

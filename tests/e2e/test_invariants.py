"""The invariant checks after every end-to-end test find each violation, which is created manually here."""

import pytest

from joiner_local.demo.change_watch import until
from joiner_local.demo.execution_listing import execution
from tests.e2e.servable_pods import waits
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_invariants import violations
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

LEASE = {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}


def violations_of(actor: Actor) -> list[str]:
    return violations(actor.world, table=actor.outputs["TableName"])


def test_a_pending_pod_that_a_pool_could_serve_is_found(pool: Actor) -> None:
    pool.knob("door", fault={"hangUp": True})
    try:
        apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
        near = {**apart, "labelSelector": {"matchLabels": {"app": "nobody"}}}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        pool.create(
            deployment("forgotten"),
            deployment("apart", affinity={"podAntiAffinity": {required: [apart]}}),
            deployment("lonely", affinity={"podAffinity": {required: [near]}}),
            deployment("impossible", nodeSelector={"kubernetes.io/arch": "s390x"}),
        )
        until(lambda: len([pod for pod in pool.pods() if waits(pod)]) == 4, what="four pods that no node is found for")
        found = sorted(violations_of(pool))
        assert [each.split("-")[0] for each in found] == ["pod apart", "pod forgotten"]
        assert all("pool default could serve it" in each for each in found)
    finally:
        pool.knob("door", fault=None)
    assert pool.sweep() == "SUCCEEDED"
    pool.wait_running(1, "forgotten")
    pool.wait_running(1, "apart")


def test_a_leftover_instance_taint_and_lease_are_found(pool: Actor) -> None:
    pool.create(deployment("plain"))
    pool.wait_running(1, "plain")
    pool.assert_at_rest()
    kube, ec2, dynamodb = (pool.world.kube, pool.world.client("ec2"), pool.world.client("dynamodb"))
    (node,), (mine,) = pool.nodes(), pool.instances()
    path = f"/api/v1/nodes/{node['metadata']['name']}"

    kube.merge(path, {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}})
    dynamodb.update_item(
        TableName=pool.outputs["TableName"],
        Key=LEASE,
        UpdateExpression="SET holder = :me",
        ExpressionAttributeValues={":me": {"S": "nobody"}},
    )
    ec2.create_tags(Resources=[mine["InstanceId"]], Tags=[{"Key": "karpenter.sh/nodeclaim", "Value": "another"}])
    assert sorted(violations_of(pool)) == [
        f"instance {mine['InstanceId']} has no claim",
        f"node {node['metadata']['name']} carries karpenter.sh/disrupted",
        "the lease is held by nobody",
    ]

    (claim,) = pool.claims()
    ec2.create_tags(
        Resources=[mine["InstanceId"]], Tags=[{"Key": "karpenter.sh/nodeclaim", "Value": claim["metadata"]["name"]}]
    )
    dynamodb.update_item(TableName=pool.outputs["TableName"], Key=LEASE, UpdateExpression="REMOVE holder")
    kube.merge(path, {"spec": {"taints": None}})


def test_a_node_whose_pods_ask_for_more_than_it_has_is_found(pool: Actor) -> None:
    pool.create(deployment("plain", cpu="1", memory="1Gi"))
    pool.wait_running(1, "plain")
    pool.assert_at_rest()
    kube, (node,) = pool.world.kube, pool.nodes()
    name, room = node["metadata"]["name"], node["status"]["allocatable"]
    status = f"/api/v1/nodes/{name}/status"

    kube.merge(status, {"status": {"allocatable": {"cpu": "900m", "memory": "900Mi", "pods": "0"}}})
    found = violations_of(pool)
    kube.merge(status, {"status": {"allocatable": room}})

    resources = [each.partition(f"node {name} has ")[2].split(",")[0].split(" of ")[-1] for each in found]
    assert resources == ["cpu", "memory", "pods"], found


@pytest.mark.parametrize("machine", ["RetireArn", "RetireEmptyArn"])
def test_a_failed_execution_fails_one_test(pool: Actor, machine: str) -> None:
    client, bad = pool.world.client("stepfunctions"), '{"reason": "a test", "claims": "no list"}'
    name = f"{machine}-broken-{len(pool.stopped)}"
    arn = client.start_execution(stateMachineArn=pool.outputs[machine], name=name, input=bad)["executionArn"]
    until(lambda: execution(pool.world, arn)["status"] == "FAILED", what="its failure")
    with pytest.raises(AssertionError, match=name):
        pool.assert_at_rest()

"""The invariants that hold when no execution runs, checked through the API server, EC2, DynamoDB and Step Functions.

>>> pair_up({"i-1": "a"}, {"a": "i-1"})
[]
>>> pair_up({"i-1": "a", "i-2": ""}, {"a": "i-1", "b": ""})
['instance i-2 has no claim', 'claim b has no instance']
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import instances
from joiner_local.demo.demonstration import DemoStack
from tests.e2e.overcommitted_nodes import overcommitted
from tests.e2e.servable_pods import for_sale, neglected, waits

CLAIM_PATHS = ("/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1alpha5/machines")
OUR_TAINTS = {"joiner.dev/filling", "karpenter.sh/unregistered", "karpenter.sh/disrupted"}
BAD = ("FAILED", "TIMED_OUT", "ABORTED")


def claims(world: DemoStack) -> list[Object]:
    """Return all NodeClaims and Machines."""
    return [claim for path in CLAIM_PATHS for claim in world.kube.items(path)]


def violations(world: DemoStack, *, table: str) -> list[str]:
    """Return a sentence for each violated invariant. Failed executions are separate: see `failed_executions`."""
    return [
        *_instances_and_claims(world),
        *_held_lease(world, table),
        *_taints(world),
        *overcommitted(world.kube.items("/api/v1/nodes"), world.kube.items("/api/v1/pods")),
        *_neglected(world),
    ]


def pair_up(claim_of: Mapping[str, str], instance_of: Mapping[str, str]) -> list[str]:
    """Return a sentence for each instance or claim without its counterpart."""
    lost = [f"instance {identity} has no claim" for identity, claim in claim_of.items() if claim not in instance_of]
    empty = [f"claim {claim} has no instance" for claim, identity in instance_of.items() if identity not in claim_of]
    twice = [
        f"claim {claim} has {n} instances" for claim in instance_of if (n := list(claim_of.values()).count(claim)) > 1
    ]
    return [*lost, *empty, *twice]


def _instances_and_claims(world: DemoStack) -> list[str]:
    ours = {
        instance["InstanceId"]: tags.get("karpenter.sh/nodeclaim", "")
        for instance in instances(world.client("ec2"), alive=True)
        if "joiner.dev/launch" in (tags := {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])})
    }
    known = {
        claim["metadata"]["name"]: claim.get("status", {}).get("providerID", "").rpartition("/")[2]
        for claim in claims(world)
    }
    named = {
        instance: claim for claim, instance in known.items()
    }  # a name tag may be missing: what counts is the claim's own word
    return pair_up({identity: claim or named.get(identity, "") for identity, claim in ours.items()}, known)


def _held_lease(world: DemoStack, table: str) -> list[str]:
    item = world.client("dynamodb").get_item(
        TableName=table, Key={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}, ConsistentRead=True
    )
    holder = item.get("Item", {}).get("holder", {}).get("S")
    return [f"the lease is held by {holder}"] if holder else []


def _taints(world: DemoStack) -> list[str]:
    return [
        f"node {node['metadata']['name']} carries {taint['key']}"
        for node in world.kube.items("/api/v1/nodes")
        for taint in node["spec"].get("taints", [])
        if taint["key"] in OUR_TAINTS
    ]


def _neglected(world: DemoStack) -> Iterator[str]:
    """Return the pods that a pool could serve. EC2 is called only if a pod is pending, because its answer is long."""
    if any(waits(pod) for pod in world.kube.items("/api/v1/pods")):
        limits = world.stack.knob("capacity", {"show": True})["limits"]
        yield from neglected(world, for_sale(world, limits))


def failed_executions(world: DemoStack, expected: Collection[str]) -> dict[str, str]:
    """Return a sentence for each failed execution of any state machine, by its ARN.

    No API of AWS lists the executions of an Express state machine; the local AWS does.
    """
    client = world.client("stepfunctions")
    bad: list[dict[str, Any]] = []
    for machine in client.list_state_machines()["stateMachines"]:
        arn = machine["stateMachineArn"]
        if machine["type"] == "EXPRESS":
            bad.extend(world.stack.knob("express-executions", {"stateMachineArn": arn, "status": BAD})["executions"])
            continue
        for status in BAD:
            pages = client.get_paginator("list_executions").paginate(stateMachineArn=arn, statusFilter=status)
            bad.extend(execution for page in pages for execution in page["executions"])
    return {
        e["executionArn"]: f"execution {e['name']} {e['status'].lower()}: {_cause(world, e)}"
        for e in bad
        if e["executionArn"] not in expected
    }


def _cause(world: DemoStack, execution: Mapping[str, Any]) -> str:
    if ":express:" in execution["executionArn"]:
        return f"{execution.get('error', '')} {execution.get('cause', '')}"
    description = world.client("stepfunctions").describe_execution(executionArn=execution["executionArn"])
    return f"{description.get('error', '')} {description.get('cause', '')}"

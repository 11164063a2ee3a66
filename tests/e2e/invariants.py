"""What must hold whenever Joiner has come to rest, looked at from outside: the API server, EC2, DynamoDB and Step Functions.

>>> pair_up({"i-1": "a"}, {"a": "i-1"})
[]
>>> pair_up({"i-1": "a", "i-2": ""}, {"a": "i-1", "b": ""})
['instance i-2 has no claim', 'claim b has no instance']
"""

from collections.abc import Collection, Mapping
from typing import Any

from joiner_local.kube_api import Object
from joiner_local.story import World, instances

CLAIM_PATHS = ("/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1alpha5/machines")
OUR_TAINTS = {"joiner.dev/filling", "karpenter.sh/unregistered", "karpenter.sh/disrupted"}
DONE = {"SUCCEEDED"}


def claims(world: World) -> list[Object]:
    """NodeClaims and Machines alike."""
    return [claim for path in CLAIM_PATHS for claim in world.kube.items(path)]


def violations(world: World, *, table: str, expected_failures: Collection[str] = ()) -> list[str]:
    """Each broken promise as a sentence; empty when all is well. `expected_failures` are ARNs of executions that a test stopped itself."""
    return [
        *_instances_and_claims(world),
        *_held_lease(world, table),
        *_taints(world),
        *_overcommitted(world),
        *_failed_executions(world, expected_failures),
    ]


def pair_up(claim_of: Mapping[str, str], instance_of: Mapping[str, str]) -> list[str]:
    """Instances and claims must know each other, one to one."""
    lost = [f"instance {identity} has no claim" for identity, claim in claim_of.items() if claim not in instance_of]
    empty = [f"claim {claim} has no instance" for claim, identity in instance_of.items() if identity not in claim_of]
    twice = [f"claim {claim} has {n} instances" for claim in instance_of if (n := list(claim_of.values()).count(claim)) > 1]
    return [*lost, *empty, *twice]


def _instances_and_claims(world: World) -> list[str]:
    ours = {
        instance["InstanceId"]: tags.get("karpenter.sh/nodeclaim", "")
        for instance in instances(world.client("ec2"), alive=True)
        if "joiner.dev/launch" in (tags := {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])})
    }
    known = {claim["metadata"]["name"]: claim.get("status", {}).get("providerID", "").rpartition("/")[2] for claim in claims(world)}
    return pair_up(ours, known)


def _held_lease(world: World, table: str) -> list[str]:
    item = world.client("dynamodb").get_item(TableName=table, Key={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}, ConsistentRead=True)
    holder = item.get("Item", {}).get("holder", {}).get("S")
    return [f"the lease is held by {holder}"] if holder else []


def _taints(world: World) -> list[str]:
    return [
        f"node {node['metadata']['name']} carries {taint['key']}"
        for node in world.kube.items("/api/v1/nodes")
        for taint in node["spec"].get("taints", [])
        if taint["key"] in OUR_TAINTS
    ]


def _overcommitted(world: World) -> list[str]:
    used: dict[str, int] = {}
    for pod in world.kube.items("/api/v1/pods"):
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            used[pod["spec"]["nodeName"]] = used.get(pod["spec"]["nodeName"], 0) + requested_millicores(pod)
    room = {node["metadata"]["name"]: millicores(node["status"]["allocatable"]["cpu"]) for node in world.kube.items("/api/v1/nodes")}
    return [f"node {name} holds {cpu}m of {room[name]}m" for name, cpu in used.items() if name in room and cpu > room[name]]


def _failed_executions(world: World, expected: Collection[str]) -> list[str]:
    listed = world.client("stepfunctions").list_executions(stateMachineArn=world.scale_up_arn)["executions"]
    bad = [e for e in listed if e["status"] not in DONE | {"RUNNING"} and e["executionArn"] not in expected]
    return [f"execution {execution['name']} {execution['status'].lower()}: {_cause(world, execution['executionArn'])}" for execution in bad]


def _cause(world: World, arn: str) -> str:
    said = world.client("stepfunctions").describe_execution(executionArn=arn)
    return f"{said.get('error', '')} {said.get('cause', '')}"


def requested_millicores(pod: Mapping[str, Any]) -> int:
    """The CPU that the containers of a pod ask for."""
    return sum(millicores(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in pod["spec"]["containers"])


def millicores(quantity: str) -> int:
    """A CPU quantity in thousandths.

    >>> millicores("1930m"), millicores("2")
    (1930, 2000)
    """
    return int(quantity[:-1]) if quantity.endswith("m") else round(float(quantity) * 1000)

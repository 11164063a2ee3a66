"""SCALE UP as it runs: the real definition on the local Step Functions, with functions that answer from a script."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.scale_up import FUNCTIONS
from infra.scale_up_states import ScaleUpParts, scale_up
from infra.states import Callee, Integrations
from tests.local.conftest import started_server
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

ACTOR = """
import json, os, boto3
db = boto3.client("dynamodb")

def handler(event, context):
    table, name, script = os.environ["TABLE"], os.environ["NAME"], json.loads(os.environ["SCRIPT"])
    key = {"kind": {"S": "CALLS"}, "id": {"S": name}}
    said = db.update_item(TableName=table, Key=key, ReturnValues="ALL_NEW",
                          UpdateExpression="ADD calls :one SET heard = list_append(if_not_exists(heard, :none), :event)",
                          ExpressionAttributeValues={":one": {"N": "1"}, ":none": {"L": []}, ":event": {"L": [{"S": json.dumps(event)}]}})
    step = script[min(int(said["Attributes"]["calls"]["N"]), len(script)) - 1]
    lease = db.get_item(TableName=table, Key={"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}, ConsistentRead=True)["Item"]
    for update in step.get("updates", ()):
        db.update_item(TableName=table, **update)
    if "raises" in step:
        raise type(step["raises"], (Exception,), {})("as the script says")
    answer = step["answer"]
    return {**answer, "rings": int(lease["rings"]["N"])} if name == "find_pending_pods" else answer
"""

LEASE = {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}
RING = {"Key": LEASE, "UpdateExpression": "ADD rings :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
FOUND = {"snapshot": "snapshots/x/1.json.gz", "pods": 3, "unfinished": 0, "unwatched": 0}
NOTHING = {**FOUND, "pods": 0}
PLANNED = {
    "plan": "plans/x/1.json.gz",
    "nodes": 1,
    "pods": 3,
    "pricePerHour": 0.1,
    "lowerBoundPerHour": 0.1,
    "gap": 0.0,
    "pendingReasons": [],
}
LAUNCHED = {"launched": 1, "short": 0, "failed": 0, "errors": []}
RECORDED = {"launched": 1, "short": 0, "failed": 0, "again": False, "waiting": 1, "pricePerHour": 0.1}
JOINED = {"rings": 0, "done": True, "waiting": 0, "podsPlaced": 3, "placedAsPlanned": 1, "nodes": [{"name": "n"}], "failed": []}

Step = Mapping[str, Any]
SMOOTH: Mapping[str, Sequence[Step]] = {
    "find_pending_pods": [{"answer": FOUND}],
    "resolve_node_classes": [{"answer": {"classes": "node-classes/x/1.json.gz", "ready": 1, "refused": 0}}],
    "plan_capacity": [{"answer": PLANNED}],
    "record_node_claims": [{"answer": {"launches": "launches/x/1.json.gz", "groups": [0], "claims": 1}}],
    "launch_instances": [{"answer": LAUNCHED}],
    "record_launches": [{"answer": RECORDED}],
    "check_registration": [{"answer": JOINED}],
}
UNDER_THE_LEASE = [
    "Describe the cluster",
    "Take the lease",
    "Let pods gather",
    "Find pending pods",
    "Is there anything to do?",
    "Resolve node classes",
    "Plan capacity",
    "Record node claims",
    "Launch instances",
    "Launch one group",
    "Record launches",
    "Did offerings turn out short?",
    "Release the lease",
]
TO_THE_END = ["Are nodes on their way?", "Check registration", "Have all nodes joined?", "Summarise"]


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAws]:
    with started_server(tmp_path_factory.mktemp("local-aws")) as (running, _):
        yield running


@dataclass
class World:
    """One cluster's machine, table and scripted functions."""

    aws: RunningAws
    scripts: Mapping[str, Sequence[Step]]
    table: str = field(init=False)
    arn: str = field(init=False)

    def __post_init__(self) -> None:
        self.table, cluster = self.aws.fresh("table"), self.aws.fresh("cluster")
        keys = [("kind", "HASH"), ("id", "RANGE")]
        self.aws.client("dynamodb").create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        self.aws.client("eks").create_cluster(
            name=cluster, version="1.36", roleArn=self.aws.role("eks.amazonaws.com"), resourcesVpcConfig={"subnetIds": []}
        )
        role = self.aws.role("lambda.amazonaws.com")
        names = {name: self.aws.function(ACTOR, Role=role, Timeout=20, Environment={"Variables": self._told(name)}) for name in FUNCTIONS}
        parts = ScaleUpParts(
            integrations=Integrations("aws"),
            cluster=cluster,
            table=self.table,
            functions={name: Callee(actor, 20) for name, actor in names.items()},
        )
        self.arn = self.aws.client("stepfunctions").create_state_machine(
            name=self.aws.fresh("scale-up"), definition=json.dumps(scale_up(parts)), roleArn=self.aws.role("states.amazonaws.com")
        )["stateMachineArn"]

    def _told(self, name: str) -> dict[str, str]:
        return {"TABLE": self.table, "NAME": name, "SCRIPT": json.dumps(self.scripts.get(name, SMOOTH[name]))}

    def start(self, name: str = "up-1") -> str:
        execution: str = self.aws.client("stepfunctions").start_execution(stateMachineArn=self.arn, name=name, input="{}")["executionArn"]
        return execution

    def end(self, execution: str) -> Mapping[str, Any]:
        def look() -> Mapping[str, Any] | None:
            said: Mapping[str, Any] = self.aws.client("stepfunctions").describe_execution(executionArn=execution)
            return said if said["status"] != "RUNNING" else None

        return eventually(look, 60)

    def states(self, execution: str) -> list[str]:
        pages = self.aws.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=execution)
        return [
            event["stateEnteredEventDetails"]["name"] for page in pages for event in page["events"] if "stateEnteredEventDetails" in event
        ]

    def lease(self) -> Mapping[str, Any]:
        item: Mapping[str, Any] = self.aws.client("dynamodb").get_item(TableName=self.table, Key=LEASE, ConsistentRead=True).get("Item", {})
        return item

    def heard(self, name: str) -> list[Mapping[str, Any]]:
        """What a function was told, call by call."""
        key = {"kind": {"S": "CALLS"}, "id": {"S": name}}
        item = self.aws.client("dynamodb").get_item(TableName=self.table, Key=key, ConsistentRead=True).get("Item", {})
        return [json.loads(each["S"]) for each in item.get("heard", {}).get("L", [])]

    def others(self, execution: str) -> list[str]:
        """Executions that somebody else started."""
        listed = self.aws.client("stepfunctions").list_executions(stateMachineArn=self.arn)["executions"]
        return [each["name"] for each in listed if each["executionArn"] != execution]


def test_a_smooth_scale_up_tells_its_story_and_gives_the_lease_back(aws: RunningAws) -> None:
    world = World(aws, {})

    execution = world.start()
    ended = world.end(execution)

    assert ended["status"] == "SUCCEEDED", ended
    assert world.states(execution) == [*UNDER_THE_LEASE, *TO_THE_END]
    assert "holder" not in world.lease()
    assert world.lease()["leaseNumber"] == {"N": "1"}
    told = json.loads(ended["output"])
    assert (told["pods"], told["launched"], told["rounds"], told["nodes"]) == (3, 1, 1, [{"name": "n"}])
    heard = world.heard("launch_instances")[0]
    assert (heard["schema"], heard["round"], heard["index"], heard["launches"]) == (1, 1, 0, "launches/x/1.json.gz")
    assert (heard["lease"], heard["execution"]["id"], heard["execution"]["name"]) == ({"number": 1}, execution, "up-1")
    assert set(heard["cluster"]) >= {"name", "endpoint", "certificateAuthority", "version", "serviceCidr"}


def test_a_ring_while_the_lease_is_held_makes_the_same_execution_look_again(aws: RunningAws) -> None:
    world = World(
        aws, {"find_pending_pods": [{"answer": FOUND}, {"answer": NOTHING}], "record_launches": [{"answer": RECORDED, "updates": [RING]}]}
    )

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    again = ["Look again", "Is it still time?", "Let pods gather", "Find pending pods", "Is there anything to do?", "Release the lease"]
    assert world.states(execution) == [*UNDER_THE_LEASE, *again, *TO_THE_END]
    assert [each["round"] for each in world.heard("find_pending_pods")] == [1, 2]


def test_a_second_scale_up_joins_the_one_that_runs(aws: RunningAws) -> None:
    world = World(aws, {})
    holder = {
        "Key": LEASE,
        "UpdateExpression": "SET holder = :h, leaseUntil = :u",
        "ExpressionAttributeValues": {":h": {"S": "arn"}, ":u": {"N": "9999999999"}},
    }
    aws.client("dynamodb").update_item(TableName=world.table, **holder)

    execution = world.start()

    assert json.loads(world.end(execution)["output"]) == {"joined": True}
    assert world.states(execution) == ["Describe the cluster", "Take the lease", "Joined the running scale-up"]


def test_a_lease_that_ran_out_is_taken_under_the_next_number(aws: RunningAws) -> None:
    world = World(aws, {"find_pending_pods": [{"answer": NOTHING}]})
    dead = {
        "Key": LEASE,
        "UpdateExpression": "SET holder = :h, leaseUntil = :u, leaseNumber = :n, rings = :n",
        "ExpressionAttributeValues": {":h": {"S": "arn"}, ":u": {"N": "1"}, ":n": {"N": "7"}},
    }
    aws.client("dynamodb").update_item(TableName=world.table, **dead)

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    assert world.states(execution)[-3:] == ["Release the lease", "Are nodes on their way?", "Summarise"]
    assert world.heard("find_pending_pods")[0]["lease"] == {"number": 8}


def test_who_lost_the_lease_writes_nothing_more_and_ends_well(aws: RunningAws) -> None:
    world = World(aws, {"plan_capacity": [{"raises": "LeaseLost"}]})

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    assert world.states(execution)[-3:] == ["Plan capacity", "Are nodes on their way?", "Summarise"]
    assert len(world.heard("plan_capacity")) == 1


def test_a_failure_gives_the_lease_back_and_says_what_failed(aws: RunningAws) -> None:
    world = World(aws, {"plan_capacity": [{"raises": "Broken"}]})

    execution = world.start()
    ended = world.end(execution)

    assert (ended["status"], ended["error"]) == ("FAILED", "Broken")
    assert "as the script says" in ended["cause"]
    assert world.states(execution)[-3:] == ["Release after a failure", "Did it ring meanwhile?", "The scale-up failed"]
    assert "holder" not in world.lease()
    assert world.others(execution) == []


def test_a_ring_that_a_failed_execution_could_not_answer_is_answered_by_another(aws: RunningAws) -> None:
    world = World(
        aws, {"plan_capacity": [{"raises": "Broken", "updates": [RING]}], "find_pending_pods": [{"answer": FOUND}, {"answer": NOTHING}]}
    )

    execution = world.start()

    assert world.end(execution)["status"] == "FAILED"
    assert [name.endswith("-again") for name in world.others(execution)] == [True]


def test_offerings_that_turn_out_short_are_planned_around_at_once(aws: RunningAws) -> None:
    short = {**RECORDED, "launched": 0, "short": 1, "again": True}
    world = World(aws, {"record_launches": [{"answer": short}, {"answer": RECORDED}]})

    execution = world.start()
    told = json.loads(world.end(execution)["output"])

    assert "Plan around them" in world.states(execution)
    assert (told["launched"], told["short"], told["rounds"]) == (1, 1, 2)


def test_a_group_that_cannot_be_launched_stops_no_other(aws: RunningAws) -> None:
    claims = {"launches": "launches/x/1.json.gz", "groups": [0, 1], "claims": 2}
    world = World(aws, {"record_node_claims": [{"answer": claims}], "launch_instances": [{"raises": "Broken"}]})

    execution = world.start()

    assert world.end(execution)["status"] == "SUCCEEDED"
    states = world.states(execution)
    assert (states.count("This group was not launched"), states.count("Record launches")) == (2, 1)


def test_a_wait_for_nodes_is_ended_by_a_ring_that_came_before_it_by_time_or_by_a_token(aws: RunningAws) -> None:
    waiting = {**JOINED, "done": False, "waiting": 1}
    wave = {
        "Key": {"kind": {"S": "WAVE"}, "id": {"S": "up-1"}},
        "UpdateExpression": "SET rings = :rings",
        "ExpressionAttributeValues": {":rings": {"N": "1"}},
    }
    looks = [
        {"answer": {**waiting, "rings": 0}, "updates": [wave]},  # rang between the look and the wait: no sleep
        {"answer": {**waiting, "rings": 1}},  # sleeps five seconds
        {"answer": {**waiting, "rings": 1}},  # is woken
        {"answer": {**JOINED, "rings": 1}},
    ]
    world = World(aws, {"check_registration": looks})

    execution = world.start()
    eventually(lambda: len(world.heard("check_registration")) == 3, 40)

    def token() -> str:
        item = aws.client("dynamodb").get_item(TableName=world.table, Key=wave["Key"], ConsistentRead=True)["Item"]
        return str(item.get("token", {}).get("S", ""))

    old = token()
    new = eventually(lambda: token() if token() != old else None)
    aws.client("stepfunctions").send_task_success(taskToken=new, output="{}")

    assert world.end(execution)["status"] == "SUCCEEDED"
    states = world.states(execution)
    assert states[-11:] == [
        "Await nodes",
        "Check registration",
        "Have all nodes joined?",
        "Await nodes",
        "Check registration",
        "Have all nodes joined?",
        "Await nodes",
        "Let rings gather",
        "Check registration",
        "Have all nodes joined?",
        "Summarise",
    ]

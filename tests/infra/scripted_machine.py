"""A state machine on the local Step Functions whose functions answer from a script.

All functions have the same few lines, which get the answer from the `AnswerSource` in the test's process. A script
belongs to the cluster in the function's payload, so tests that run at the same time do not share scripts.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, TypeVar

from infra.service_integrations import CalledFunction
from infra.states_language import State, state_machine, succeed_state
from joiner.names import pause_parameter
from tests.local.running_aws import RunningAws, eventually

ACTOR = """
import json, os, urllib.request

def handler(event, context):
    answered = json.load(urllib.request.urlopen(os.environ["ANSWERS"], data=json.dumps(event).encode(), timeout=60))
    if "raises" in answered:
        error, _, message = answered["raises"].partition(": ")
        raise type(error, (Exception,), {})(message or "as the script says")
    return answered["answer"]
"""

Answer = Mapping[str, Any]
Line = Answer | str | Callable[[Any, Mapping[str, Any]], Answer | str]
"""A function's answer, or the name of the error that it raises (with the message after a colon); or a callable that
changes what the execution meets while the function runs and returns one of these.
"""

MachinesT = TypeVar("MachinesT", bound="Scripted")
LEASE: Mapping[str, Any] = {"kind": {"S": "LEASE"}, "id": {"S": "scale-up"}}


@dataclass
class AnswerSource:
    """The answers of the functions, by the cluster in their payload."""

    machines: dict[str, "Scripted"] = field(default_factory=dict)

    def answer(self, name: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        line = self.machines[event["cluster"]["name"]].next_line(name, event)
        return {"raises": line} if isinstance(line, str) else {"answer": line}


@dataclass(frozen=True)
class ScriptedAccount(Generic[MachinesT]):
    """The local AWS and its functions, which stay warm for all tests; the class of the machines that tests run, and
    their default scripts.
    """

    aws: RunningAws
    answers: AnswerSource
    functions: Mapping[str, CalledFunction]
    kind: type[MachinesT]
    usual: Mapping[str, Sequence[Line]]

    def machines(self, **scripts: Sequence[Line]) -> MachinesT:
        """Return machines with a cluster of their own; the last line of a script repeats."""
        made = self.kind(self.aws, self.functions, {**self.usual, **scripts})
        self.answers.machines[made.cluster] = made
        return made


@contextmanager
def scripted_account(
    kind: type[MachinesT], names: Sequence[str], usual: Mapping[str, Sequence[Line]], aws: RunningAws
) -> Iterator[ScriptedAccount[MachinesT]]:
    """Run these functions in the local AWS until the block ends."""
    answers = AnswerSource()

    class Box(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["content-length"])))
            response = json.dumps(answers.answer(self.path.strip("/"), event)).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, format: str, *args: object) -> None:
            pass

    box = ThreadingHTTPServer(("127.0.0.1", 0), Box)
    threading.Thread(target=box.serve_forever, daemon=True).start()
    try:
        role = aws.role("lambda.amazonaws.com")
        executions = {name: {"Variables": {"ANSWERS": f"http://127.0.0.1:{box.server_port}/{name}"}} for name in names}
        actors = {
            name: CalledFunction(aws.function(ACTOR, Role=role, Timeout=60, Environment=executions[name]), 60)
            for name in names
        }
        yield ScriptedAccount(aws, answers, actors, kind, usual)
    finally:
        box.shutdown()
        box.server_close()


@dataclass
class Scripted:
    """One cluster, its table and its pause parameter; the scripts of its functions, and the payloads that they got."""

    aws: RunningAws
    functions: Mapping[str, CalledFunction]
    scripts: Mapping[str, Sequence[Line]]
    calls: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    cluster: str = field(init=False)
    table: str = field(init=False)

    def __post_init__(self) -> None:
        self.table, self.cluster = self.aws.fresh("table"), self.aws.fresh("cluster")
        keys = [("kind", "HASH"), ("id", "RANGE")]
        self.aws.client("dynamodb").create_table(
            TableName=self.table,
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
            BillingMode="PAY_PER_REQUEST",
        )
        network: Mapping[str, Any] = {}
        self.aws.client("eks").create_cluster(
            name=self.cluster, roleArn=self.aws.role("eks.amazonaws.com"), resourcesVpcConfig=network
        )
        self.pause("false")

    def pause(self, value: str) -> None:
        """Write the parameter that `joiner pause` writes."""
        self.aws.client("ssm").put_parameter(
            Name=pause_parameter(self.cluster), Value=value, Type="String", Overwrite=True
        )

    def next_line(self, name: str, event: Mapping[str, Any]) -> Answer | str:
        """Return the answer of a function to this call; the last line repeats."""
        payloads = self.calls.setdefault(name, [])
        payloads.append(event)
        lines = self.scripts[name]
        line = lines[min(len(payloads), len(lines)) - 1]
        return line(self, event) if callable(line) else line

    def machine(self, name: str, definition: State | None = None, *, kind: str = "STANDARD") -> str:
        """Create a state machine; the default definition ends at once."""
        wanted = definition or state_machine({"Ends": succeed_state()}, comment="ends", timeout=10)
        made = self.aws.client("stepfunctions").create_state_machine(
            name=self.aws.fresh(name),
            definition=json.dumps(wanted),
            roleArn=self.aws.role("states.amazonaws.com"),
            type=kind,
        )
        arn: str = made["stateMachineArn"]
        return arn

    def started(self, machine_arn: str) -> Mapping[str, Any]:
        """Return the input of each execution of a Standard machine, by the execution's name."""
        client = self.aws.client("stepfunctions")
        listed = client.list_executions(stateMachineArn=machine_arn)["executions"]
        return {
            each["name"]: json.loads(client.describe_execution(executionArn=each["executionArn"])["input"])
            for each in listed
        }

    def end(self, execution: str) -> Mapping[str, Any]:
        """Return an execution of a Standard machine when it has ended."""

        def ended_execution() -> Mapping[str, Any] | None:
            response: Mapping[str, Any] = self.aws.client("stepfunctions").describe_execution(executionArn=execution)
            return response if response["status"] != "RUNNING" else None

        return eventually(ended_execution, 60)

    def states(self, execution: str) -> list[str]:
        """Return the states that an execution of a Standard machine entered."""
        pages = self.aws.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=execution)
        return _entered(event for page in pages for event in page["events"])

    def item(self, kind: str, identity: str) -> Mapping[str, Any]:
        """Return one item of the table, empty if it does not exist."""
        key = {"kind": {"S": kind}, "id": {"S": identity}}
        item: Mapping[str, Any] = (
            self.aws.client("dynamodb").get_item(TableName=self.table, Key=key, ConsistentRead=True).get("Item", {})
        )
        return item

    def put(self, kind: str, identity: str, **attributes: str | int) -> None:
        """Write a whole item."""
        written = {
            name: {"N": str(value)} if isinstance(value, int) else {"S": value} for name, value in attributes.items()
        }
        self.aws.client("dynamodb").put_item(
            TableName=self.table, Item={"kind": {"S": kind}, "id": {"S": identity}, **written}
        )

    def ring(self) -> None:
        """Count a ring, as the doorbell does first."""
        self.aws.client("dynamodb").update_item(
            TableName=self.table,
            Key=LEASE,
            UpdateExpression="ADD rings :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )

    @property
    def lease(self) -> Mapping[str, Any]:
        return self.item("LEASE", "scale-up")

    def rings(self) -> int:
        """Return the number of rings for a scale-up."""
        return int(self.lease.get("rings", {"N": "0"})["N"])

    def ran_express(self, machine_arn: str, response: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run one execution of an Express machine, and return it as the local AWS reports it; `states` are those that
        it entered.
        """
        arn = self.aws.client("stepfunctions").start_execution(stateMachineArn=machine_arn, input=json.dumps(response))[
            "executionArn"
        ]

        def ended_execution() -> Mapping[str, Any] | None:
            executions = self.aws.knob("express-executions", stateMachineArn=machine_arn, executionArn=arn)[
                "executions"
            ]
            return next((each for each in executions if each["status"] != "RUNNING"), None)

        ended = eventually(ended_execution, 60)
        return {**ended, "states": _entered(ended["events"])}


def _entered(events: Iterable[Mapping[str, Any]]) -> list[str]:
    return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]

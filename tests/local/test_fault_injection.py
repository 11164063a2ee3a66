"""Injected faults: which calls they affect, and what such a call has done."""

import gzip
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from joiner.adapters.tls import client_context
from joiner_local.aws.fault_injection.small_pages import SmallPages
from joiner_local.control_plane.pki import CertificateAuthority
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

MACHINE = {
    "QueryLanguage": "JSONata",
    "StartAt": "Wait",
    "States": {"Wait": {"Type": "Wait", "Seconds": 20, "Next": "Done"}, "Done": {"Type": "Pass", "End": True}},
}


@dataclass
class ItemWriter:
    """A table, and a state machine in whose name items are written to it."""

    aws: RunningAws
    table: str
    machine: str
    arn: str
    dynamodb: Any

    def write(self, identity: str) -> None:
        self.dynamodb.put_item(TableName=self.table, Item={"kind": {"S": "LEASE"}, "id": {"S": identity}})

    def there(self, identity: str) -> bool:
        key = {"kind": {"S": "LEASE"}, "id": {"S": identity}}
        return "Item" in self.aws.client("dynamodb").get_item(TableName=self.table, Key=key)

    def fault(self, how: str, **more: object) -> None:
        self.aws.knob("faults/set", caller=self.machine, call="dynamodb PutItem LEASE", how=how, **more)

    def struck(self) -> int:
        return int(self.aws.knob("faults/set")["struck"])


@pytest.fixture
def stage(local_aws: RunningAws) -> Iterator[ItemWriter]:
    table, machine, role = local_aws.table(), local_aws.fresh("machine"), local_aws.role("states.amazonaws.com")
    arn = local_aws.client("stepfunctions").create_state_machine(
        name=machine, definition=json.dumps(MACHINE), roleArn=role
    )
    lent = local_aws.client("sts").assume_role(RoleArn=role, RoleSessionName="states")["Credentials"]
    session = boto3.Session(lent["AccessKeyId"], lent["SecretAccessKey"], lent["SessionToken"], region_name="us-east-1")
    once = Config(retries={"total_max_attempts": 1}, read_timeout=5)
    yield ItemWriter(
        local_aws,
        table,
        machine,
        arn["stateMachineArn"],
        session.client("dynamodb", endpoint_url=local_aws.endpoint, config=once),
    )
    local_aws.knob("faults/set")
    local_aws.knob("faults/stop")
    local_aws.knob("faults/pace", factor=1)


def test_a_refused_call_has_done_nothing(stage: ItemWriter) -> None:
    stage.fault("refused")
    with pytest.raises(ClientError, match="AccessDenied"):
        stage.write("a")
    assert not stage.there("a")
    assert stage.struck() == 1


def test_a_call_that_timed_out_has_done_nothing(stage: ItemWriter) -> None:
    stage.fault("timed out")
    with pytest.raises(BotoCoreError):
        stage.write("a")
    assert not stage.there("a")


def test_a_call_whose_answer_is_lost_has_done_it(stage: ItemWriter) -> None:
    stage.fault("answer lost")
    with pytest.raises(BotoCoreError):
        stage.write("a")
    assert stage.there("a")


def test_struck_are_the_nth_call_and_as_many_after_it_as_asked(stage: ItemWriter) -> None:
    stage.fault("refused", nth=2, times=2)
    for identity in "abcd":
        with suppress(ClientError):
            stage.write(identity)
    assert [identity for identity in "abcd" if stage.there(identity)] == ["a", "d"]
    assert stage.struck() == 2


def test_calls_of_persons_are_neither_struck_nor_noted(stage: ItemWriter) -> None:
    stage.fault("refused", times=None)
    stage.aws.knob("faults/record", on=True)
    stage.aws.client("dynamodb").put_item(TableName=stage.table, Item={"kind": {"S": "LEASE"}, "id": {"S": "a"}})
    with pytest.raises(ClientError):
        stage.write("b")
    assert stage.aws.knob("faults/record", on=False)["calls"] == [[stage.machine, "dynamodb PutItem LEASE"]]
    assert stage.there("a")


def test_a_mistake_in_the_knob_is_reported(local_aws: RunningAws) -> None:
    with pytest.raises(AssertionError, match="not lost for ever"):
        local_aws.knob("faults/set", caller="x", call="y", how="lost for ever")


@pytest.mark.parametrize(("when", "entered"), [("entered", ["Wait"]), ("left", ["Wait"])])
def test_an_execution_is_stopped_where_it_was_asked(stage: ItemWriter, when: str, entered: list[str]) -> None:
    stage.aws.knob("faults/pace", factor=0.01)
    stage.aws.knob("faults/stop", machine=stage.machine, state="Wait", when=when)
    client = stage.aws.client("stepfunctions")
    arn = client.start_execution(stateMachineArn=stage.arn)["executionArn"]
    assert eventually(lambda: client.describe_execution(executionArn=arn)["status"] == "ABORTED")
    events = client.get_execution_history(executionArn=arn)["events"]
    assert [
        each["stateEnteredEventDetails"]["name"] for each in events if "stateEnteredEventDetails" in each
    ] == entered
    assert any(each["type"] == "WaitStateExited" for each in events) == (when == "left")
    assert stage.aws.knob("faults/stop")["stopped"] == [arn]


def test_waits_take_the_part_of_their_time_that_was_asked(stage: ItemWriter) -> None:
    stage.aws.knob("faults/pace", factor=0.01)
    client, began = stage.aws.client("stepfunctions"), time.monotonic()
    arn = client.start_execution(stateMachineArn=stage.arn)["executionArn"]
    assert eventually(lambda: client.describe_execution(executionArn=arn)["status"] == "SUCCEEDED")
    assert time.monotonic() - began < 20


def test_the_api_server_s_door_passes_on_what_nothing_happens_to(local_aws: RunningAws, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path, now=datetime.now(UTC))
    pair = authority.server("apiserver", "127.0.0.1")

    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PATCH(self) -> None:
            body = (
                self.rfile.read(int(self.headers["content-length"]))
                + self.headers["authorization"].encode()
                + self.path.encode()
            )
            self.send_response(409)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = local_aws.fresh("cluster")
    network: dict[str, Any] = {}
    local_aws.client("eks").create_cluster(
        name=name, roleArn=local_aws.role("eks.amazonaws.com"), resourcesVpcConfig=network
    )
    local_aws.knob("eks", name=name, endpoint=f"https://127.0.0.1:{server.server_port}", ca="")

    door = local_aws.knob("faults/guard", cluster=name, pki=str(tmp_path))["endpoint"]

    assert (
        local_aws.client("eks").describe_cluster(name=name)["cluster"]["endpoint"]
        == door
        != f"https://127.0.0.1:{server.server_port}"
    )
    with urllib3.PoolManager(ssl_context=client_context(authority.certificate.read_text())) as http:
        answer = http.request("PATCH", f"{door}/api/v1/nodes/a?x=1", body=b"{}", headers={"Authorization": "Bearer t:"})
    assert (answer.status, answer.data) == (409, b"{}Bearer t:/api/v1/nodes/a?x=1")
    server.shutdown()
    server.server_close()


def test_a_list_without_a_limit_and_one_whose_next_page_is_not_asked_for_are_reported() -> None:
    def answer(further: str) -> bytes:
        return json.dumps({"kind": "PodList", "metadata": {"continue": further} if further else {}}).encode()

    pages = SmallPages()
    pages.set({"size": 2})

    assert pages.of_list("/api/v1/pods?limit=500", "whole", "kube LIST pods") == "/api/v1/pods?limit=2"
    pages.answered("whole", "kube LIST pods", answer("token-1"))
    pages.of_list("/api/v1/pods?limit=500&continue=token-1", "whole", "kube LIST pods")
    pages.answered("whole", "kube LIST pods", gzip.compress(answer("")))
    pages.of_list("/api/v1/nodes?limit=500", "first", "kube LIST nodes")
    pages.answered("first", "kube LIST nodes", gzip.compress(answer("token-2")))
    assert pages.of_list("/api/v1/nodes", "unlimited", "kube LIST nodes") == "/api/v1/nodes"

    assert pages.set({"size": 0}) == {
        "paged": [("whole", "kube LIST pods")],
        "unread": [("first", "kube LIST nodes"), ("unlimited", "kube LIST nodes")],
    }
    assert pages.set({"size": 0}) == {"paged": [], "unread": []}


def test_calls_are_counted_without_an_end_of_the_rules(stage: ItemWriter) -> None:
    stage.fault("refused", times=2)

    counts = []
    for _ in range(3):
        with suppress(ClientError):
            stage.write("a")
        counts.append(stage.aws.knob("faults/struck"))

    assert counts == [{"struck": count, "each": [count]} for count in (1, 2, 2)]
    assert stage.there("a")

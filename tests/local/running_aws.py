"""The local AWS from the outside, through boto3, and the small resources that tests create in it."""

import http.client
import io
import json
import os
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from botocore.config import Config

from joiner_local.aws_sessions import aws_session
from joiner_local.stack.stack_processes import dies_with_parent

Found = TypeVar("Found")

PATIENCE = 30.0  # seconds; nothing here takes as long, except on a busy machine


@dataclass(slots=True)
class RunningAws:
    """The server, seen from outside. All tests share the account; `fresh` returns names that no other test has."""

    endpoint: str
    data: Path
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self._clients:
            session = aws_session("test", "test")
            config = Config(
                retries={"total_max_attempts": 1}, inject_host_prefix=False, s3={"addressing_style": "path"}
            )
            self._clients[service] = session.client(
                service,  # type: ignore[call-overload]  # a name known at run time
                endpoint_url=self.endpoint,
                config=config,
            )
        return self._clients[service]

    def knob(self, name: str, /, **asked: Any) -> dict[str, Any]:
        """Set a control of the local AWS: `POST /_local/NAME`."""
        host = self.endpoint.removeprefix("http://")
        with closing(http.client.HTTPConnection(host, timeout=PATIENCE)) as connection:
            connection.request("POST", f"/_local/{name}", json.dumps(asked))
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, body
        response: dict[str, Any] = json.loads(body)
        return response

    @staticmethod
    def fresh(name: str) -> str:
        return f"{name}-{uuid.uuid4().hex[:8]}"

    def role(self, service: str, permissions: list[dict[str, Any]] | None = None) -> str:
        """Return the ARN of a role that the service may assume (``lambda.amazonaws.com``). Without statements,
        everything is allowed to it.
        """
        trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        name = self.fresh("role")
        arn: str = self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
        if permissions is None:
            permissions = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
        if permissions:
            document = json.dumps({"Version": "2012-10-17", "Statement": permissions})
            self.client("iam").put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=document)
        return arn

    def function(self, code: str, **settings: Any) -> str:
        """Create a function from this source, which defines `handler(event, context)`; return its name."""
        name = self.fresh("function")
        wanted: dict[str, Any] = {"Runtime": "python3.11", "Handler": "index.handler", "Timeout": 15, **settings}
        wanted.setdefault("Role", self.role("lambda.amazonaws.com"))
        self.client("lambda").create_function(
            FunctionName=name, Code={"ZipFile": zipped(**{"index.py": code})}, **wanted
        )
        return name

    def table(self, name: str = "table") -> str:
        """Create a table with the same keys as Joiner's, `kind` and `id`; return its name."""
        fresh = self.fresh(name)
        self.client("dynamodb").create_table(
            TableName=fresh,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "kind", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("kind", "id")],
        )
        return fresh

    def queue(self, **attributes: str) -> tuple[str, str]:
        """Return a queue's URL and ARN."""
        sqs = self.client("sqs")
        url = sqs.create_queue(QueueName=self.fresh("queue"), Attributes=attributes)["QueueUrl"]
        return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def start_server(data: Path, environment: Mapping[str, str], *options: str) -> subprocess.Popen[str]:
    """Start the real server process, with this folder for its log and the files that it unpacks. It ends with the
    tests' process, whatever ends that.
    """
    with (data / "server.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "joiner_local.aws.server", *options, "--data", str(data)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            preexec_fn=dies_with_parent(),  # noqa: PLW1509 - two system calls, no lock is taken in it
        )


@contextmanager
def started_server(data: Path) -> Iterator[tuple[RunningAws, subprocess.Popen[str]]]:
    """Start the server with an environment that names no AWS, and end it afterwards."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    server = start_server(data, environment, "--port", "0")
    assert server.stdout is not None
    try:
        ready = server.stdout.readline().split()
        assert ready[:1] == ["ready"], (data / "server.log").read_text()
        yield RunningAws(ready[1], data), server
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


def zipped(**files: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writing:
        for name, text in files.items():
            writing.writestr(name, text)
    return archive.getvalue()


def eventually(check: Callable[[], Found | None], patience: float = PATIENCE) -> Found:
    """Call `check` until it returns something true; return that."""
    until = time.monotonic() + patience
    while not (found := check()) and time.monotonic() < until:
        time.sleep(0.02)
    assert found, f"nothing within {patience} s"
    return found

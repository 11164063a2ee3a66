"""`joiner pause` and `joiner resume`: the parameter that the functions read, and the error messages."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from joiner.adapters.pause import Pause
from joiner.names import pause_parameter
from joiner_cli.aws_errors import describe_aws_error
from tests.unit.cli.command_runs import joiner
from tests.unit.cli.installed_account import aws_in_memory


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pause]:
    """The pause parameter of the cluster prod, as the deployment creates it, in an account in memory."""
    with aws_in_memory(monkeypatch):
        client = boto3.client("ssm", region_name="eu-west-1")
        client.put_parameter(Name=pause_parameter("prod"), Value="false", Type="String", Overwrite=True)
        yield Pause(client, "prod")


def test_pause_and_resume_write_the_parameter_that_functions_read(deployed: Pause) -> None:
    assert not deployed.on()

    assert joiner("pause", "prod").out == "Joiner is paused in prod\n"
    assert deployed.on()

    assert joiner("resume", "prod", "--region", "eu-west-1").out == "Joiner acts in prod\n"
    assert not deployed.on()


def test_a_second_pause_says_so_and_does_not_move_the_time_of_the_first(deployed: Pause) -> None:
    ssm, name = boto3.client("ssm", region_name="eu-west-1"), pause_parameter("prod")
    joiner("pause", "prod")
    first = ssm.get_parameter(Name=name)["Parameter"]["Version"]

    assert joiner("pause", "prod").out == "Joiner was paused in prod already\n"
    assert ssm.get_parameter(Name=name)["Parameter"]["Version"] == first
    assert deployed.on()


def test_a_mistyped_cluster_is_reported_and_nothing_is_created(deployed: Pause) -> None:
    answer = joiner("pause", "prdo")

    assert (answer.exit_code, answer.out) == (1, "")
    assert "no Joiner is deployed for a cluster prdo" in answer.err
    assert not deployed.on()
    assert joiner("resume", "prdo").exit_code == 1


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without AWS configuration."""
    for name in (
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # another test's, with its credentials
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return monkeypatch


KEYS = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "no region is set: give --region, or set AWS_REGION"),
        (
            {"AWS_REGION": "eu-west-1"},
            "there are no AWS credentials (Unable to locate credentials): run `aws configure`",
        ),
        (
            {"AWS_PROFILE": "prod"},
            "The config profile (prod) could not be found: set AWS_PROFILE to one of `aws configure list-profiles`",
        ),
        (
            {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            "AWS does not answer: Could not connect to the endpoint URL",
        ),
        ({**KEYS, "AWS_ENDPOINT_URL": "aws"}, "Invalid endpoint: aws: check AWS_ENDPOINT_URL"),
        ({**KEYS, "AWS_REGION": "eu_west"}, "give --region a name such as eu-west-1"),
    ],
    ids=["region", "credentials", "profile", "connection", "endpoint", "malformed"],
)
def test_a_failed_call_to_aws_is_reported_in_one_line_with_a_remedy(
    nowhere: pytest.MonkeyPatch, environment: dict[str, str], message: str
) -> None:
    for name, value in environment.items():
        nowhere.setenv(name, value)
    answer = joiner("pause", "prod")

    assert (answer.exit_code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert answer.err.startswith("joiner: ")
    assert message in answer.err


# `nowhere` removes the credentials
def test_an_invalid_cluster_name_is_reported_before_any_call(nowhere: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    answer = joiner("pause", "my cluster")

    assert (answer.exit_code, answer.err) == (
        1,
        "joiner: 'my cluster' is not a valid EKS cluster name: use up to 100 letters, digits, - and _\n",
    )


@pytest.mark.parametrize("body", [b"<!doctype html>\n<title>500</title>\n<h1>Oops</h1>", b"", b"Oops"])
@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("command", ["pause prod", "status prod", "uninstall --cluster prod --nodes keep"])
def test_the_body_of_an_answer_that_is_not_of_aws_is_never_printed(
    command: str, status: int, body: bytes, nowhere: pytest.MonkeyPatch
) -> None:
    with answering(status, body) as endpoint:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": endpoint}.items():
            nowhere.setenv(name, value)
        answer = joiner(*command.split())

    assert (answer.exit_code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert answer.err.startswith("joiner: the answer is not one of AWS")
    assert "Oops" not in answer.err


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that answers every request with this page."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ExpiredTokenException", "the credentials have expired: run `aws configure`"),
        ("UnrecognizedClientException", "the credentials are invalid"),
        ("AccessDeniedException", "AWS refuses: no: allow ssm:PutParameter"),
        ("ThrottlingException", "An error occurred (ThrottlingException) when calling the PutParameter operation: no"),
    ],
)
def test_an_error_of_aws_is_reported_with_its_remedy(code: str, message: str) -> None:
    refusal = ClientError({"Error": {"Code": code, "Message": "no"}}, "PutParameter")

    assert describe_aws_error(refusal, needs="ssm:PutParameter").startswith(message)

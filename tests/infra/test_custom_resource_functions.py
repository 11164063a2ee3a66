"""The functions of the deployment respond to CloudFormation exactly once, also after errors."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from functions.install_manifests import handler as install_manifests
from infra.manifest_files import MANIFESTS, manifests_digest
from joiner.adapters.custom_resource import Answer, Request, serve
from joiner.adapters.kube_errors import Forbidden
from tests.infra.conftest import ROOT
from tests.unit.functions.fake_kube import FakeKube
from tests.unit.functions.function_loading import load

SLOW = 30  # seconds


@dataclass
class Remaining:
    """The part of Lambda's context that the functions use."""

    seconds: float = 60.0

    def get_remaining_time_in_millis(self) -> int:
        return int(self.seconds * 1000)


@dataclass
class Mailbox:
    """CloudFormation's side: the URL for responses, and the responses."""

    url: str = ""
    answers: list[dict[str, Any]] = field(default_factory=list)

    def event(self, kind: str, properties: Mapping[str, str], physical_id: str | None = None) -> dict[str, Any]:
        event: dict[str, Any] = {
            "RequestType": kind,
            "ResponseURL": self.url,
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "Resource",
            "ResourceProperties": properties,
        }
        return event | ({"PhysicalResourceId": physical_id} if physical_id else {})


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    box = Mailbox()

    class Door(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            assert self.headers["content-type"] == ""
            box.answers.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    box.url = f"http://127.0.0.1:{server.server_port}/answer?signature=1"
    yield box
    server.shutdown()
    server.server_close()


def test_a_created_resource_is_reported_with_its_attributes(mailbox: Mailbox) -> None:
    def make(request: Request) -> Answer:
        return Answer("thing", {"Size": request.properties["Size"]})

    serve(mailbox.event("Create", {"Size": "7"}), Remaining(), make)

    assert mailbox.answers == [
        {
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "Resource",
            "Status": "SUCCESS",
            "PhysicalResourceId": "thing",
            "Data": {"Size": "7"},
        }
    ]


def test_a_failure_is_reported_with_its_reason_and_the_previous_identity(mailbox: Mailbox) -> None:
    def fail(_: Request) -> Answer:
        raise ValueError("no such cluster")

    serve(mailbox.event("Update", {}, "thing"), Remaining(), fail)
    serve(mailbox.event("Create", {}), Remaining(), fail)

    assert [(each["Status"], each["PhysicalResourceId"], each["Reason"]) for each in mailbox.answers] == [
        ("FAILED", "thing", "ValueError: no such cluster"),
        ("FAILED", "never-made", "ValueError: no such cluster"),
    ]


def test_a_function_whose_time_runs_out_answers_before_lambda_ends_it(mailbox: Mailbox) -> None:
    def dawdle(_: Request) -> Answer:
        time.sleep(SLOW)
        return Answer("never")

    began = time.monotonic()
    serve(mailbox.event("Create", {}), Remaining(seconds=10.3), dawdle)

    assert time.monotonic() - began < SLOW
    assert mailbox.answers[0]["Reason"].startswith("TimeIsUp: not done after 0 s")


@pytest.mark.parametrize("name", ["await_catalogue", "describe_cluster"])
def test_what_made_nothing_has_nothing_to_delete(name: str, mailbox: Mailbox) -> None:
    asked = json.loads((ROOT / "functions" / name / "event.json").read_text())["ResourceProperties"]

    load(name).handler(mailbox.event("Delete", asked, "thing"), Remaining())

    assert [each["Status"] for each in mailbox.answers] == ["SUCCESS"]


@pytest.mark.parametrize(
    "name",
    [
        "await_catalogue",
        "collect_launch_templates",
        "create_pause_parameter",
        "describe_cluster",
        "empty_bucket",
        "guard_deletion",
        "install_manifests",
        "keep_node_access",
    ],
)
def test_a_malformed_request_is_answered_too(name: str, mailbox: Mailbox) -> None:
    load(name).handler(mailbox.event("Create", {}), Remaining())

    assert [(each["Status"], each["Reason"].split(":")[0]) for each in mailbox.answers] == [("FAILED", "KeyError")]


def refuse(method: str, path: str, _: Callable[[], Any]) -> Any:
    raise Forbidden(f"{method} {path} is forbidden")


@pytest.mark.parametrize(("physical_id", "status"), [("never-made", "SUCCESS"), ("joiner-manifests", "FAILED")])
def test_only_what_was_never_made_may_stay_behind_when_the_cluster_refuses(
    physical_id: str, status: str, mailbox: Mailbox
) -> None:
    hours = itertools.count(step=3600)
    clock = install_manifests.Clock(now=lambda: float(next(hours)), sleep=lambda _: None)
    cluster = {"Cluster": "demo", "Endpoint": "https://127.0.0.1:1", "CertificateAuthority": "Q0E="}

    def delete(request: Request) -> Answer:
        return install_manifests.delete(request, lambda _: FakeKube(fault=refuse), clock)

    serve(mailbox.event("Delete", cluster, physical_id), Remaining(), delete)

    assert [(each["Status"], each["PhysicalResourceId"]) for each in mailbox.answers] == [(status, physical_id)]
    assert "Forbidden" in mailbox.answers[0].get("Reason", "Forbidden")


def test_the_installer_and_the_template_mean_the_same_digest(tmp_path: Path) -> None:
    assert install_manifests.package_digest(MANIFESTS) == manifests_digest(MANIFESTS)

    (tmp_path / "crds").mkdir()
    (tmp_path / "crds/a.yaml").write_text("a: 1")
    before = install_manifests.package_digest(tmp_path)
    (tmp_path / "crds/a.yaml").write_text("a: 2")
    assert install_manifests.package_digest(tmp_path) != before


def test_a_door_is_fitted_with_its_address_and_with_a_ca_only_if_it_needs_one() -> None:
    webhook = {"name": "pods", "clientConfig": {"url": "DOORBELL/pods"}}

    public = install_manifests.WebhookEndpoint("https://api/ring/secret/").fitted(webhook)
    local = install_manifests.WebhookEndpoint("https://api/ring/secret/", "PEM").fitted(webhook)

    assert public["clientConfig"] == {"url": "https://api/ring/secret/pods"}
    assert local["clientConfig"] == {"url": "https://api/ring/secret/pods", "caBundle": "UEVN"}
    assert webhook["clientConfig"] == {"url": "DOORBELL/pods"}


def test_an_answer_that_cloudformation_would_refuse_is_a_failure_that_names_what_is_too_long(mailbox: Mailbox) -> None:
    """Three CAs in one bundle. CloudFormation itself only reports that the response object is too long."""
    serve(
        mailbox.event("Create", {}),
        Remaining(),
        lambda _: Answer("cluster-prod", {"CertificateAuthority": "x" * 4000, "Version": "1.36"}),
    )

    (answer,) = mailbox.answers
    assert answer["Status"] == "FAILED"
    assert "CloudFormation takes 4096: CertificateAuthority has 4000, Version has 4" in answer["Reason"]


@pytest.mark.parametrize("character", ["x", "\u00e9", "\U0001f600", '"', "\n"])
def test_no_reason_is_too_long_for_an_answer(mailbox: Mailbox, character: str) -> None:
    def act(_request: Request) -> Answer:
        raise ValueError(character * 10_000)

    serve(mailbox.event("Create", {}), Remaining(), act)

    (answer,) = mailbox.answers
    assert answer["Status"] == "FAILED"
    assert len(json.dumps(answer).encode()) < 4096


def test_an_error_that_shows_the_doorbells_secret_is_answered_and_logged_without_it(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "-".join(("s3", "cret"))  # a traceback contains this line, too

    def refused(_: Request) -> Answer:
        with install_manifests.hide_secret(secret):
            raise ValueError(f'webhooks[0].clientConfig.url: Invalid value: "https://api/ring/{secret}/pods"')

    serve(mailbox.event("Update", {}, "thing"), Remaining(), refused)

    assert mailbox.answers[0]["Reason"] == (
        'NotInstalled: ValueError: webhooks[0].clientConfig.url: Invalid value: "https://api/ring/[the secret]/pods"'
    )
    assert "NotInstalled" in caplog.text
    assert secret not in caplog.text


def test_an_error_without_the_doorbells_secret_stays_what_it_is() -> None:

    with pytest.raises(Forbidden), install_manifests.hide_secret("s3cret"):
        raise Forbidden("clusterroles is forbidden")


@pytest.mark.parametrize(
    ("payload", "sentence"),
    [
        (
            b'{"errorType": "NoAnswer", "errorMessage": "ec2 did not answer", "stackTrace": ["  File x, line 1"]}',
            "NoAnswer: ec2 did not answer; deploy again",
        ),
        (b"not json", "not json"),
    ],
)
def test_an_error_of_the_first_refresh_is_shown_without_its_stack_trace(payload: bytes, sentence: str) -> None:
    assert load("await_catalogue").read_error(payload) == sentence

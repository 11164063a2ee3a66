"""The secret in the doorbell's path: no log holds it, and each deployment rotates it without refusing a call."""

import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from joiner_local.demo.change_watch import until
from joiner_local.stack.cdk_deployment import Deployment
from joiner_local.stack.stack_control import REPOSITORY, LocalStack
from tests.e2e.repeated_actions import steadily
from tests.e2e.stack_actions import Actor
from tests.e2e.test_doorbell_faults import failed_scheduling

pytestmark = pytest.mark.e2e

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/joiner-doorbell"


@pytest.fixture
def rung(deployed: Actor) -> Iterator[Actor]:
    """A cluster at rest, whose doorbell was called once."""
    deployed.clean()
    deployed.world.kube.create(EVENTS, failed_scheduling("anybody"))
    yield deployed
    deployed.rest()


def secret(actor: Actor) -> str:
    """Return the secret in the API server's webhook configuration."""
    urls = {webhook["clientConfig"]["url"] for webhook in actor.world.kube.get(WEBHOOK)["webhooks"]}
    (found,) = {re.sub(r".*/ring/([^/]+)/\w+", r"\1", url) for url in urls}
    return found


def logged(actor: Actor, prefix: str = "") -> dict[str, list[str]]:
    """Return every line of the log groups whose names have this prefix; by default, of all log groups."""
    logs = actor.world.client("logs")
    groups = [
        group["logGroupName"]
        for page in logs.get_paginator("describe_log_groups").paginate(
            **({"logGroupNamePrefix": prefix} if prefix else {})
        )
        for group in page["logGroups"]
    ]
    pages = logs.get_paginator("filter_log_events")
    return {
        name: [event["message"] for page in pages.paginate(logGroupName=name) for event in page["events"]]
        for name in groups
    }


def ring(actor: Actor, token: str) -> int:
    """Return the response to a dry run with this secret."""
    door = actor.knob("door")
    trust = ssl.create_default_context(cafile=door["ca"])
    review = json.dumps({"request": {"uid": "u", "dryRun": True}}).encode()
    (address,) = door["apis"].values()
    request = urllib.request.Request(  # noqa: S310  the local door
        f"{address}/ring/{token}/pods", data=review
    )
    try:
        with urllib.request.urlopen(request, context=trust, timeout=10) as answer:  # noqa: S310
            status: int = answer.status
            return status
    except urllib.error.HTTPError as refused:
        return refused.code


def access_log(actor: Actor) -> list[dict[str, Any]]:
    (lines,) = logged(actor, "/aws/vendedlogs/http-apis/joiner-doorbell-").values()
    return [json.loads(line) for line in lines]


def test_the_access_log_names_the_route_and_no_log_holds_the_secret(rung: Actor) -> None:
    token = secret(rung)
    asked = {"route": "POST /ring/{token}/pods", "status": "200"}

    until(lambda: any(asked.items() <= line.items() for line in access_log(rung)), what="the ring in the access log")
    assert [name for name, lines in logged(rung).items() if any(token in line for line in lines)] == []
    assert not any(token in value for value in rung.outputs.values())


@pytest.fixture
def asked_to_rotate(tmp_path: Path) -> Path:
    """The app as `cdk deploy -c rotate=now` synthesises it."""
    return Deployment(REPOSITORY, tmp_path, context={"rotate": "now"}).synthesise()


def test_a_deployment_rotates_the_secret_and_refuses_no_call_meanwhile(
    rung: Actor, stack: LocalStack, asked_to_rotate: Path, tmp_path: Path
) -> None:
    def ring_by_an_event() -> None:
        rung.world.kube.create(EVENTS, failed_scheduling("anybody"))

    before = secret(rung)
    refused = rung.knob("door")["answers"].get("403", 0)
    with steadily(ring_by_an_event, seconds=1) as rings:
        stack.deploy(Deployment(REPOSITORY, tmp_path, say=print, synthesised=asked_to_rotate))
        known = len(rings)
        until(lambda: len(rings) > known + 3, what="rings after the deployment")

    after = secret(rung)
    assert after != before
    assert rung.knob("door")["answers"].get("403", 0) == refused
    # The previous secret stays valid for a quarter of an hour.
    assert [ring(rung, token) for token in (after, before, "another")] == [200, 200, 403]

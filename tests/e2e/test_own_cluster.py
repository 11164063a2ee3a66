"""The deployed functions and their cluster: tokens go to the recorded cluster only, and no role stays administrator."""

import base64
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import Credentials

from infra.function_configuration import CONFIGURATIONS, CalledApi
from joiner.adapters.tokens import sign
from joiner_local.aws.local_aws import REGION
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.control_plane.pki import CertificateAuthority
from tests.e2e.stack_actions import Actor
from tests.local.tls_server import TlsServer, serving

pytestmark = pytest.mark.e2e

TALKING = sorted(name for name, each in CONFIGURATIONS.items() if each.calls is CalledApi.KUBERNETES and each.groups)


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[tuple[TlsServer, str]]:
    """A foreign server, with its CA in base64."""
    authority = CertificateAuthority(tmp_path, now=dt.datetime.now(dt.UTC))
    with serving(authority.server("foreign", "127.0.0.1")) as server:
        yield server, base64.b64encode(authority.certificate.read_bytes()).decode()


def function_of(actor: Actor, name: str) -> dict[str, Any]:
    functions = actor.world.client("lambda").list_functions()["Functions"]
    return dict(
        next(each for each in functions if each["Environment"]["Variables"].get("POWERTOOLS_SERVICE_NAME") == name)
    )


def invoke(actor: Actor, name: str, cluster: dict[str, str]) -> dict[str, Any]:
    """Return the function's error."""
    payload = {
        "schema": 1,
        "execution": {"name": "up-test", "id": "arn:test", "startTime": "2026-11-21T05:17:28Z"},
        "cluster": cluster,
        "round": 1,
        "lease": {"number": 1},
        "wave": "w",
        "claims": [],
        "rebuild": [],
        **dict.fromkeys(("plan", "classes", "snapshot", "launches"), "any"),
    }
    answer = actor.world.client("lambda").invoke(
        FunctionName=function_of(actor, name)["FunctionName"], Payload=json.dumps(payload).encode()
    )
    response: dict[str, Any] = json.loads(answer["Payload"].read())
    assert "FunctionError" in answer, response
    return response


def own(actor: Actor) -> dict[str, str]:
    cluster = actor.world.client("eks").describe_cluster(name=actor.world.stack.cluster)["cluster"]
    ca = cluster["certificateAuthority"]["data"]
    return {
        "name": cluster["name"],
        "endpoint": cluster["endpoint"],
        "certificateAuthority": ca,
        "version": cluster["version"],
    }


@pytest.mark.parametrize("function", TALKING)
def test_no_function_sends_a_token_to_an_endpoint_of_the_callers_choice(
    deployed: Actor, foreign: tuple[TlsServer, str], function: str
) -> None:
    server, ca = foreign
    lured = own(deployed) | {"endpoint": f"https://127.0.0.1:{server.port}", "certificateAuthority": ca}

    error = invoke(deployed, function, lured)

    assert error["errorType"] == "ForeignCluster"
    assert error["errorMessage"].startswith(f"the payload names the endpoint 'https://127.0.0.1:{server.port}'")
    assert server.tokens == []


def test_another_ca_and_another_clusters_name_are_refused(deployed: Actor, foreign: tuple[TlsServer, str]) -> None:
    _, ca = foreign

    other_ca = invoke(deployed, "find_pending_pods", own(deployed) | {"certificateAuthority": ca})
    other_name = invoke(deployed, "find_pending_pods", own(deployed) | {"name": "other"})

    assert (other_ca["errorType"], other_name["errorType"]) == ("ForeignCluster", "ForeignCluster")
    assert "CA is not the one that is recorded for joiner-demo" in other_ca["errorMessage"]
    assert "this function serves 'joiner-demo'" in other_name["errorMessage"]


def test_functions_that_talk_to_aws_refuse_another_clusters_name_too(deployed: Actor) -> None:
    error = invoke(deployed, "survey_instances", own(deployed) | {"name": "other"})

    assert error["errorType"] == "ForeignCluster"


def test_after_the_deployment_the_installer_has_no_right_in_the_cluster(deployed: Actor) -> None:
    role = function_of(deployed, "install_manifests")["Role"]
    policies = deployed.world.client("eks").list_associated_access_policies(
        clusterName="joiner-demo", principalArn=role
    )
    given = deployed.world.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    credentials = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    installer = KubeApi(deployed.world.stack.endpoint, token=sign("joiner-demo", REGION, credentials))

    assert policies["associatedAccessPolicies"] == []
    for path in ("/api/v1/pods", "/apis/rbac.authorization.k8s.io/v1/clusterroles"):
        with pytest.raises(ApiError) as refused:
            installer.get(path)
        assert refused.value.status == 403


def test_the_schedule_keeps_the_rights_of_an_installer_that_may_still_run(deployed: Actor) -> None:
    eks, role = deployed.world.client("eks"), function_of(deployed, "install_manifests")["Role"]
    elevator = function_of(deployed, "elevate_installer")
    policy = elevator["Environment"]["Variables"]["JOINER_INSTALLER_POLICY"]
    entry = {"clusterName": "joiner-demo", "principalArn": role}
    eks.associate_access_policy(**entry, policyArn=policy, accessScope={"type": "cluster"})

    answer = deployed.world.client("lambda").invoke(FunctionName=elevator["FunctionName"], Payload=b"{}")

    assert json.loads(answer["Payload"].read()) == {"revoked": False}  # it may still run
    assert len(eks.list_associated_access_policies(**entry)["associatedAccessPolicies"]) == 1
    eks.disassociate_access_policy(**entry, policyArn=policy)


def test_the_cluster_record_is_updated_when_its_ca_changes(deployed: Actor) -> None:
    table = deployed.world.client("dynamodb")
    key = {"kind": {"S": "CLUSTER"}, "id": {"S": "described"}}
    table.update_item(
        TableName=deployed.outputs["TableName"],
        Key=key,
        UpdateExpression="SET ca = :old",
        ExpressionAttributeValues={":old": {"S": "b2xk"}},
    )

    deployed.record_cluster()

    item = table.get_item(TableName=deployed.outputs["TableName"], Key=key)["Item"]
    assert (item["endpoint"]["S"], item["ca"]["S"]) == (
        own(deployed)["endpoint"],
        own(deployed)["certificateAuthority"],
    )

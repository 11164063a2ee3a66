"""What the deployed functions may do in the cluster: each has the rights of its task only."""

import pytest
from botocore.credentials import Credentials

from joiner.adapters.tokens import sign
from joiner.names import DOORBELL_WEBHOOK, DOORBELL_WEBHOOKS
from joiner_local.aws.local_aws import REGION
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from tests.e2e.stack_actions import Actor

pytestmark = pytest.mark.e2e

NODES = "/api/v1/nodes"
MACHINES = "/apis/karpenter.sh/v1alpha5/machines"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def as_function(actor: Actor, name: str) -> KubeApi:
    """Return the API server with the role of the deployed function whose name contains `name`."""
    functions = actor.world.client("lambda").list_functions()["Functions"]
    role = next(function["Role"] for function in functions if name in function["FunctionName"])
    given = actor.world.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    credentials = Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])
    return KubeApi(actor.world.stack.endpoint, token=sign("joiner-demo", REGION, credentials))


def status(api: KubeApi, method: str, path: str) -> int:
    try:
        api.call(method, path)
    except ApiError as error:
        return error.status
    return 200


@pytest.mark.parametrize(
    "function", ["FindPendingPods", "RecordNodeClaims", "RecordLaunches", "CheckRegistration", "SurveyCluster"]
)
def test_kubernetes_functions_can_list_pods_and_cannot_read_secrets(deployed: Actor, function: str) -> None:
    api = as_function(deployed, function)
    assert status(api, "GET", "/api/v1/pods") == 200
    assert status(api, "GET", "/api/v1/secrets") == 403
    assert status(api, "DELETE", f"{WEBHOOKS}/joiner-doorbell") == 403


def test_only_the_survey_can_read_the_doorbells_webhooks(deployed: Actor) -> None:
    path = f"{WEBHOOKS}/{DOORBELL_WEBHOOK}"
    survey = as_function(deployed, "SurveyCluster")
    assert {each["name"] for each in survey.call("GET", path)["webhooks"]} == set(DOORBELL_WEBHOOKS)
    assert status(survey, "GET", WEBHOOKS) == 403
    assert status(as_function(deployed, "FindPendingPods"), "GET", path) == 403


def test_read_only_functions_cannot_change_anything(deployed: Actor) -> None:
    api = as_function(deployed, "FindPendingPods")
    assert status(api, "DELETE", f"{NODES}/any") == 403
    assert status(api, "DELETE", f"{MACHINES}/any") == 403


def test_functions_that_record_claims_cannot_change_nodes_or_bind_pods(deployed: Actor) -> None:
    api = as_function(deployed, "RecordNodeClaims")
    assert status(api, "DELETE", f"{MACHINES}/any") == 404
    assert status(api, "DELETE", f"{NODES}/any") == 403
    assert status(api, "POST", "/api/v1/namespaces/default/pods/any/binding") == 403


def test_ec2_functions_have_no_access_to_the_cluster(deployed: Actor) -> None:
    for function in ("LaunchInstances", "ResolveNodeClasses", "RefreshCatalogue", "RingDoorbell", "PlanCapacity"):
        assert status(as_function(deployed, function), "GET", "/api/v1/pods") == 401, function

"""Clusters of IPv6, or whose doorbell needs a route: the result of the deployment and of a scale-up."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from functions.describe_cluster import handler as describe_cluster
from infra.service_integrations import ServiceIntegrations
from infra.states_language import state_machine, succeed_state
from joiner.adapters import environment
from joiner.adapters.custom_resource import Request
from joiner.adapters.known_cluster import read_known_cluster
from joiner.adapters.payload import ClusterFacts, Task
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

V4 = {"serviceCidr": "10.100.0.0/16", "ipFamily": "ipv4"}
V6 = {"serviceCidr": "fd12:3456:789a::/108", "ipFamily": "ipv6"}


class EksCluster:
    """A cluster of the local EKS, whose network a test chooses."""

    def __init__(self, aws: RunningAws, network: Network, name: str) -> None:
        self.aws, self.network, self.name = aws, network, name

    def set(self, **asked: Any) -> None:
        self.aws.knob("eks", name=self.name, **asked)

    def described(self, setting: str = "API") -> dict[str, str]:
        """Return the response of the deployment's custom resource to a template with this authentication mode."""
        asked = {"Cluster": self.name, **({"AuthenticationMode": setting} if setting else {})}
        answer = describe_cluster.describe(Request("Create", asked))
        return dict(answer.attributes)

    def facts(self) -> ClusterFacts:
        """Return what the state *Describe the cluster* of the state machines passes to every function, and how
        functions parse it.
        """
        sfn = self.aws.client("stepfunctions")
        describe = ServiceIntegrations("aws").describe_cluster(self.name, next="End", assign={}, catch=[])
        states = {"Describe": describe, "End": succeed_state(output={"cluster": "{% $cluster %}"})}
        definition = json.dumps(state_machine(states, comment="A test's", timeout=30))
        created = sfn.create_state_machine(
            name=self.aws.fresh("facts"), definition=definition, roleArn=self.aws.role("states.amazonaws.com")
        )
        execution = sfn.start_execution(stateMachineArn=created["stateMachineArn"])["executionArn"]

        def ended() -> dict[str, Any] | None:
            described: dict[str, Any] = sfn.describe_execution(executionArn=execution)
            return described if described["status"] != "RUNNING" else None

        described = eventually(ended)
        assert described["status"] == "SUCCEEDED", described
        return Task.parse(
            {"schema": 1, "execution": {"name": "up", "id": "arn"}, **json.loads(described["output"])}
        ).cluster


@pytest.fixture
def cluster(local_aws: RunningAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[EksCluster]:
    name, table = local_aws.fresh("networks"), local_aws.table("memory")
    for variable, value in {
        "AWS_ENDPOINT_URL": local_aws.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "JOINER_CLUSTER": name,
        "JOINER_TABLE": table,
        "JOINER_LOOPBACK_ENDPOINT": "true",
    }.items():
        monkeypatch.setenv(variable, value)
    _forget_clients()
    yield EksCluster(local_aws, seed_network(local_aws.endpoint, name), name)
    _forget_clients()


def _forget_clients() -> None:
    environment.client.cache_clear()
    environment._session.cache_clear()


def test_the_deployment_accepts_an_ipv6_cluster_and_records_its_services(cluster: EksCluster) -> None:
    cluster.set(**V6)

    assert cluster.described()["Version"] == "1.36"
    recorded = read_known_cluster(cluster.aws.client("dynamodb"), environment.setting("JOINER_TABLE"))
    assert recorded is not None
    assert recorded.service_cidr == "fd12:3456:789a::/108"


def test_a_deployment_of_an_earlier_version_has_no_authentication_mode_and_is_one_with_access_entries(
    cluster: EksCluster,
) -> None:
    assert cluster.described("")["Version"] == "1.36"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("", "AWS_MANAGED: the control plane reaches the doorbell without any setting of yours"),
        (
            "CUSTOMER_ROUTED",
            "give the cluster's subnets a route to the internet (NAT gateway) or to the doorbell's address",
        ),
        ("CUSTOMER_ISOLATED", "the control plane reaches nothing outside its VPC"),
    ],
)
def test_the_deployment_reports_whether_the_control_plane_reaches_the_doorbell(
    cluster: EksCluster, mode: str, reason: str
) -> None:
    if mode:
        cluster.set(controlPlaneEgressMode=mode)

    egress = cluster.described()["ControlPlaneEgress"]

    assert egress.startswith(mode or "AWS_MANAGED")
    assert reason in egress


def test_the_template_asks_for_what_the_function_answers(cluster: EksCluster) -> None:
    from infra.manifest_installation import DESCRIBED_ATTRIBUTES  # with the CDK, whose import takes seconds

    assert set(cluster.described()) == set(DESCRIBED_ATTRIBUTES)


def test_the_clusters_own_subnets_are_what_the_permissions_get(cluster: EksCluster) -> None:
    assert set(cluster.described()["SubnetIds"].split(",")) == set(cluster.network.subnets.values())


def test_every_function_gets_the_network_of_the_cluster(cluster: EksCluster) -> None:
    cluster.set(**V4)
    four = cluster.facts()
    cluster.set(**V6)
    six = cluster.facts()

    assert (four.ip_family, four.service_cidr) == ("ipv4", "10.100.0.0/16")
    assert (six.ip_family, six.service_cidr) == ("ipv6", "fd12:3456:789a::/108")
    assert set(four.subnets) == set(cluster.network.subnets.values())


@pytest.mark.parametrize(
    ("mode", "setting"),
    [
        ("API", "API"),
        ("API", "API_AND_CONFIG_MAP"),
        ("API_AND_CONFIG_MAP", "API"),
        ("API_AND_CONFIG_MAP", "CONFIG_MAP"),
        ("CONFIG_MAP", "CONFIG_MAP"),
    ],
)
def test_an_authentication_mode_that_fits_the_settings_is_accepted(
    cluster: EksCluster, mode: str, setting: str
) -> None:
    cluster.set(authenticationMode=mode)

    assert cluster.described(setting)["Endpoint"]


@pytest.mark.parametrize(
    ("mode", "setting", "remedy"),
    [
        ("CONFIG_MAP", "API", "write authenticationMode: CONFIG_MAP"),
        ("CONFIG_MAP", "API_AND_CONFIG_MAP", "--access-config authenticationMode=API_AND_CONFIG_MAP"),
        ("API", "CONFIG_MAP", "which does not read aws-auth: write authenticationMode: API"),
    ],
)
def test_an_authentication_mode_in_which_roles_would_be_written_in_vain_is_refused(
    cluster: EksCluster, mode: str, setting: str, remedy: str
) -> None:
    cluster.set(authenticationMode=mode)

    with pytest.raises(describe_cluster.ClusterNotSupported, match=remedy):
        cluster.described(setting)

"""A function's token is sent to its own cluster only, whatever the payload contains: a process with a listening server
shows it.
"""

import base64
import datetime as dt
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from joiner.adapters import known_cluster
from joiner.adapters.known_cluster import KnownCluster
from joiner.adapters.payload import ClusterFacts
from joiner.item_keys import CLUSTER, DESCRIBED, item_key
from joiner_local.control_plane.pki import CertificateAuthority
from tests.local.running_aws import RunningAws
from tests.local.tls_server import TlsServer, serving

pytestmark = pytest.mark.local

NAME = "own-cluster"
LIST_NODES = """
import sys
from joiner.adapters import environment, known_cluster
from joiner.adapters.kube_kinds import NODES
from joiner.adapters.payload import ClusterFacts

name, endpoint, ca = sys.argv[1:]
try:
    print(environment.kube(ClusterFacts(name, endpoint, ca, "", "")).list(NODES))
except known_cluster.ForeignCluster as refused:
    print(f"refused: {refused}")
"""


@dataclass
class RecordedCluster:
    """A table with the record of a cluster, the cluster's API server, and a foreign server with a CA of its own."""

    aws: RunningAws
    table: str
    own: TlsServer
    own_ca: str
    foreign: TlsServer
    foreign_ca: str

    def __post_init__(self) -> None:
        self.record(f"https://127.0.0.1:{self.own.port}", self.own_ca)

    def record(self, endpoint: str, ca: str) -> None:
        known_cluster.record_known_cluster(self.aws.client("dynamodb"), self.table, KnownCluster(endpoint, ca), at=1)

    def ask(self, *, name: str = NAME, endpoint: str = "", ca: str = "", loopback: bool = True) -> str:
        """Return the result of a function with this payload; by default the payload is the correct one."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")} | {
            "AWS_ENDPOINT_URL": self.aws.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "JOINER_CLUSTER": NAME,
            "JOINER_TABLE": self.table,
        }
        if loopback:
            environment["JOINER_LOOPBACK_ENDPOINT"] = "true"
        where = [name, endpoint or f"https://127.0.0.1:{self.own.port}", ca or self.own_ca]
        done = subprocess.run(
            [sys.executable, "-c", LIST_NODES, *where], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()


@pytest.fixture
def cluster(local_aws: RunningAws, tmp_path: Path) -> Iterator[RecordedCluster]:
    dynamodb, table = local_aws.client("dynamodb"), local_aws.table("memory")
    own, foreign = (CertificateAuthority(tmp_path / each, now=dt.datetime.now(dt.UTC)) for each in ("own", "foreign"))
    with serving(own.server("own", "127.0.0.1")) as mine, serving(foreign.server("foreign", "127.0.0.1")) as theirs:
        ca, foreign_ca = (base64.b64encode(each.certificate.read_bytes()).decode() for each in (own, foreign))
        yield RecordedCluster(local_aws, table, mine, ca, theirs, foreign_ca)
    dynamodb.delete_table(TableName=table)


def test_the_own_cluster_is_asked_with_a_token(cluster: RecordedCluster) -> None:
    assert cluster.ask() == "[]"
    assert [token.partition(".")[0] for token in cluster.own.tokens] == ["Bearer k8s-aws-v1"]


def test_an_endpoint_of_the_callers_choice_gets_no_token(cluster: RecordedCluster) -> None:
    message = cluster.ask(endpoint=f"https://127.0.0.1:{cluster.foreign.port}", ca=cluster.foreign_ca)

    assert message.startswith("refused: the payload names the endpoint")
    assert (cluster.foreign.tokens, cluster.own.tokens) == ([], [])


def test_a_ca_of_the_callers_choice_is_refused(cluster: RecordedCluster) -> None:
    message = cluster.ask(ca=cluster.foreign_ca)

    assert message.startswith("refused: the payload's CA is not the one that is recorded for own-cluster")
    assert cluster.own.tokens == []


def test_another_clusters_name_is_refused(cluster: RecordedCluster) -> None:
    assert cluster.ask(name="other").startswith(
        "refused: the payload is for the cluster 'other'; this function serves 'own-cluster'"
    )
    assert cluster.own.tokens == []


def test_without_a_record_nothing_is_asked(cluster: RecordedCluster) -> None:
    key = item_key(CLUSTER, DESCRIBED)
    cluster.aws.client("dynamodb").delete_item(TableName=cluster.table, Key=key)

    assert cluster.ask().startswith("refused: no endpoint is recorded for the cluster own-cluster")


def test_a_loopback_endpoint_needs_the_setting_that_only_the_local_stack_has(cluster: RecordedCluster) -> None:
    assert "is not the endpoint of an EKS cluster in us-east-1" in cluster.ask(loopback=False)
    assert cluster.own.tokens == []


def test_with_that_setting_no_other_machine_is_asked(cluster: RecordedCluster) -> None:
    eks = "https://0123456789ABCDEF0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com"
    cluster.record(eks, cluster.own_ca)

    assert "is not of this machine" in cluster.ask(endpoint=eks)


def test_an_exchanged_ca_is_trusted_as_soon_as_it_is_recorded(cluster: RecordedCluster) -> None:
    cluster.record(f"https://127.0.0.1:{cluster.foreign.port}", cluster.foreign_ca)

    assert cluster.ask(endpoint=f"https://127.0.0.1:{cluster.foreign.port}", ca=cluster.foreign_ca) == "[]"
    assert len(cluster.foreign.tokens) == 1


OWN = "0123456789ABCDEF0123456789ABCDEF"


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        (f"https://{OWN}.gr7.eu-west-1.eks.amazonaws.com", "eu-west-1"),
        (f"https://{OWN}.yl4.us-east-1.eks.amazonaws.com", "us-east-1"),
        (f"https://{OWN}.sk1.ap-south-2.eks.amazonaws.com", "ap-south-2"),
        (f"https://{OWN}.gr7.us-gov-west-1.eks.amazonaws.com", "us-gov-west-1"),
        (f"https://{OWN}.yl4.cn-north-1.eks.amazonaws.com.cn", "cn-north-1"),
        (f"https://{OWN}.cn-northwest-1.amazonwebservices.com.cn", "cn-northwest-1"),
        (f"https://{OWN}.gr7.eu-west-1.api.aws", "eu-west-1"),
        (f"https://{OWN}.gr7.eu-west-1.eks.api.aws", "eu-west-1"),
        (f"https://{OWN}.yl4.cn-north-1.api.amazonwebservices.com.cn", "cn-north-1"),
        (f"https://{OWN}.gr7.eusc-de-east-1.eks.amazonaws.eu", "eusc-de-east-1"),
    ],
)
def test_eks_endpoints_of_every_shape_are_known(endpoint: str, region: str) -> None:
    assert known_cluster.is_eks_endpoint(endpoint, region)
    known = KnownCluster(endpoint, "Q0E=")
    facts = ClusterFacts("prod", endpoint, "Q0E=", "1.36", "")
    assert known_cluster.refusal_reason(facts, known, name="prod", region=region, loopback=False) == ""


@pytest.mark.parametrize(
    "endpoint",
    [
        f"http://{OWN}.gr7.eu-west-1.eks.amazonaws.com",
        f"https://{OWN}.gr7.us-east-1.eks.amazonaws.com",  # another region's
        f"https://{OWN}.gr7.eu-west-1.eks.amazonaws.com.evil.example",
        f"https://{OWN}.gr7.eu-west-1.eks.amazonaws.com:8443",
        f"https://{OWN}.gr7.eu-west-1.eks.amazonaws.com@evil.example",
        f"https://evil.example/{OWN}.gr7.eu-west-1.eks.amazonaws.com",
        f"https://{OWN}.gr7.eu-west-1.eks.amazonaws.com.cn",  # another partition's
        f"https://{OWN}.gr7.eu-west-1.amazonaws.com",
        "https://a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com",
        "https://a1b2c3d4e5.execute-api.eu-west-1.api.aws",
        "https://name-1234567890.eu-west-1.elb.amazonaws.com",
        "https://ec2-203-0-113-25.eu-west-1.compute.amazonaws.com",
        "https://127.0.0.1:6443",
        "",
    ],
)
def test_what_others_can_have_in_aws_is_no_eks_endpoint(endpoint: str) -> None:
    assert not known_cluster.is_eks_endpoint(endpoint, "eu-west-1")


def test_a_service_range_of_the_callers_choice_is_refused() -> None:
    endpoint = f"https://{OWN}.gr7.eu-west-1.eks.amazonaws.com"
    facts = ClusterFacts("prod", endpoint, "Q0E=", "1.36", "10.9.0.0/16")

    message = known_cluster.refusal_reason(
        facts, KnownCluster(endpoint, "Q0E=", "10.100.0.0/16"), name="prod", region="eu-west-1", loopback=False
    )

    assert message == "the payload's service CIDR is 10.9.0.0/16; that of prod is 10.100.0.0/16"

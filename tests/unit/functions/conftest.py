"""An in-memory AWS for the ledger and the bucket, created once; each test has a table and a bucket of its own."""

import itertools
import os
from collections.abc import Callable, Iterator

import boto3
import pytest
from moto import mock_aws

from joiner.adapters.ledger import Ledger
from joiner.adapters.store import Store
from joiner_local.aws.moto_patches.model_caches import cache_service_lookups
from joiner_local.aws.moto_patches.response_writer import replace_response_serializers
from tests.unit.functions.fake_kube import FakeKube
from tests.unit.functions.launched_nodes import launched
from tests.unit.functions.scale_up import SimulatedCluster
from tests.unit.functions.small_account import pending

MakeCluster = Callable[[], SimulatedCluster]


@pytest.fixture(scope="session")
def make_cluster() -> Iterator[MakeCluster]:
    names = itertools.count()
    before = dict(os.environ)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    cache_service_lookups()
    replace_response_serializers()
    with mock_aws():
        dynamodb, s3 = boto3.client("dynamodb"), boto3.client("s3")

        def make() -> SimulatedCluster:
            name = f"joiner-{next(names)}"
            dynamodb.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("kind", "id")],
                KeySchema=[{"AttributeName": "kind", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
            )
            s3.create_bucket(Bucket=name)
            return SimulatedCluster(Ledger(dynamodb, name), Store(s3, name), FakeKube(), machine=Ledger(dynamodb, name))

        yield make
    os.environ.clear()
    os.environ |= before


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> SimulatedCluster:
    return make_cluster()


@pytest.fixture(name="launched")
def cluster_with_two_launched_nodes(cluster: SimulatedCluster) -> SimulatedCluster:
    """A cluster with two pods, whose two nodes were launched and have not booted."""
    launched(cluster, pending("web-2"))
    assert len(cluster.ec2.instances) == 2
    return cluster

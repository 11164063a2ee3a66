"""A simulated cluster for each test, with a table and a bucket of its own in memory."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from joiner.adapters.ledger import Ledger
from joiner.adapters.store import Store
from tests.unit.functions.fake_dynamodb import FakeDynamoDb
from tests.unit.functions.fake_kube import FakeKube
from tests.unit.functions.fake_s3 import FakeS3
from tests.unit.functions.grown_cluster import grow
from tests.unit.functions.launched_nodes import launched
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending

MakeCluster = Callable[[], SimulatedCluster]


@pytest.fixture(scope="session")
def make_cluster() -> Iterator[MakeCluster]:
    names = itertools.count()
    before = dict(os.environ)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}

    def make() -> SimulatedCluster:
        name = f"joiner-{next(names)}"
        dynamodb = FakeDynamoDb(name)
        return SimulatedCluster(
            Ledger(dynamodb, name), Store(FakeS3(name), name), FakeKube(), machine=Ledger(dynamodb, name)
        )

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


@pytest.fixture
def grown(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with two nodes that run a pod each."""
    return grow(cluster)

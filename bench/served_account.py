"""DynamoDB and S3 for measured functions, with the items and documents that they read."""

import logging
import time
import uuid
from typing import Any

from bench.cluster_manifests import pod
from bench.large_cluster import ClusterShape
from bench.listing_functions import EXECUTION, now, task, until


class ServedAccount:
    """DynamoDB and S3 of moto on its own port, with the items that the functions read: lease, wave, assignments,
    catalogue, classes."""

    def __init__(self, shape: ClusterShape) -> None:
        name = f"joiner-{uuid.uuid4().hex[:8]}"  # moto has one account for all servers of a process
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs every request
        self._server = ThreadedMotoServer(port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "JOINER_TABLE": name,
            "JOINER_BUCKET": name,
            "JOINER_CLUSTER": "demo",
            "SWEEP_SECONDS": "60",
            "POWERTOOLS_LOG_LEVEL": "CRITICAL",
        }
        self._fill(shape, name)

    def _fill(self, shape: ClusterShape, name: str) -> None:
        import boto3

        from joiner.adapters.ledger import Ledger
        from joiner.adapters.store import Store

        account: dict[str, Any] = {
            "endpoint_url": self.environment["AWS_ENDPOINT_URL"],
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "region_name": "us-east-1",
        }
        dynamodb, s3 = boto3.client("dynamodb", **account), boto3.client("s3", **account)
        _create_table(dynamodb, name)
        s3.create_bucket(Bucket=name)
        _put_documents(Store(s3, name))
        _assign_pods(Ledger(dynamodb, name), shape)

    def close(self) -> None:
        """Stop the server."""
        self._server.stop()


def _create_table(dynamodb: Any, name: str) -> None:
    """Create the table with a lease that is held."""
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in ("kind", "id")],
        KeySchema=[{"AttributeName": "kind", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
    )
    texts = {"kind": "LEASE", "id": "scale-up", "holder": EXECUTION}
    numbers = {"leaseNumber": 1, "leaseUntil": until(), "rings": 0}
    dynamodb.put_item(
        TableName=name, Item={k: {"S": v} for k, v in texts.items()} | {k: {"N": str(v)} for k, v in numbers.items()}
    )


def _put_documents(store: Any) -> None:
    """Store the catalogue and the resolved node class."""
    from bench.growth import catalogue_of
    from joiner.adapters import documents
    from joiner.catalogue import Catalogue
    from joiner.cluster import Requirements
    from joiner.pools import Image, ResolvedNodeClass, SecurityGroup, Subnet

    documents.put_catalogue(store, Catalogue.from_json(catalogue_of(200)), now())
    amd64 = Requirements.from_kube([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}])
    resolved = ResolvedNodeClass(
        "default",
        "EC2NodeClass",
        subnets=tuple(Subnet(f"subnet-{zone}", f"us-east-1{zone}", 4000) for zone in "abc"),
        security_groups=(SecurityGroup("sg-1"),),
        images=(Image("ami-1", "amd64", amd64),),
    )
    documents.put_node_classes(store, task(), [resolved])


def _assign_pods(ledger: Any, shape: ClusterShape) -> None:
    """Begin the wave of the nodes that boot, each with an assignment of ten pods."""
    from joiner.cluster import Pod

    booting = [f"default-{n:08d}" for n in range(shape.ready, shape.nodes)]
    ledger.begin_wave("joining", EXECUTION, booting, int(time.time()))
    for position, claim in enumerate(booting):
        class_key = Pod.from_kube(pod(1 + position % 199, "Pending")).class_key
        ledger.assign(claim, {class_key: 10}, 1)

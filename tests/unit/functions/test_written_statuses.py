"""Each field of a status that docs/fields.toml calls acted upon is in an object after scale-ups and sweeps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Image, ResolvedNodeClass, SecurityGroup, Subnet
from joiner.pools.capacity_reservations import CapacityReservation
from joiner_local.packaged_data.field_table import read_rows
from tests.crd_fields import crd_fields
from tests.unit.functions.buffered_cluster import put_buffer, put_template
from tests.unit.functions.conftest import MakeCluster
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLASS, NODEPOOL, pending

FIELDS = crd_fields()
READ = {"lastPodEventTime"}
"""Fields of a status that Joiner reads, and other software writes."""
CURRENT = ("NodePool", "EC2NodeClass", "NodeClaim", "NodeOverlay", "CapacityBuffer")
REQUIREMENTS = NODEPOOL["spec"]["template"]["spec"]["requirements"]
RESERVATION = CapacityReservation(
    "cr-1", "m5.large", "us-east-1a", 1, owner="123456789012", ends_at="2027-01-01T00:00:00Z"
)
RESOLVED: ResolvedNodeClass = replace(
    CLASS,
    subnets=(Subnet("subnet-a", "us-east-1a", 100, "use1-az1"),),
    security_groups=(SecurityGroup("sg-1", "nodes"),),
    images=(Image("ami-1", "amd64", CLASS.images[0].requirements, "the-image", deprecated=True),),
)


def made(kind: str, version: str, **spec: Any) -> Mapping[str, Any]:
    metadata = {"name": "default", "uid": f"uid-{kind}", "generation": 1}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


PROVIDER_REF = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "name": "default"}
SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
LEGACY = (
    made("Provisioner", "karpenter.sh/v1alpha5", providerRef=PROVIDER_REF, requirements=REQUIREMENTS),
    made("AWSNodeTemplate", "karpenter.k8s.aws/v1alpha1", **SELECTORS),
)


def scaled_up(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return the cluster after a scale-up for its pods, and two sweeps."""
    cluster.scale_up("up-1")
    for number in range(2):
        cluster.now += timedelta(minutes=1)
        cluster.sweep(f"sweep-{number}")
    return cluster


@pytest.fixture(scope="module")
def written(make_cluster: MakeCluster) -> Mapping[str, set[str]]:
    """The paths of the fields in the statuses of all objects, by kind."""
    current, legacy = make_cluster(), make_cluster()
    current.node_class = replace(RESOLVED, reservations=(RESERVATION,))
    overlay = made("NodeOverlay", "karpenter.sh/v1alpha1", requirements=[], price="0.25")
    current.prepare(pending("web-1"), overlay)
    put_template(current)
    put_buffer(current, replicas=1)
    legacy.node_class = replace(RESOLVED, kind="AWSNodeTemplate")
    legacy.prepare(pending("web-1"), *LEGACY)
    legacy.kube.delete(kinds.NODEPOOLS, "default")
    found: dict[str, set[str]] = {}
    for cluster in (scaled_up(current), scaled_up(legacy)):
        for manifest in cluster.kube.objects.values():
            paths = places(manifest.get("status"), "status")
            found.setdefault(manifest["kind"], set()).update(paths)
    return found


def places(value: object, path: str) -> Iterator[str]:
    """Yield the path of each leaf, as in the CRD."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from places(part, f"{path}.{key}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from places(part, f"{path}[]")
    elif value is not None:
        yield path


@pytest.mark.parametrize("kind", FIELDS)
def test_each_field_of_a_status_is_written(kind: str, written: Mapping[str, set[str]]) -> None:
    rows = [row.path for row in read_rows() if (row.kind, row.use) == (kind, "acted upon")]
    statuses = [path for path in rows if path.startswith("status.") and path.rpartition(".")[2] not in READ]

    missing = [
        path
        for path in statuses
        if not any(one == path or one.startswith((f"{path}.", f"{path}[]")) for one in written[kind])
    ]
    assert missing == []


@pytest.mark.parametrize("kind", FIELDS)
def test_each_field_that_is_written_is_one_of_the_crd(kind: str, written: Mapping[str, set[str]]) -> None:
    known = set(FIELDS[kind])

    assert [one for one in written[kind] if not any(one == path or one.startswith(f"{path}.") for path in known)] == []

"""The four scenarios as NodePools, in one cluster at the same time: scaled up, checked, and removed when they are
empty.

The manifests are those of `examples/scenarios/v1`, unchanged; checks use the API server and EC2.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from joiner_local.control_plane import control_plane_binaries
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, until
from tests.e2e.decoded_quantities import millicores
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

NODEPOOLS: Final = "/apis/karpenter.sh/v1/nodepools"
NODECLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
AFTER: Final = 30.0  # what the manifests say
DRAIN: Final = 40.0  # a sweep, a drain and a termination of many nodes on a busy machine
LIFE: Final = ("Launched", "Registered", "Initialized", "Ready")
NODECLAIM_COLUMNS: Final = [
    "NAME",
    "TYPE",
    "CAPACITY",
    "ZONE",
    "NODE",
    "READY",
    "AGE",
    "NODEPOOL",
    "NODECLASS",
    "ID",
    "IMAGE",
]
NODEPOOL_COLUMNS: Final = ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"]
PODS: Final = {"two-types": 10, "spot-limits": 5, "volumes": 17, "selectors": 5}
FILES: Final = ("v1/a-two-types.yaml", "v1/b-spot-limits.yaml", "v1/c-volumes.yaml", "v1/d-selectors.yaml")


@pytest.fixture(scope="module")
def four_pools(deployed: Actor) -> Iterator[Actor]:
    """All four scaled up; the tests except the last two only read."""
    deployed.clean()
    for file in FILES:
        deployed.apply(file)
    for name in PODS:
        if name != "spot-limits":  # which brings its own
            deployed.create(deployment(name, replicas=0, cpu="1", nodeSelector={"karpenter.sh/nodepool": name}))
    for name, replicas in PODS.items():
        deployed.scale(app_of(name), replicas)
    for name, replicas in PODS.items():
        deployed.wait_running(replicas, app_of(name))
    deployed.rest()
    yield deployed
    deployed.clean()


def app_of(pool: str) -> str:
    return "inflate" if pool == "spot-limits" else pool


def labels(node: Object) -> dict[str, str]:
    return dict(node["metadata"]["labels"])


def nodes_of(actor: Actor, pool: str) -> list[Object]:
    return [node for node in actor.nodes() if labels(node).get("karpenter.sh/nodepool") == pool]


def test_nodes_match_their_nodepool(four_pools: Actor) -> None:
    allowed: dict[str, Callable[[dict[str, str]], bool]] = {
        "two-types": lambda of: of[TYPE] in ("m5.large", "m5.2xlarge") and of[ZONE] in ("us-east-1a", "us-east-1b"),
        "spot-limits": lambda of: of[CAPACITY_TYPE] == "spot",
        "volumes": lambda of: of[CAPACITY_TYPE] == "on-demand" and of["karpenter.k8s.aws/instance-category"] in "cmr",
        "selectors": lambda of: (
            of[CAPACITY_TYPE] == "spot"
            and of["karpenter.k8s.aws/instance-family"][:2] in ("c6", "c7", "m6", "m7", "r6")
        ),
    }
    for pool, right in allowed.items():
        found = nodes_of(four_pools, pool)
        assert found, pool
        for node in found:
            assert right(labels(node)), labels(node)
            assert labels(node)["karpenter.k8s.aws/ec2nodeclass"] == pool
    assert {labels(node)["team"] for node in nodes_of(four_pools, "volumes")} == {"platform"}


def test_instances_have_the_volume_group_and_tags_of_the_node_class(four_pools: Actor) -> None:
    ec2 = four_pools.world.client("ec2")
    by_pool: dict[str, list[dict[str, Any]]] = {}
    for instance in four_pools.instances():
        by_pool.setdefault(tags(instance)["karpenter.sh/nodepool"], []).append(instance)
    assert set(by_pool) == set(PODS)
    for instance in by_pool["selectors"]:
        assert (
            tags(instance).items()
            >= {"team": "platform", "cost-center": "4711", "eks:eks-cluster-name": "joiner-demo"}.items()
        )
        assert [group["GroupName"] for group in instance["SecurityGroups"]] == ["joiner-demo-nodes"]
    filters = [
        {"Name": "attachment.instance-id", "Values": [instance["InstanceId"] for instance in by_pool["volumes"]]}
    ]
    volumes = ec2.describe_volumes(Filters=filters)["Volumes"]
    assert [(volume["Size"], volume["VolumeType"]) for volume in volumes] == [(40, "gp3")] * len(by_pool["volumes"])


def tags(instance: dict[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in instance["Tags"]}


def test_every_node_has_a_nodeclaim_with_all_conditions(four_pools: Actor) -> None:
    claims = {claim["status"]["nodeName"]: claim for claim in four_pools.world.kube.items(NODECLAIMS)}
    assert set(claims) == {node["metadata"]["name"] for node in four_pools.nodes()}
    for node in four_pools.nodes():
        claim = claims[node["metadata"]["name"]]
        meta, spec, status = claim["metadata"], claim["spec"], claim["status"]
        pool = labels(node)["karpenter.sh/nodepool"]
        assert [condition(claim, kind) for kind in LIFE] == ["True"] * len(LIFE)
        assert spec["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool}
        assert status["providerID"] == node["spec"]["providerID"]
        assert status["imageID"].startswith("ami-")
        assert millicores(status["allocatable"]["cpu"]) <= millicores(node["status"]["allocatable"]["cpu"])
        assert [(owner["kind"], owner["name"]) for owner in meta["ownerReferences"]] == [("NodePool", pool)]
        assert "karpenter.sh/termination" in meta["finalizers"]
        for key in (
            TYPE,
            ZONE,
            "topology.kubernetes.io/region",
            "topology.k8s.aws/zone-id",
            CAPACITY_TYPE,
            "kubernetes.io/arch",
        ):
            assert meta["labels"][key] == labels(node)[key], key
        for key in ("karpenter.sh/nodepool-hash", "karpenter.k8s.aws/ec2nodeclass-hash"):
            assert meta["annotations"][key], key
    assert {claim["spec"]["expireAfter"] for claim in claims.values()} == {"Never", "720h", "168h"}


def test_kubectl_prints_the_columns_of_all_kinds(four_pools: Actor) -> None:
    assert columns(four_pools, "nodeclaims") == NODECLAIM_COLUMNS
    assert columns(four_pools, "nodepools") == NODEPOOL_COLUMNS
    rows = [
        line.split() for line in kubectl(four_pools, "get", "nodeclaims", "-o", "wide", "--no-headers").splitlines()
    ]
    assert len(rows) == len(four_pools.claims()) > 0
    assert all(len(row) == 11 and row[5] == "True" for row in rows), rows  # no column is empty


def columns(actor: Actor, kind: str) -> list[str]:
    return kubectl(actor, "get", kind, "-o", "wide").splitlines()[0].split()


def kubectl(actor: Actor, *words: str) -> str:
    program: Path = control_plane_binaries.find_or_build(Path(sys.prefix), lambda _: None).folder / "kubectl"
    command = [str(program), "--kubeconfig", str(actor.world.stack.kubeconfig), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def test_each_nodepool_s_status_counts_its_nodes(four_pools: Actor) -> None:
    for pool in PODS:
        found = four_pools.world.kube.get(f"{NODEPOOLS}/{pool}")
        nodes = nodes_of(four_pools, pool)
        assert condition(found, "Ready") == "True"
        assert found["status"]["nodes"] == len(nodes) > 0
        assert millicores(str(found["status"]["resources"]["cpu"])) == sum(
            millicores(node["status"]["capacity"]["cpu"]) for node in nodes
        )


def test_empty_nodes_are_removed_after_consolidate_after_and_never_with_never(four_pools: Actor) -> None:
    four_pools.end(*map(app_of, PODS))
    kept = {node["metadata"]["name"] for node in nodes_of(four_pools, "volumes")}
    began = time.monotonic()

    def only_the_kept() -> bool:
        assert four_pools.sweep() == "SUCCEEDED"
        time.sleep(1)
        left = {node["metadata"]["name"] for node in four_pools.nodes()}
        assert left >= kept
        assert time.monotonic() - began > AFTER - 5 or len(left) > len(kept), "nodes went before their time"
        return left == kept

    until(only_the_kept, what="the nodes of the other three pools gone", limit=AFTER + DRAIN)
    four_pools.assert_at_rest()

    four_pools.world.kube.merge(
        f"{NODEPOOLS}/volumes", {"spec": {"disruption": {"consolidateAfter": "3s", "budgets": [{"nodes": "100%"}]}}}
    )
    until(four_pools.gone_after_a_sweep, what="the nodes of the last pool gone", limit=20 + DRAIN)


def test_the_nodes_of_a_deleted_nodepool_are_removed(deployed: Actor) -> None:
    deployed.apply("v1/c-volumes.yaml")
    deployed.create(deployment("short-lived", replicas=2, cpu="1"))
    deployed.wait_running(2, "short-lived")
    deployed.let_everything_go()

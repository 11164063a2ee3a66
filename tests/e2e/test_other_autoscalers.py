"""Other autoscalers and the pause: Joiner does nothing while Karpenter runs, and never changes nodes of other
owners.
"""

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from joiner_cli.commands import app
from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment
from tests.local.launch_fixtures import IMAGE_PARAMETER

pytestmark = pytest.mark.e2e

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh"
PROVISIONER = "/apis/karpenter.sh/v1alpha5/provisioners/default"
MANAGED_BY = "app.kubernetes.io/managed-by"


def lease(name: str, holder: str) -> Object:
    """Return a lease that its leader has just renewed."""
    renewed = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
    }


@pytest.fixture
def leases(pool: Actor) -> Iterator[Actor]:
    yield pool
    for name in ("karpenter-leader-election", "cluster-autoscaler"):
        pool.world.kube.delete(f"{LEASES}/{name}", missing_ok=True)


def last_states(actor: Actor, known: list[dict[str, Any]]) -> set[str]:
    """Return the last state of each execution since then."""
    return {actor.states_of(e["executionArn"])[-1] for e in actor.since(known) if e["status"] != "RUNNING"}


def warnings(actor: Actor, reason: str) -> list[str]:
    """Return the notes of a pool's events with one reason."""
    about = ("Provisioner", "NodePool")
    return [
        event["note"] for event in actor.events() if event["reason"] == reason and event["regarding"]["kind"] in about
    ]


def test_while_karpenter_runs_joiner_launches_nothing_and_reports_why(leases: Actor) -> None:
    leases.create(lease("karpenter-leader-election", "karpenter-6b7f_1"))
    known = leases.executions()

    leases.create(deployment("patient"))
    until(lambda: last_states(leases, known), what="an execution that refuses")
    assert leases.sweep() == "SUCCEEDED"
    leases.rest()

    assert last_states(leases, known) == {"Refused: Karpenter is running"}
    assert (leases.claims(), leases.instances()) == ([], [])
    assert (
        "karpenter-6b7f_1 holds the lease kube-system/karpenter-leader-election" in warnings(leases, "KarpenterRuns")[0]
    )

    leases.world.kube.merge(
        f"{LEASES}/karpenter-leader-election", {"spec": {"holderIdentity": ""}}
    )  # as a leader that ends well leaves it
    assert leases.sweep() == "SUCCEEDED"
    leases.wait_running(1, "patient")


def test_crds_of_another_manager_stop_joiner_until_they_are_transferred(pool: Actor) -> None:
    kube = pool.world.kube
    kube.merge(DEFINITION, {"metadata": {"labels": {MANAGED_BY: "Helm"}}})
    known = pool.executions()
    try:
        pool.create(deployment("patient"))
        until(lambda: last_states(pool, known), what="an execution that refuses")
        pool.rest()
        assert last_states(pool, known) == {"Refused: the definitions are not Joiner's"}
        (remedy,) = {note.partition("kubectl ")[2] for note in warnings(pool, "ForeignDefinitions")}
        assert remedy == f"label crd nodepools.karpenter.sh {MANAGED_BY}=joiner --overwrite"
        assert pool.instances() == []
    finally:
        kube.merge(DEFINITION, {"metadata": {"labels": {MANAGED_BY: "joiner"}}})
    assert pool.sweep() == "SUCCEEDED"
    pool.wait_running(1, "patient")


def test_beside_cluster_autoscaler_joiner_warns_and_acts(leases: Actor) -> None:
    leases.create(lease("cluster-autoscaler", "ip-10-0-0-7"))

    leases.create(deployment("patient"))
    leases.wait_running(1, "patient")

    assert "Cluster Autoscaler is running: ip-10-0-0-7" in warnings(leases, "ClusterAutoscalerRuns")[0]


def test_a_paused_joiner_launches_no_node_until_it_is_resumed(pool: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in pool.world.stack.environment().items():
        monkeypatch.setenv(name, value)

    def joiner(command: str) -> str:
        ran = CliRunner().invoke(app, [command, "joiner-demo"], catch_exceptions=False)
        assert ran.exit_code == 0, ran.stderr
        return ran.stdout

    assert joiner("pause") == "Joiner is paused in joiner-demo\n"
    known = pool.executions()
    try:
        pool.create(deployment("patient"))
        until(lambda: last_states(pool, known), what="an execution that finds Joiner paused")
        assert pool.sweep() == "SUCCEEDED"
        pool.rest()
        assert last_states(pool, known) == {"Joiner is paused"}
        assert (pool.claims(), pool.instances()) == ([], [])
    finally:
        joiner("resume")
    assert pool.sweep() == "SUCCEEDED"
    pool.wait_running(1, "patient")


# Nodes of others


def join_from_outside(actor: Actor) -> str:
    """Launch a node of a managed node group with its own user data; return its instance."""
    ec2, ssm, cluster = (
        actor.world.client("ec2"),
        actor.world.client("ssm"),
        actor.world.client("eks").describe_cluster(name="joiner-demo")["cluster"],
    )
    facts = {
        "name": cluster["name"],
        "apiServerEndpoint": cluster["endpoint"],
        "certificateAuthority": cluster["certificateAuthority"]["data"],
        "cidr": cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
    }
    kubelet = {"flags": ["--node-labels=eks.amazonaws.com/nodegroup=workers"]}
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"cluster": facts, "kubelet": kubelet},
    }
    subnet = ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["joiner-demo"]}])[
        "Subnets"
    ][0]
    launched = ec2.run_instances(
        MinCount=1,
        MaxCount=1,
        InstanceType="m5.xlarge",
        ImageId=ssm.get_parameter(Name=IMAGE_PARAMETER.format("x86_64"))["Parameter"]["Value"],
        SubnetId=subnet["SubnetId"],
        IamInstanceProfile={"Name": "KarpenterNodeInstanceProfile-joiner-demo"},
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 40, "VolumeType": "gp3"}}],
        UserData=yaml.safe_dump(config),
    )
    return str(launched["Instances"][0]["InstanceId"])


def node_of(actor: Actor, instance: str) -> Object | None:
    """Return the instance's Node once it is Ready and the node controller has removed its taints."""
    found = (
        node
        for node in actor.nodes()
        if node["spec"].get("providerID", "").endswith(instance) and not node["spec"].get("taints")
    )
    return next(
        (
            node
            for node in found
            if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])
        ),
        None,
    )


def spec_of(node: Object) -> tuple[Any, ...]:
    """Return the fields of a Node that another client could change."""
    metadata, spec = node["metadata"], node["spec"]
    return metadata["labels"], metadata.get("finalizers"), metadata.get("ownerReferences"), metadata["uid"], spec


@pytest.mark.long("nodes of others in unit tests and in the tests of policies")
def test_a_node_of_another_owner_is_used_and_never_changed(pool: Actor) -> None:
    pool.world.kube.merge(PROVISIONER, {"spec": {"ttlSecondsAfterEmpty": 1}})
    pool.rest()
    instance = join_from_outside(pool)
    before = spec_of(until(lambda: node_of(pool, instance), what="the node group's node", limit=90))

    pool.create(deployment("inflate", replicas=4))  # three fit beside what the node keeps for itself
    pool.wait_running(4, "inflate")
    placed = [pod["spec"]["nodeName"] for pod in pool.pods("inflate")]
    mine = {claim["status"]["nodeName"] for claim in pool.claims()}
    outside = node_of(pool, instance)
    assert outside is not None
    assert len(mine) == 1
    assert sorted(name in mine for name in placed) == [False, False, False, True]
    pool.assert_at_rest()

    pool.scale("inflate", 0)
    until(lambda: not pool.pods("inflate"), what="no pod left")

    def gone() -> bool:
        pool.sweep()
        pool.rest()
        return not pool.claims()

    until(gone, what="Joiner's own node gone", limit=60)
    left = node_of(pool, instance)
    assert left is not None
    assert spec_of(left) == before
    assert [each["InstanceId"] for each in pool.instances()] == [instance]

"""The node agent: an instance registers as a node by its user data and its own identity, and its kubelet admits pods as
a real one.
"""

import base64
import datetime as dt
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from joiner.cluster import Taint
from joiner.cluster.quantities import parse_amount
from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.lifecycle.console_output import find_console_cause
from joiner.pools.node_class import ImageFamily
from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.control_plane.kube_api import KubeApi, Object
from joiner_local.control_plane.pki import CertificateAuthority
from joiner_local.demo.change_watch import until
from joiner_local.knob_client import turn_knob
from joiner_local.stack.stack_control import LocalStack
from tests.e2e.agent_nodes import EVERYTHING, FILLING, PODS, UNREGISTERED, Nodes, pod
from tests.local.launch_fixtures import LaunchPad

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def pad(bare_stack: LocalStack) -> LaunchPad:
    network = seed_network(bare_stack.known.aws, bare_stack.cluster)
    return LaunchPad.build(bare_stack.client("ec2"), bare_stack.client("ssm"), network, "node-agent-tests")


@pytest.fixture
def nodes(bare_stack: LocalStack, kube: KubeApi, pad: LaunchPad) -> Iterator[Nodes]:
    cluster = bare_stack.client("eks").describe_cluster(name=bare_stack.cluster)["cluster"]
    before = turn_knob(bare_stack.known.node_agent, "boot", {})
    turn_knob(bare_stack.known.node_agent, "boot", {"seconds": 0.5, "readySeconds": 0.5, "goneSeconds": 0.5})
    here = Nodes(bare_stack, kube, pad, cluster, [])
    yield here
    here.terminate()
    turn_knob(bare_stack.known.node_agent, "boot", before)


@pytest.fixture
def run(kube: KubeApi) -> Iterator[Callable[[Object], Object]]:
    """Create a bound pod, wait until its kubelet has reported, and return its status."""
    names: list[str] = []

    def create(manifest: Object) -> Object:
        name = manifest["metadata"]["name"]
        names.append(name)
        kube.create(PODS, manifest)
        until(
            lambda: kube.get(f"{PODS}/{name}")["status"].get("phase") != "Pending",
            what=f"{name} admitted or refused",
            limit=90,
        )
        status: Object = kube.get(f"{PODS}/{name}")["status"]
        return status

    yield create
    for name in names:
        kube.delete(f"{PODS}/{name}", missing_ok=True)


def test_an_instance_becomes_the_node_that_its_user_data_describes(nodes: Nodes) -> None:
    (identity,) = nodes.launch(
        user_data=nodes.user_data(labels="team=a,karpenter.sh/capacity-type=spot", taints=[FILLING, UNREGISTERED])
    )

    node = nodes.joined(identity)

    instance = nodes.pad.instance(identity)
    assert node["metadata"]["name"] == instance["PrivateDnsName"]
    assert node["spec"]["providerID"] == f"aws:///us-east-1a/{identity}"
    assert node["spec"]["taints"] == [FILLING, UNREGISTERED]
    labels = node["metadata"]["labels"]
    assert (labels["team"], labels["karpenter.sh/capacity-type"], labels["kubernetes.io/arch"]) == (
        "a",
        "spot",
        "amd64",
    )
    assert (labels["node.kubernetes.io/instance-type"], labels["topology.kubernetes.io/zone"]) == (
        "m5.large",
        "us-east-1a",
    )
    allocatable = node["status"]["allocatable"]
    assert (allocatable["cpu"], allocatable["pods"]) == ("1930m", "29")
    assert allocatable["memory"] == "6903Mi"  # what plans expect of the type
    assert int(allocatable["ephemeral-storage"]) > 34 * 2**30  # of the 40 GiB asked for
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


@dataclass(frozen=True, slots=True)
class FactsOfCluster:
    """The response of DescribeCluster, as launches use it."""

    name: str
    endpoint: str
    certificate_authority: str
    version: str
    service_cidr: str

    @classmethod
    def of(cls, described: dict[str, Any]) -> "FactsOfCluster":
        network = described["kubernetesNetworkConfig"]
        authority = described["certificateAuthority"]["data"]
        return cls(
            described["name"], described["endpoint"], authority, described["version"], network["serviceIpv4Cidr"]
        )


@pytest.mark.parametrize(
    ("family", "version", "index", "disks"),
    [
        ("Bottlerocket", "1.36", 0, {"/dev/xvdb": 30}),
        ("Bottlerocket", "1.36", 1, {}),
        ("AL2", "1.32", 0, {"/dev/xvda": 30}),
        ("Windows2022", "1.36", 0, {"/dev/sda1": 60}),
    ],
)
def test_an_image_of_each_family_joins_with_the_user_data_of_its_family(
    nodes: Nodes, family: ImageFamily, version: str, index: int, disks: dict[str, int]
) -> None:
    parameter = IMAGE_FAMILIES[family].list_parameters(version, "latest")[index]
    image = nodes.pad.ssm.get_parameter(Name=parameter.name)["Parameter"]["Value"]
    facts = FactsOfCluster.of(nodes.cluster)
    taints = (Taint("joiner.dev/filling", "NoSchedule"), Taint("karpenter.sh/unregistered", "NoExecute"))
    settings = NodeSettings(facts, {"team": "a"}, taints, {"maxPods": 20, "kubeReserved": {"cpu": "100m"}})
    more: dict[str, Any] = {"ImageId": image}
    if disks:
        more["BlockDeviceMappings"] = [
            {"DeviceName": name, "Ebs": {"VolumeSize": size}} for name, size in disks.items()
        ]
    (identity,) = nodes.pad.launch(
        nodes.pad.override("m6g.large" if parameter.arch == "arm64" else "m5.large", **more),
        user_data=IMAGE_FAMILIES[family].write_user_data(settings).encode(),
    )
    nodes.ids.append(identity)

    node = nodes.joined(identity)

    assert sorted(node["spec"]["taints"], key=lambda taint: str(taint["key"])) == [FILLING, UNREGISTERED]
    assert (node["metadata"]["labels"]["team"], node["metadata"]["labels"]["kubernetes.io/arch"]) == (
        "a",
        parameter.arch,
    )
    capacity, allocatable = node["status"]["capacity"], node["status"]["allocatable"]
    assert (allocatable["cpu"], allocatable["pods"]) == ("1900m", "20")
    reserved = parse_amount(capacity["memory"]) - parse_amount(allocatable["memory"])
    assert reserved / 2**20 == 100 + 255 + 11 * (29 if family == "AL2" else 20)
    assert node["metadata"]["labels"]["kubernetes.io/os"] == ("windows" if family == "Windows2022" else "linux")
    addresses = allocatable.get("vpc.amazonaws.com/PrivateIPv4Address")
    assert addresses == ("9" if family == "Windows2022" else None)
    size = next(iter(disks.values()), 20)
    assert size - 1 < parse_amount(capacity["ephemeral-storage"]) / 2**30 <= size


def test_a_node_without_an_access_entry_does_not_register(nodes: Nodes) -> None:
    entries = nodes.stack.client("eks")
    role = nodes.pad.network.node_role_arn
    entries.delete_access_entry(clusterName=nodes.cluster["name"], principalArn=role)
    try:
        (stranger,) = nodes.launch()
        until(lambda: "401" in nodes.why(stranger), what="the stranger refused", limit=90)
        assert nodes.of(stranger) is None
    finally:
        entries.create_access_entry(clusterName=nodes.cluster["name"], principalArn=role, type="EC2_LINUX")
    nodes.joined(stranger)  # it tries again, as a kubelet does


def test_a_node_with_wrong_user_data_does_not_register_and_the_agent_reports_why(nodes: Nodes, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path, now=dt.datetime.now(dt.UTC)).certificate.read_bytes()
    wrong = {
        "holds no NodeConfig": b"#!/bin/bash\necho hello\n",
        "is for the cluster other": nodes.user_data(name="other"),
        "names the API server": nodes.user_data(apiServerEndpoint="https://127.0.0.1:1"),
        "not signed by the user data's CA": nodes.user_data(certificateAuthority=base64.b64encode(other).decode()),
        "cidr is missing": nodes.user_data(cidr=""),
        "is no label": nodes.user_data(labels="team a=b"),
        "unknown 'kubernetes.io'": nodes.user_data(labels="kubernetes.io/team=a"),
        "is no taint": nodes.user_data(taints=[{"key": "a", "effect": "Never"}]),
    }
    launched = {why: nodes.launch(user_data=user_data)[0] for why, user_data in wrong.items()}

    for why, identity in launched.items():
        until(partial(nodes.why, identity), what=f"a verdict on {identity}", limit=90)
        assert why in nodes.why(identity)
        assert nodes.of(identity) is None


def test_a_node_with_a_restricted_label_does_not_register(nodes: Nodes) -> None:
    (identity,) = nodes.launch(user_data=nodes.user_data(labels="team.node-restriction.kubernetes.io/x=a"))

    until(lambda: nodes.why(identity), what="a verdict", limit=90)
    assert nodes.of(identity) is None


def test_the_kubelet_refuses_pods_that_kwok_would_run(nodes: Nodes, run: Callable[[Object], Object]) -> None:
    (identity,) = nodes.launch(user_data=nodes.user_data(taints=[FILLING]))
    node = nodes.joined(identity)
    reasons = {
        "ok": run(pod("ok", node, cpu="1", tolerations=EVERYTHING)).get("reason"),
        "full": run(pod("full", node, cpu="1", tolerations=EVERYTHING)).get("reason"),
        "hungry": run(pod("hungry", node, resources={"memory": "64Gi"}, tolerations=EVERYTHING)).get("reason"),
        "gpu": run(pod("gpu", node, resources={"nvidia.com/gpu": "1"}, tolerations=EVERYTHING)).get("reason"),
    }

    assert reasons == {
        "ok": None,
        "full": "OutOfcpu",
        "hungry": "OutOfmemory",
        "gpu": "UnexpectedAdmissionError",
    }


def test_a_pod_bound_before_the_node_is_ready_starts_when_it_is(nodes: Nodes, kube: KubeApi) -> None:
    nodes.agent("boot", readySeconds=2)
    (identity,) = nodes.launch()
    until(lambda: nodes.of(identity), what="the node", limit=90)
    node = nodes.of(identity)
    assert node is not None
    kube.create(PODS, pod("early-bird", node))
    try:
        time.sleep(0.5)
        assert kube.get(f"{PODS}/early-bird")["status"]["phase"] == "Pending"
        until(lambda: kube.get(f"{PODS}/early-bird")["status"]["phase"] == "Running", what="the pod running", limit=90)
        assert nodes.condition(identity) == "True"
    finally:
        kube.delete(f"{PODS}/early-bird")


def test_two_hundred_pods_are_admitted_at_once(nodes: Nodes, kube: KubeApi) -> None:
    ids = nodes.launch(8)
    homes = [nodes.joined(identity) for identity in ids]
    manifests = [pod(f"crowd-{index}", homes[index % 8], cpu="10m") for index in range(200)]
    with ThreadPoolExecutor(8) as hands:
        list(hands.map(lambda manifest: kube.create(PODS, manifest), manifests))

    def all_run() -> bool:
        crowd = [each for each in kube.items(PODS) if each["metadata"]["name"].startswith("crowd-")]
        return len(crowd) == 200 and all(each["status"].get("phase") == "Running" for each in crowd)

    until(
        all_run, what="200 pods running", limit=90
    )  # one after another they would take 40 s: 0.2 s are each pod's own
    with ThreadPoolExecutor(8) as hands:
        list(hands.map(lambda manifest: kube.delete(f"{PODS}/{manifest['metadata']['name']}"), manifests))


def test_the_node_and_the_pods_of_a_terminated_instance_are_deleted(
    nodes: Nodes, kube: KubeApi, run: Callable[[Object], Object]
) -> None:
    (identity,) = nodes.launch()
    node = nodes.joined(identity)
    assert run(pod("passenger", node))["phase"] == "Running"

    nodes.pad.ec2.terminate_instances(InstanceIds=[identity])

    until(lambda: nodes.of(identity) is None, what="the node gone", limit=90)
    until(lambda: kube.find(f"{PODS}/passenger") is None, what="its pod gone", limit=90)


def test_a_node_with_a_finalizer_stays_until_it_is_removed(nodes: Nodes, kube: KubeApi) -> None:
    (identity,) = nodes.launch()
    path = f"/api/v1/nodes/{nodes.joined(identity)['metadata']['name']}"
    kube.merge(path, {"metadata": {"finalizers": ["karpenter.sh/termination"]}})

    nodes.pad.ec2.terminate_instances(InstanceIds=[identity])
    until(lambda: "deletionTimestamp" in kube.get(path)["metadata"], what="the node being deleted", limit=90)
    time.sleep(0.5)
    assert kube.find(path) is not None

    kube.merge(path, {"metadata": {"finalizers": None}})
    until(lambda: kube.find(path) is None, what="the node gone", limit=90)


def test_a_stopped_instance_keeps_its_node_and_can_start_again(nodes: Nodes) -> None:
    (identity,) = nodes.launch()
    nodes.joined(identity)

    nodes.pad.ec2.stop_instances(InstanceIds=[identity])
    until(
        lambda: "shutdown" in str((nodes.of(identity) or {"spec": {}})["spec"].get("taints")),
        what="the shutdown taint",
        limit=90,
    )
    assert "local.joiner.dev/kubelet" not in (nodes.of(identity) or {"metadata": {}})["metadata"]["labels"]

    nodes.pad.ec2.start_instances(InstanceIds=[identity])
    until(
        lambda: "local.joiner.dev/kubelet" in (nodes.of(identity) or {})["metadata"]["labels"],
        what="its kubelet back",
        limit=90,
    )
    until(
        lambda: "shutdown" not in str((nodes.of(identity) or {"spec": {}})["spec"].get("taints")),
        what="the taint gone",
        limit=90,
    )


def test_injected_faults_have_their_effect(nodes: Nodes) -> None:
    for fault, instance_type in [
        ("never-boots", "c5.large"),
        ("stops-while-booting", "r5.large"),
        ("not-ready", "m5.xlarge"),
    ]:
        nodes.agent("faults", fault=fault, instanceType=instance_type)
    (never,) = nodes.launch(instance_type="c5.large")
    (dies,) = nodes.launch(instance_type="r5.large")
    (sick,) = nodes.launch(instance_type="m5.xlarge")
    (well,) = nodes.launch()

    nodes.joined(well)
    until(lambda: nodes.pad.state(dies) == "terminated", what="the instance's own end", limit=90)
    until(lambda: nodes.of(sick) and nodes.condition(sick) == "False", what="the sick node", limit=90)
    assert (nodes.of(never), nodes.of(dies)) == (None, None)

    nodes.agent("faults", fault="none", instanceId=sick)
    until(lambda: nodes.condition(sick) == "True", what="the sick node healed", limit=90)


def test_the_api_server_refuses_a_node_with_another_name_and_the_console_has_its_words(nodes: Nodes) -> None:
    nodes.agent("faults", fault="other-name", instanceType="c5.large")
    (identity,) = nodes.launch(instance_type="c5.large")

    def console() -> str:
        return str(nodes.pad.ec2.get_console_output(InstanceId=identity, Latest=True).get("Output") or "")

    output = until(console, what="a console output", limit=90)
    assert f'is not allowed to modify node "worker-{identity}"' in output
    assert "under a name that is not the private DNS name of its instance" in find_console_cause(output)
    assert nodes.of(identity) is None


def test_a_node_whose_device_plug_ins_register_nothing_is_ready_without_its_gpus(nodes: Nodes) -> None:
    nodes.agent("faults", fault="no-devices", instanceType="g4dn.xlarge")
    (identity,) = nodes.launch(instance_type="g4dn.xlarge")

    node = nodes.joined(identity)

    assert [name for name in node["status"]["allocatable"] if "/" in name] == []


def test_a_running_node_can_stop_reporting(nodes: Nodes, kube: KubeApi) -> None:
    (identity,) = nodes.launch()
    node = nodes.joined(identity)

    nodes.agent("faults", fault="silent", instanceId=identity)
    until(
        lambda: "local.joiner.dev/kubelet" not in (nodes.of(identity) or node)["metadata"]["labels"],
        what="silence",
        limit=90,
    )
    kube.create(PODS, pod("waiting", node))
    time.sleep(0.7)
    assert kube.get(f"{PODS}/waiting")["status"]["phase"] == "Pending"

    nodes.agent("faults", fault="none", instanceId=identity)
    until(lambda: kube.get(f"{PODS}/waiting")["status"]["phase"] == "Running", what="the pod running", limit=90)
    kube.delete(f"{PODS}/waiting")

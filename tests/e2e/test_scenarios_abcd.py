"""The four scenarios, from the first `kubectl apply` until the last instance is gone.

Manifests are unchanged, and checks use the API server and EC2. Times of 30 s pass in real time, except in `d`, which
ends like `b` and is shortened. The schedules are disabled: each test starts the sweep itself.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.decoded_quantities import millicores
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

PROVISIONER: Final = "/apis/karpenter.sh/v1alpha5/provisioners/default"
TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
TTL: Final = 30.0  # what the manifests say
DRAIN: Final = 60.0  # at most, for a sweep, a drain and a termination on a busy machine; ten seconds on one that is not


@pytest.fixture
def cluster(deployed: Actor) -> Iterator[Actor]:
    """An empty cluster."""
    deployed.clean()
    yield deployed
    deployed.clean()


def labels(node: Object) -> dict[str, str]:
    return dict(node["metadata"]["labels"])


def requests_of_one_core(name: str, **spec: Any) -> Object:
    """Return what `kubectl create deployment` and `kubectl set resources --requests=cpu=1` create."""
    return deployment(name, replicas=0, cpu="1", **spec)


def assert_goes_in_its_time(actor: Actor, *, ttl: float) -> None:
    """Assert that after one sweep each empty node is removed after its time, and none earlier."""
    before, began = len(actor.nodes()), time.monotonic()
    assert actor.sweep() == "SUCCEEDED"
    while time.monotonic() - began < ttl - 5:
        assert len(actor.nodes()) == before, "a node went before its time"
        time.sleep(0.5)
    until(actor.is_empty, what=f"every node gone {ttl:.0f} s after it was empty", limit=5 + DRAIN)


def test_a_ten_pods_run_on_m5_nodes_of_two_zones_which_are_removed_30_s_after_them(cluster: Actor) -> None:
    cluster.apply("a-inline-provider.yaml")
    cluster.create(requests_of_one_core("inflate"))
    cluster.scale("inflate", 10)
    cluster.wait_running(10, "inflate")

    # Spot prices change with the hour: at some, all nodes are cheapest in one of the two zones
    assert {labels(node)[ZONE] for node in cluster.nodes()} <= {"us-east-1a", "us-east-1b"}
    for node in cluster.nodes():
        assert labels(node)[TYPE] in ("m5.large", "m5.2xlarge")
        assert labels(node)["karpenter.sh/provisioner-name"] == "default"
    profiles = {instance["IamInstanceProfile"]["Arn"].rpartition("/")[2] for instance in cluster.instances()}
    assert profiles == {"KarpenterNodeInstanceProfile-joiner-demo"}
    assert_selected_by_the_tag_of_the_cluster(cluster)
    cluster.assert_at_rest()

    cluster.end("inflate")
    assert_goes_in_its_time(cluster, ttl=TTL)


def assert_selected_by_the_tag_of_the_cluster(actor: Actor) -> None:
    """Assert that the instances have the subnets and groups with the cluster's tag, and that the pool reports it."""
    ec2, tagged = actor.world.client("ec2"), [{"Name": "tag-key", "Values": ["kubernetes.io/cluster/joiner-demo"]}]
    subnets = {subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=tagged)["Subnets"]}
    groups = {group["GroupId"] for group in ec2.describe_security_groups(Filters=tagged)["SecurityGroups"]}
    for instance in actor.instances():
        assert instance["SubnetId"] in subnets
        assert {group["GroupId"] for group in instance["SecurityGroups"]} == groups

    conditions = {each["type"]: each for each in actor.world.kube.get(PROVISIONER)["status"]["conditions"]}
    assert conditions["Ready"]["status"] == "True"
    assert conditions["ValidationSucceeded"]["reason"] == "DefaultsAssumed"
    for selector in ("subnetSelector", "securityGroupSelector"):
        assert f"spec.provider.{selector}: it is not set" in conditions["ValidationSucceeded"]["message"]


def test_b_five_pods_run_on_spot_within_a_limit_and_their_events_report_each_step(cluster: Actor) -> None:
    cluster.apply("b-spot-limits.yaml")
    cluster.scale("inflate", 5)
    cluster.wait_running(5, "inflate")

    assert {instance["InstanceLifecycle"] for instance in cluster.instances()} == {"spot"}
    assert {labels(node)[CAPACITY_TYPE] for node in cluster.nodes()} == {"spot"}
    assert_selected_by_the_tag_of_the_cluster(cluster)
    machines = [claim["metadata"]["name"] for claim in cluster.claims()]
    for pod in cluster.pods("inflate"):  # launches do not wait for the events of their plan
        notes = until(partial(announced, cluster, pod), what="the event of the pod's node", limit=60)
        assert "Nominated" in notes or any(machine in notes["TriggeredScaleUp"] for machine in machines), notes
    assert any("TriggeredScaleUp" in story(cluster, pod) for pod in cluster.pods("inflate"))
    for machine in cluster.claims():
        until(partial(joined, cluster, machine), what="the events of the node's steps", limit=60)
    cluster.assert_at_rest()
    assert_stops_at_the_limit(cluster, cores=16, pods=20)

    cluster.end("inflate")
    assert_goes_in_its_time(cluster, ttl=TTL)


def story(actor: Actor, one: Object) -> dict[str, str]:
    """Return Joiner's events on an object, by reason."""
    events = actor.world.kube.items("/apis/events.k8s.io/v1/namespaces/default/events")
    ours = (each for each in events if "joiner" in each.get("reportingController", ""))
    return {each["reason"]: each["note"] for each in ours if each["regarding"].get("uid") == one["metadata"]["uid"]}


def joined(actor: Actor, machine: Object) -> bool:
    """Return whether the events of a machine have each step of its node."""
    return {"Registered", "Initialized"} <= story(actor, machine).keys()


def assert_stops_at_the_limit(actor: Actor, *, cores: int, pods: int) -> None:
    """Assert that nodes stay below a limit that the pods exceed, and that the event of a pending pod names it."""
    actor.world.kube.merge(PROVISIONER, {"spec": {"limits": {"resources": {"cpu": cores}}}})
    actor.scale("inflate", pods)
    note = until(partial(refusal, actor), what="the event of a pod beyond the limit", limit=60)
    assert f"limit cpu {cores} of Provisioner/default" in note

    actor.rest()
    assert 5 <= actor.running("inflate") < pods
    assert sum(millicores(node["status"]["capacity"]["cpu"]) for node in actor.nodes()) <= 1000 * cores


def refusal(actor: Actor) -> str | None:
    """Return the event of a pod for which no node is launched."""
    stories = (story(actor, pod) for pod in actor.pods("inflate"))
    return next((notes["NotTriggerScaleUp"] for notes in stories if "NotTriggerScaleUp" in notes), None)


def announced(actor: Actor, pod: Object) -> dict[str, str] | None:
    """Return Joiner's events on a pod once one of them names its node; a pod that comes later fits a node that is on
    its way."""
    notes = story(actor, pod)
    return notes if {"TriggeredScaleUp", "Nominated"} & notes.keys() else None


def test_c_nodes_stay_without_a_ttl_and_are_removed_once_there_is_one(cluster: Actor) -> None:
    cluster.apply("c-template.yaml")
    cluster.create(requests_of_one_core("inflate"))
    for replicas in (1, 17):
        cluster.scale("inflate", replicas)
        cluster.wait_running(replicas, "inflate")
    cluster.assert_at_rest()
    before = {node["metadata"]["name"] for node in cluster.nodes()}

    cluster.scale("inflate", 0)
    until(lambda: not cluster.pods("inflate"), what="the pods gone", limit=90)
    for _ in range(2):
        assert cluster.sweep() == "SUCCEEDED"
        cluster.rest()
    assert {node["metadata"]["name"] for node in cluster.nodes()} == before
    cluster.assert_at_rest()

    cluster.world.kube.merge(PROVISIONER, {"spec": {"ttlSecondsAfterEmpty": 30}})
    until(cluster.gone_after_a_sweep, what="every node gone", limit=TTL + DRAIN)
    until(lambda: used(cluster) == 0, what="the provisioner's status following", limit=90)


def used(actor: Actor) -> int:
    """Return the CPU in the Provisioner's status, which the next scale-up or sweep writes."""
    actor.sweep()
    resources = actor.world.kube.get(PROVISIONER).get("status", {}).get("resources", {})
    return millicores(str(resources.get("cpu", "0")))


def test_d_five_pods_run_on_spot_in_the_tagged_subnets_with_the_tagged_group(cluster: Actor) -> None:
    cluster.apply("d-selectors.yaml")
    busybox = requests_of_one_core("inflate")
    busybox["spec"]["template"]["spec"]["containers"][0] |= {"image": "busybox", "command": ["sleep", "infinity"]}
    cluster.create(busybox)
    cluster.scale("inflate", 5)
    cluster.wait_running(5, "inflate")

    ec2, tagged = cluster.world.client("ec2"), [{"Name": "tag:karpenter.sh/discovery", "Values": ["joiner-demo"]}]
    subnets = {subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=tagged)["Subnets"]}
    groups = {group["GroupId"] for group in ec2.describe_security_groups(Filters=tagged)["SecurityGroups"]}
    assert cluster.instances()
    for instance in cluster.instances():
        assert instance["InstanceLifecycle"] == "spot"
        assert instance["SubnetId"] in subnets
        assert {group["GroupId"] for group in instance["SecurityGroups"]} == groups
    cluster.assert_at_rest()

    cluster.world.kube.merge(PROVISIONER, {"spec": {"ttlSecondsAfterEmpty": 3}})
    cluster.end("inflate")
    until(cluster.gone_after_a_sweep, what="every node gone", limit=3 + DRAIN)

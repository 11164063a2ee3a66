"""Scenario c, scaled up as in its README: `inflate` to 1, then to 17, checked through the API server and EC2."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.decoded_quantities import millicores
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

MACHINES = "/apis/karpenter.sh/v1alpha5/machines"
PROVISIONER = "/apis/karpenter.sh/v1alpha5/provisioners/default"
TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
LAUNCHED_FOR = re.compile(
    r"(?:\d+ Pods(?: with different texts)?, for example (?P<example>\S+): )?Machine (?P<machine>\S+) is made for it: "
    r"(?P<type>\S+) in (?P<zone>\S+), on-demand, \$\d+\.\d{4}/h \((?P<execution>\S+)\)"
)


@pytest.fixture(scope="module")
def earlier(deployed: Actor) -> list[dict[str, Any]]:
    """Return the scale-ups of earlier tests; the cluster is empty."""
    deployed.clean()
    return deployed.executions()


@pytest.fixture(scope="module")
# `earlier` runs first: it needs the empty cluster
def inflated(deployed: Actor, earlier: list[dict[str, Any]]) -> Iterator[Actor]:  # noqa: ARG001
    """Scenario c with `inflate` at 1, then at 17; the tests only read."""
    deployed.apply("c-template.yaml")
    deployed.create(deployment("inflate", replicas=0))
    for replicas in (1, 17):
        deployed.scale("inflate", replicas)
        deployed.wait_running(replicas, "inflate")
    deployed.rest()
    assert deployed.instances()  # so no loop over them is empty
    yield deployed
    deployed.clean()


def test_all_pods_run_and_everything_is_at_rest(inflated: Actor) -> None:
    assert inflated.running("inflate") == 17
    assert len(inflated.instances()) == len(inflated.nodes()) > 0
    inflated.assert_at_rest()


def launched(actor: Actor) -> list[Any]:
    """Return the instances, of which there is at least one."""
    found = actor.instances()
    assert found != []
    return found


def test_instances_are_on_demand_amd64_of_a_c_m_or_r_type_newer_than_generation_2(inflated: Actor) -> None:
    for instance in launched(inflated):
        found = re.match(r"([a-z]+?)(\d+)", instance["InstanceType"])
        category, generation = found.groups()  # type: ignore[union-attr]  # every type has both
        assert category in ("c", "m", "r"), instance["InstanceType"]
        assert int(generation) > 2
        assert instance["Architecture"] == "x86_64"
        assert "InstanceLifecycle" not in instance
        assert instance["State"]["Name"] == "running"


def test_instances_are_in_the_tagged_subnets_with_the_tagged_security_groups(inflated: Actor) -> None:
    tagged = [{"Name": "tag:karpenter.sh/discovery", "Values": ["joiner-demo"]}]
    ec2 = inflated.world.client("ec2")
    subnets = {subnet["SubnetId"] for subnet in ec2.describe_subnets(Filters=tagged)["Subnets"]}
    groups = {group["GroupId"] for group in ec2.describe_security_groups(Filters=tagged)["SecurityGroups"]}
    for instance in launched(inflated):
        assert instance["SubnetId"] in subnets
        assert {group["GroupId"] for group in instance["SecurityGroups"]} == groups


def test_instances_and_volumes_have_the_tags_of_their_owner(inflated: Actor) -> None:
    names = {machine["metadata"]["name"] for machine in inflated.claims()}
    for instance in launched(inflated):
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["kubernetes.io/cluster/joiner-demo"] == "owned"
        assert tags["eks:eks-cluster-name"] == "joiner-demo"
        assert tags["karpenter.sh/provisioner-name"] == "default"
        assert tags["karpenter.sh/nodeclaim"] in names
    found = volumes(inflated)
    assert len(found) == len(inflated.instances())
    for volume in found:
        assert {"Key": "kubernetes.io/cluster/joiner-demo", "Value": "owned"} in volume["Tags"]


def volumes(actor: Actor) -> list[dict[str, Any]]:
    ids = [instance["InstanceId"] for instance in actor.instances()]
    found: list[dict[str, Any]] = actor.world.client("ec2").describe_volumes(
        Filters=[{"Name": "attachment.instance-id", "Values": ids}]
    )["Volumes"]
    return found


def test_each_instance_has_the_template_s_volume_of_40_gi_gp3(inflated: Actor) -> None:
    found = volumes(inflated)
    assert len(found) == len(inflated.instances())
    for volume in found:
        assert (volume["Size"], volume["VolumeType"]) == (40, "gp3")
        assert [each["Device"] for each in volume["Attachments"]] == ["/dev/xvda"]


def test_instances_were_launched_from_a_launch_template(inflated: Actor) -> None:
    known = {t["LaunchTemplateId"] for t in inflated.world.client("ec2").describe_launch_templates()["LaunchTemplates"]}
    for instance in launched(inflated):
        tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
        assert tags["aws:ec2launchtemplate:id"] in known


def test_nodes_have_the_labels_of_their_instance_and_pool(inflated: Actor) -> None:
    of = {instance["PrivateDnsName"]: instance for instance in inflated.instances()}
    assert {node["metadata"]["name"] for node in inflated.nodes()} == set(of)
    for node in inflated.nodes():
        labels, instance = node["metadata"]["labels"], of[node["metadata"]["name"]]
        assert labels[TYPE] == instance["InstanceType"]
        assert labels["topology.kubernetes.io/zone"] == instance["Placement"]["AvailabilityZone"]
        assert labels["karpenter.sh/capacity-type"] == "on-demand"
        assert labels["karpenter.sh/provisioner-name"] == "default"
        assert labels["karpenter.k8s.aws/instance-category"] in ("c", "m", "r")
        assert labels["kubernetes.io/arch"] == "amd64"
        assert labels["kubernetes.io/os"] == "linux"
        assert labels["karpenter.sh/initialized"] == "true"


def test_every_node_has_a_machine_with_its_provider_id(inflated: Actor) -> None:
    by_node = {machine["status"]["nodeName"]: machine for machine in inflated.world.kube.items(MACHINES)}
    assert set(by_node) == {node["metadata"]["name"] for node in inflated.nodes()}
    for node in inflated.nodes():
        machine = by_node[node["metadata"]["name"]]
        assert machine["status"]["providerID"] == node["spec"]["providerID"]
        assert "karpenter.sh/termination" in machine["metadata"]["finalizers"]
        owners = [(owner["kind"], owner["name"]) for owner in node["metadata"].get("ownerReferences", [])]
        assert ("Machine", machine["metadata"]["name"]) in owners


def test_the_provisioners_status_counts_launched_nodes(inflated: Actor) -> None:
    resources = inflated.world.kube.get(PROVISIONER)["status"]["resources"]
    there = sum(millicores(node["status"]["capacity"]["cpu"]) for node in inflated.nodes())
    assert millicores(str(resources["cpu"])) == there


def test_the_last_state_summarises_the_scale_up(inflated: Actor, earlier: list[dict[str, Any]]) -> None:
    client = inflated.world.client("stepfunctions")
    summaries = [
        json.loads(client.describe_execution(executionArn=e["executionArn"])["output"]) for e in inflated.since(earlier)
    ]
    launched = [summary for summary in summaries if summary.get("launched")]
    assert sum(summary["launched"] for summary in launched) == len(inflated.nodes())
    for summary in launched:
        assert summary["pricePerHour"] > 0
        assert summary["nodes"], summary


def test_the_pods_events_name_their_execution_and_machine(inflated: Actor, earlier: list[dict[str, Any]]) -> None:
    planned = {
        (pod, place.claim, place.instance_type, place.zone, place.execution)
        for pod, place in inflated.places_since(earlier)
        if place.instance_type
    }
    executions = {execution["name"] for execution in inflated.since(earlier)}
    reported: set[tuple[str, ...]] = set()
    for event in inflated.events():
        if event["reason"] == "TriggeredScaleUp" and event["reportingInstance"] in executions:
            assert event["reportingController"] == "joiner.dev/joiner"
            note = LAUNCHED_FOR.fullmatch(event["note"])
            assert note is not None, event["note"]
            pod = note["example"] or event["regarding"]["name"]  # the event of a ReplicaSet names one of its pods
            reported.add((f"default/{pod}", note["machine"], note["type"], note["zone"], note["execution"]))
            assert event["reportingInstance"] == note["execution"]

    assert reported == planned != set()
    machines = {
        (each["metadata"]["name"], each["metadata"]["labels"][TYPE], each["metadata"]["labels"][ZONE])
        for each in inflated.world.kube.items(MACHINES)
    }
    assert {(claim, kind, zone) for _, claim, kind, zone, _ in planned} == machines


def test_every_pod_runs_on_the_machine_of_its_plan(inflated: Actor, earlier: list[dict[str, Any]]) -> None:
    """Pods of one Deployment have each other's places: their number on each machine is compared."""
    planned = Counter(place.claim for _, place in inflated.places_since(earlier))
    placed = Counter(inflated.placed().values())

    assert planned - placed == Counter()
    left_to_the_scheduler = placed - planned
    assert left_to_the_scheduler.total() == 17 - planned.total() < 17

"""A NodeClaim that a user created is launched as it is, and never deleted by Joiner before its user deletes it."""

from datetime import timedelta
from typing import Any

import pytest

from joiner import names
from joiner.adapters import kube_kinds as kinds
from joiner.adapters.payload import Execution, Task
from joiner.planning.inputs.claim_pools import CLAIMS_OF_A_PLAN
from joiner.pools import NodeClaim
from joiner.reporting.launch_conditions import TURNS
from tests.unit.functions.function_loading import load
from tests.unit.functions.retirement_execution import retire
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import CLUSTER, pending
from tests.unit.functions.sweeping import claims, looked, retired, without_claim

ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}


def created(
    cluster: SimulatedCluster, name: str = "mine", *, labels: Any = None, annotations: Any = None, **spec: Any
) -> SimulatedCluster:
    """Return the cluster after `kubectl apply` of a NodeClaim."""
    declared = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [ON_DEMAND],
        "expireAfter": "720h",
        **spec,
    }
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels or {}, "annotations": dict(annotations or {})}
    cluster.kube.put({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": declared})
    return cluster


def swept(cluster: SimulatedCluster, number: int) -> dict[str, Any]:
    """Run one sweep a minute later, with the scale-up that it starts."""
    cluster.now += timedelta(minutes=1)
    return cluster.sweep(f"sweep-{number}")


def launched(cluster: SimulatedCluster) -> tuple[str, str, str]:
    """Return status, reason and message of the condition Launched of the only claim."""
    (claim,) = claims(cluster)
    found = claim.conditions["Launched"]
    return found.status, found.reason, found.message


def notes(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    events = (each for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == "NodeClaim")
    return [(each["reason"], each["note"]) for each in events]


def node_of(cluster: SimulatedCluster, claim: NodeClaim) -> dict[str, Any]:
    return cluster.kube.objects["nodes", "", claim.node_name]


def test_a_claim_that_a_user_created_becomes_a_ready_node(cluster: SimulatedCluster) -> None:
    created(
        cluster.prepare(),
        labels={"team": "web"},
        taints=[{"key": "team", "value": "web", "effect": "NoSchedule"}],
        resources={"requests": {"cpu": "3"}},
    )

    found = cluster.survey("s1")[0]
    cluster.sweep("sweep-1")

    assert found["unlaunchedClaims"] == 1
    assert found["reasons"] == [
        "NodeClaim/mine waits for its instance",
        "EC2NodeClass/default has claims and no finalizer",
    ]
    (claim,) = claims(cluster)
    assert (claim.name, claim.instance_type, claim.initialized, claim.lease) == ("mine", "m5.xlarge", True, 0)
    assert claim.finalizers == (names.TERMINATION_FINALIZER,)
    node = node_of(cluster, claim)
    assert node["metadata"]["labels"].items() >= {"team": "web", names.NODECLASS: "default"}.items()
    assert names.NODEPOOL not in node["metadata"]["labels"]
    assert {"key": "team", "value": "web", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert swept(cluster, 2)["unlaunchedClaims"] == 0
    assert len(cluster.ec2.instances) == 1


def test_the_instance_has_the_tags_of_its_claim_and_an_empty_pool(cluster: SimulatedCluster) -> None:
    created(cluster.prepare())
    swept(cluster, 1)

    (instance,) = cluster.ec2.instances.values()
    tags = {each["Key"]: each["Value"] for each in instance["Tags"]}

    assert (tags[names.NODECLAIM], tags[names.NODEPOOL], tags[names.NODECLASS]) == ("mine", "", "default")


def test_a_claim_with_the_label_of_a_pool_counts_in_the_pool(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), labels={names.NODEPOOL: "default"})

    swept(cluster, 1)

    (claim,) = claims(cluster)
    assert claim.initialized and claim.pool_key == "NodePool/default"
    assert cluster.kube.objects["nodepools", "", "default"]["status"]["nodes"] == 1
    assert node_of(cluster, claim)["metadata"]["labels"][names.NODEPOOL] == "default"


def test_pending_pods_are_placed_on_the_node_of_a_claim(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(pending("web-1")))

    cluster.scale_up("up-1")

    (claim,) = claims(cluster)
    assert claim.name == "mine"
    assert cluster.kube.objects["pods", "default", "web-1"]["spec"]["nodeName"] == claim.node_name


def test_the_node_of_a_claim_without_a_pool_stays_although_it_is_empty(cluster: SimulatedCluster) -> None:
    created(cluster.prepare())
    swept(cluster, 1)
    cluster.now += timedelta(hours=1)

    assert [retired(looked(cluster, number)[0]) for number in (2, 3)] == [[], []]


def test_a_claim_expires(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), expireAfter="1h")
    cluster.kube.objects["nodeclaims", "", "mine"]["metadata"]["creationTimestamp"] = "2026-11-21T12:00:00Z"
    swept(cluster, 1)
    cluster.now += timedelta(hours=1)

    assert retired(looked(cluster, 2)[0]) == [("mine", "expired")]


def test_the_deletion_of_a_claim_terminates_its_instance(cluster: SimulatedCluster) -> None:
    created(cluster.prepare())
    swept(cluster, 1)
    (claim,) = claims(cluster)
    cluster.kube.delete(kinds.NODECLAIMS, "mine")

    assert retired(looked(cluster, 2)[0]) == [("mine", "deleted")]
    retire(cluster, ("mine", "deleted"), passes=3)

    assert claims(cluster) == [] and cluster.kube.all(kinds.NODES) == []
    assert cluster.ec2.instances[claim.instance_id]["State"]["Name"] == "terminated"


def test_a_claim_without_capacity_stays_with_the_reason_of_ec2_and_is_launched_later(
    cluster: SimulatedCluster,
) -> None:
    created(cluster.prepare(), resources={"requests": {"cpu": "3"}})
    cluster.ec2.short = {("m5.xlarge", "us-east-1a"), ("m5.xlarge", "us-east-1b")}

    swept(cluster, 1)

    assert launched(cluster) == (
        "False",
        "NotLaunchable",
        "no instance is launched for it: no instance type that it allows and holds its resources.requests (cpu: 3) is "
        "available now: allow more types or zones",
    )
    assert cluster.ec2.instances == {}
    cluster.ec2.short = set()
    cluster.now += timedelta(minutes=10)
    swept(cluster, 2)
    assert launched(cluster)[:2] == ("True", "Launched")


def test_a_claim_that_no_type_holds_reports_what_it_lacks_and_backs_off(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), resources={"requests": {"cpu": "64", "memory": "1Gi"}})

    due = [swept(cluster, number)["unlaunchedClaims"] for number in range(8)]

    message = (
        "no instance is launched for it: no instance type that it allows holds its resources.requests (cpu: 64, "
        "memory: 1Gi); the nearest, m5.xlarge, is short of 60 cpu: allow larger types, or request less"
    )
    assert launched(cluster) == ("False", "NotLaunchable", message)
    assert ("NotLaunchable", message) in notes(cluster)
    assert due == [1, 1, 0, 1, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spott"]}]},
            "spec.requirements[0].values is [spott]: none of the values is known; use on-demand, spot, reserved",
        ),
        (
            {"requirements": [{"key": names.INSTANCE_TYPE, "operator": "In", "values": ["m5.lrge"]}]},
            "spec.requirements[node.kubernetes.io/instance-type] is m5.lrge: the catalogue has no such instance type; "
            "did you mean m5.large or m5.xlarge?",
        ),
        (
            {"resources": {"requests": {"cpu": "many"}}},
            "spec.resources.requests.cpu is many: ",
        ),
    ],
    ids=["value", "type", "request"],
)
def test_a_claim_with_a_mistake_names_field_value_and_remedy(
    cluster: SimulatedCluster, spec: dict[str, Any], message: str
) -> None:
    created(cluster.prepare(), **spec)

    swept(cluster, 1)

    status, reason, found = launched(cluster)
    assert (status, reason) == ("False", "ValidationFailed")
    assert found.startswith(message)
    assert cluster.ec2.instances == {}


def test_more_claims_than_one_plan_takes_are_launched_by_one_execution(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    for number in range(CLAIMS_OF_A_PLAN + 2):
        created(cluster, f"mine-{number}")

    swept(cluster, 1)

    assert {claim.initialized for claim in claims(cluster)} == {True}
    assert len(cluster.ec2.instances) == CLAIMS_OF_A_PLAN + 2


def test_claims_that_take_turns_have_it_in_their_condition_until_they_are_fewer(cluster: SimulatedCluster) -> None:
    missing = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "other"}
    cluster.prepare()
    for number in range(CLAIMS_OF_A_PLAN + 2):
        created(cluster, f"mine-{number:02}", nodeClassRef=missing)

    swept(cluster, 1)
    first = {claim.name: claim.conditions["Launched"] for claim in claims(cluster)}
    waiting = [name for name, found in first.items() if found.reason == "AwaitingTurn"]
    for number in range(2, 6):
        swept(cluster, number)
    later = [claim.conditions["Launched"] for claim in claims(cluster)]

    assert all(found.message.endswith(TURNS) for found in first.values())
    assert [first[name].status for name in waiting] == ["Unknown"] * 2
    assert {(found.status, found.reason) for found in later} == {("False", "NotLaunchable")}
    assert all(found.message.endswith(TURNS) for found in later)

    for name in waiting:
        cluster.kube.delete(kinds.NODECLAIMS, name)
    swept(cluster, 9)
    assert not any(TURNS in claim.conditions["Launched"].message for claim in claims(cluster))


def test_a_claim_of_a_class_that_is_not_there_names_it(cluster: SimulatedCluster) -> None:
    created(
        cluster.prepare(),
        nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "other"},
    )

    swept(cluster, 1)

    assert launched(cluster) == (
        "False",
        "NotLaunchable",
        "no instance is launched for it: its class EC2NodeClass/other does not exist: create it, or name another in "
        "spec.nodeClassRef of NodeClaim/mine",
    )


@pytest.mark.parametrize("state", ["record_node_claims", "launch_instances"], ids=["before", "after"])
def test_of_an_execution_that_stops_before_or_after_the_launch_the_next_keeps_claim_and_instance(
    cluster: SimulatedCluster, state: str
) -> None:
    created(cluster.prepare())
    cluster.stop_after = state
    swept(cluster, 1)
    cluster.stop_after = ""
    cluster.now += timedelta(minutes=5)

    swept(cluster, 2)

    assert [(claim.name, claim.initialized) for claim in claims(cluster)] == [("mine", True)]
    assert len(cluster.ec2.instances) == 1


def test_a_claim_that_is_deleted_right_before_its_launch_stays_until_no_execution_can_launch_it(
    cluster: SimulatedCluster,
) -> None:
    created(cluster.prepare())
    cluster.stop_after = "record_node_claims"
    swept(cluster, 1)
    cluster.kube.delete(kinds.NODECLAIMS, "mine")

    assert retire(cluster, ("mine", "deleted")).left_out == {"mine": "it may still be launched"}
    assert retired(looked(cluster, 2, after=1)[0]) == []
    assert [claim.name for claim in claims(cluster)] == ["mine"]

    cluster.now += timedelta(minutes=5)  # the lease has expired, and nothing was launched
    assert retired(looked(cluster, 3)[0]) == [("mine", "deleted")]
    retire(cluster, ("mine", "deleted"), name="retire-2")
    assert claims(cluster) == [] and cluster.ec2.instances == {}


def test_a_claim_that_was_lost_is_rebuilt_from_its_node_and_not_launched_again(cluster: SimulatedCluster) -> None:
    created(cluster.prepare())
    swept(cluster, 1)
    (before,) = claims(cluster)
    without_claim(cluster, before)

    looked(cluster, 2)
    rebuild = looked(cluster, 3)[1]["rebuild"]
    task = Task(Execution("sweep-4", "arn:4", ""), CLUSTER, 0, 1)
    done = load("rebuild_claims").ClaimRebuilding(cluster.kube).answer(task, rebuild, cluster.now)

    assert done == {"rebuilt": ["mine"], "left": []}
    (after,) = claims(cluster)
    assert (after.provider_id, after.pool, after.class_ref) == (before.provider_id, "", before.class_ref)
    assert swept(cluster, 5)["unlaunchedClaims"] == 0
    assert len(cluster.ec2.instances) == 1


def test_a_rebuilt_claim_whose_status_is_not_written_yet_is_not_launched(cluster: SimulatedCluster) -> None:
    created(cluster.prepare())
    cluster.kube.objects["nodeclaims", "", "mine"]["metadata"]["annotations"] = {names.EXECUTION: "sweep-1"}

    assert swept(cluster, 1)["unlaunchedClaims"] == 0
    assert cluster.ec2.instances == {} and notes(cluster) == []

    cluster.kube.objects["nodeclaims", "", "mine"]["metadata"]["creationTimestamp"] = "2026-11-21T11:00:00Z"
    swept(cluster, 2)

    assert cluster.ec2.instances == {}
    assert notes(cluster) == [
        (
            "NotLaunchable",
            "It is not launched: its annotation joiner.dev/execution marks it as the claim of a node that exists, and "
            "no node became its own. Remove the annotation to have the claim launched",
        )
    ]


def test_an_unhealthy_node_of_a_claim_without_a_pool_is_repaired(cluster: SimulatedCluster) -> None:
    created(cluster.prepare())
    swept(cluster, 1)
    (claim,) = claims(cluster)
    since = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-21T12:00:00Z"}
    node_of(cluster, claim)["status"]["conditions"] = [since]
    cluster.now += timedelta(hours=1)

    assert retired(looked(cluster, 2)[0]) == [("mine", "unhealthy")]


def test_a_machine_is_launched_for_the_provisioner_that_its_label_names(cluster: SimulatedCluster) -> None:
    machine: dict[str, Any] = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "metadata": {"name": "old", "uid": "uid-old"},
        "spec": {"machineTemplateRef": {"kind": "AWSNodeTemplate", "name": "default"}, "requirements": [ON_DEMAND]},
    }
    cluster.prepare().kube.put(machine)

    swept(cluster, 1)

    (found,) = claims(cluster)
    assert found.conditions["Launched"].message == (
        "metadata.labels[karpenter.sh/provisioner-name]: a Machine is launched for a Provisioner: set its name here"
    )


def test_a_claim_whose_label_names_no_pool_is_launched_with_a_warning(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), labels={names.NODEPOOL: "gone"})

    swept(cluster, 1)

    assert [(claim.pool_key, claim.initialized) for claim in claims(cluster)] == [("NodePool/gone", True)]
    warned = [note for _, note in notes(cluster) if note.startswith("metadata.labels[karpenter.sh/nodepool] is gone: ")]
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("label", "required", "launched"),
    [("default", "dedicated", "dedicated"), ("dedicated", "", "default"), ("", "dedicated", "dedicated")],
)
def test_the_requirements_of_a_claim_decide_its_tenancy_whatever_label_it_was_copied_with(
    cluster: SimulatedCluster, label: str, required: str, launched: str
) -> None:
    asked = [{"key": names.TENANCY, "operator": "In", "values": [required]}] if required else []
    created(cluster.prepare(), labels={names.TENANCY: label} if label else {}, requirements=[ON_DEMAND, *asked])

    cluster.sweep("sweep-1")

    (claim,) = claims(cluster)
    assert (claim.launched, claim.labels[names.TENANCY]) == (True, launched)

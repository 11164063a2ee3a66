"""A NodeClaim and a Machine may have one name, by which launches and retirements are recorded: one of them counts."""

from typing import Any

import pytest

from joiner import names
from joiner.adapters import kube_kinds as kinds
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending
from tests.unit.functions.sweeping import claims, looked, retired
from tests.unit.functions.test_standalone_claims import created, swept

OLD, NEW = "2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z"


def machine(cluster: SimulatedCluster, name: str, created_at: str) -> None:
    metadata = {"name": name, "uid": f"machine-{name}", "labels": {names.PROVISIONER: "old"}}
    manifest: dict[str, Any] = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "metadata": {**metadata, "creationTimestamp": created_at},
        "spec": {"machineTemplateRef": {"kind": "AWSNodeTemplate", "name": "default"}},
    }
    cluster.kube.put(manifest)


def machine_notes(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    events = (each for each in cluster.kube.all(kinds.EVENTS) if each["regarding"]["kind"] == "Machine")
    return [(each["reason"], each["note"]) for each in events]


@pytest.mark.parametrize("of_machine", [NEW, OLD], ids=["the machine is newer", "the machine is older"])
def test_a_machine_with_the_name_of_a_launched_claim_is_reported_and_changes_nothing(
    cluster: SimulatedCluster, of_machine: str
) -> None:
    cluster.prepare(pending("web-1")).scale_up("up-1")
    (claim,) = claims(cluster)
    machine(cluster, claim.name, of_machine)

    swept(cluster, 1)

    assert [(one.key, one.initialized) for one in claims(cluster)] == [(claim.key, True)]
    assert len(cluster.ec2.instances) == 1
    assert machine_notes(cluster) == [
        (
            "ValidationFailed",
            f"metadata.name is {claim.name}: {claim.key} has this name, too: create this Machine with another name. It "
            "is ignored until then",
        )
    ]


def test_the_deletion_of_the_machine_does_not_retire_the_node_of_the_claim_with_its_name(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("web-1")).scale_up("up-1")
    (claim,) = claims(cluster)
    machine(cluster, claim.name, NEW)
    cluster.kube.objects["machines", "", claim.name]["metadata"]["finalizers"] = [names.TERMINATION_FINALIZER]
    cluster.kube.delete(kinds.MACHINES, claim.name)

    assert retired(looked(cluster, 1)[0]) == []


def test_of_two_claims_that_wait_for_an_instance_the_older_one_is_launched(cluster: SimulatedCluster) -> None:
    created(cluster.prepare(), name="mine")
    cluster.kube.objects["nodeclaims", "", "mine"]["metadata"]["creationTimestamp"] = OLD
    machine(cluster, "mine", NEW)

    swept(cluster, 1)

    assert [(claim.key, claim.initialized) for claim in claims(cluster)] == [("NodeClaim/mine", True)]
    assert len(cluster.ec2.instances) == 1
    assert "providerID" not in cluster.kube.objects["machines", "", "mine"].get("status", {})

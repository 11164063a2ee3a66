"""A NodeClaim that a user creates on a deployed stack: it becomes a Ready node, and its deletion ends the instance."""

from collections.abc import Iterator
from typing import Any

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, node_class

pytestmark = pytest.mark.e2e

CLAIM = "/apis/karpenter.sh/v1/nodeclaims/mine"
TAINT = {"key": "team", "value": "web", "effect": "NoSchedule"}


@pytest.fixture
def cleaned(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()


def node_claim(**allowed: list[str]) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": "mine", "labels": {"team": "web"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "standalone"},
            "requirements": [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()],
            "resources": {"requests": {"cpu": "3"}},
            "taints": [TAINT],
        },
    }


def condition(actor: Actor, name: str) -> dict[str, Any]:
    (claim,) = actor.claims()
    found = claim.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == name), {"status": "", "message": ""})


def test_a_claim_of_a_user_becomes_a_ready_node_and_its_deletion_terminates_the_instance(cleaned: Actor) -> None:
    asked = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large", "m5.xlarge"]}
    cleaned.create(node_class("standalone"), node_claim(**asked))

    until(lambda: condition(cleaned, "Initialized")["status"] == "True", what="the node of the claim", limit=150)

    (claim,), (instance,) = cleaned.claims(), cleaned.instances()
    node = cleaned.world.kube.get(f"/api/v1/nodes/{claim['status']['nodeName']}")
    assert instance["InstanceType"] == "m5.xlarge"
    assert claim["status"]["providerID"].endswith(instance["InstanceId"])
    assert (
        node["metadata"]["labels"].items()
        >= {
            "team": "web",
            "karpenter.k8s.aws/ec2nodeclass": "standalone",
            "node.kubernetes.io/instance-type": "m5.xlarge",
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        }.items()
    )
    assert "karpenter.sh/nodepool" not in node["metadata"]["labels"]
    assert node["spec"]["taints"] == [TAINT]

    cleaned.world.kube.delete(CLAIM)
    until(lambda: not cleaned.claims() and not cleaned.instances(), what="the end of the instance", limit=150)
    cleaned.rest()
    cleaned.assert_at_rest()


def test_a_claim_that_no_type_holds_has_the_reason_in_its_condition(cleaned: Actor) -> None:
    cleaned.create(node_class("standalone"), node_claim(**{INSTANCE_TYPE: ["m5.large"]}))

    until(lambda: condition(cleaned, "Launched")["status"] == "False", what="the reason on the claim", limit=120)

    assert condition(cleaned, "Launched")["message"] == (
        "no instance is launched for it: no instance type that it allows holds its resources.requests (cpu: 3); the "
        "nearest, m5.large, is short of 1.07 cpu: allow larger types, or request less"
    )
    assert cleaned.instances() == []
    cleaned.world.kube.delete(CLAIM)
    until(lambda: not cleaned.claims(), what="the deletion of the claim", limit=60)

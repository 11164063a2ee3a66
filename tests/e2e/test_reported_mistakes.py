"""Mistakes in manifests and objects that are deleted too early: refused by the API server or reported on the object,
without effect on other pools.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
import yaml

from joiner_local.control_plane.kube_api import ApiError, Object
from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import SCENARIOS, Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, NEVER_DISRUPTED, deployment, node_class
from tests.e2e.stack_manifests import node_pool as pool_of

pytestmark = pytest.mark.e2e

GROUP = "/apis/karpenter.sh"
AWS_GROUP = "/apis/karpenter.k8s.aws"
PATHS = {
    "Provisioner": f"{GROUP}/v1alpha5/provisioners",
    "NodePool": f"{GROUP}/v1/nodepools",
    "AWSNodeTemplate": f"{AWS_GROUP}/v1alpha1/awsnodetemplates",
    "EC2NodeClass": f"{AWS_GROUP}/v1/ec2nodeclasses",
}
BLANK = {"key": " karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}
NOBODY = {"karpenter.sh/discovery": "nobody"}


def provisioner(name: str, **spec: Any) -> Object:
    """Return scenario a's Provisioner with another name and other fields."""
    made: Object = yaml.safe_load((SCENARIOS / "a-inline-provider.yaml").read_text())
    made["metadata"]["name"] = name
    made["spec"] |= spec
    return made


def pool_and_class(name: str) -> tuple[Object, Object]:
    """The same as a NodePool, by another name, and its class."""
    pool, node_class = (
        deepcopy(each) for each in yaml.safe_load_all((SCENARIOS / "v1" / "a-two-types.yaml").read_text())
    )
    pool["metadata"]["name"] = node_class["metadata"]["name"] = pool["spec"]["template"]["spec"]["nodeClassRef"][
        "name"
    ] = name
    return pool, node_class


def node_pool(
    change: Mapping[str, Any], *, of_template: Mapping[str, Any] | None = None, outside: Mapping[str, Any] | None = None
) -> Object:
    made, _ = pool_and_class("wrong")
    made["spec"] |= change
    made["spec"]["template"]["spec"] |= of_template or {}
    return {**made, **(outside or {})}


REFUSED: dict[str, tuple[Object, tuple[str, ...]]] = {
    "a key with a leading blank, legacy": (
        provisioner("wrong", requirements=[BLANK]),
        (
            "Provisioner",
            "spec.requirements[0].key",
            '" karpenter.sh/capacity-type"',
            "remove the blank at the beginning",
        ),
    ),
    "a key with a leading blank, v1": (
        node_pool({}, of_template={"requirements": [BLANK]}),
        (
            "NodePool",
            "spec.template.spec.requirements[0].key",
            '" karpenter.sh/capacity-type"',
            "remove the blank at the beginning",
        ),
    ),
    "limits.resoutces, legacy": (
        provisioner("wrong", limits={"resoutces": {"cpu": 1000}}),
        (
            "Provisioner",
            "spec.limits.resoutces",
        ),
    ),
    "limits.resoutces, v1": (
        node_pool({"limits": {"resoutces": {"cpu": 1000}}}),
        ("NodePool", "spec.limits.resoutces"),
    ),
    "requirements outside spec, legacy": (
        {**provisioner("wrong"), "requirements": [BLANK]},
        ("Provisioner", '"requirements"'),
    ),
    "requirements outside spec, v1": (node_pool({}, outside={"requirements": [BLANK]}), ("NodePool", '"requirements"')),
    "ttlSecondsAfterEmpty and consolidation, legacy": (
        provisioner("wrong", ttlSecondsAfterEmpty=30, consolidation={"enabled": True}),
        ("Provisioner", "ttlSecondsAfterEmpty", "consolidation.enabled", "exclude each other"),
    ),
    "ttlSecondsAfterEmpty, v1": (node_pool({"ttlSecondsAfterEmpty": 30}), ("NodePool", '"spec.ttlSecondsAfterEmpty"')),
}
"""As `kubectl apply` sends them: it asks the API server to refuse fields that it does not know."""


@pytest.mark.parametrize(("manifest", "words"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_refused_at_apply_by_field_value_and_remedy(
    deployed: Actor, manifest: Object, words: tuple[str, ...]
) -> None:
    with pytest.raises(ApiError) as refused:
        deployed.world.kube.call("POST", f"{PATHS[manifest['kind']]}?fieldValidation=Strict", manifest)

    assert refused.value.status in (400, 422)
    for word in words:
        assert word in str(refused.value)


def report_on(actor: Actor, kind: str, name: str) -> dict[str, Any]:
    """Return an object's Ready condition once it is False, and its events."""

    def look() -> dict[str, Any] | None:
        found = actor.world.kube.get(f"{PATHS[kind]}/{name}")
        conditions = {each["type"]: each for each in (found.get("status") or {}).get("conditions") or ()}
        if conditions.get("Ready", {}).get("status") != "False":
            return None
        events = [
            event
            for event in actor.events()
            if (event["regarding"]["kind"], event["regarding"]["name"]) == (kind, name)
        ]
        return {"ready": conditions["Ready"], "events": events} if events or kind == "NodePool" else None

    return until(look, what=f"what is wrong with {kind} {name}", limit=90)


def test_a_missing_aws_resource_is_reported_on_the_object_and_another_pool_serves_the_pods(deployed: Actor) -> None:
    deployed.clean()
    profile, profile_class = pool_and_class("no-profile")
    profile_class["spec"]["instanceProfile"] = "nobody-made-it"
    subnets, subnets_class = pool_and_class("no-subnet")
    subnets_class["spec"]["subnetSelectorTerms"] = [{"tags": NOBODY}]
    provider = provisioner("x")["spec"]["provider"]
    heavy = {"weight": 90}  # they would be asked first, if they could be
    deployed.create(
        provisioner("no-profile", provider={**provider, "instanceProfile": "nobody-made-it"}, **heavy),
        provisioner("no-subnet", provider={**provider, "subnetSelector": NOBODY}, **heavy),
        *({**each, "spec": {**each["spec"], **heavy}} for each in (profile, subnets)),
        profile_class,
        subnets_class,
        provisioner("good"),
        deployment("patient"),
    )
    deployed.wait_running(1, "patient")

    field = {"Provisioner": "spec.provider.instanceProfile", "EC2NodeClass": "spec.instanceProfile"}
    for kind, name in field.items():
        reported = report_on(deployed, kind, "no-profile")
        for message in (reported["ready"]["message"], reported["events"][0]["note"]):
            assert f"{name}: there is no instance profile nobody-made-it: create it, or leave the field out" in message
    field = {"Provisioner": "spec.provider.subnetSelector", "EC2NodeClass": "spec.subnetSelectorTerms"}
    for kind, name in field.items():
        reported = report_on(deployed, kind, "no-subnet")
        for message in (reported["ready"]["message"], reported["events"][0]["note"]):
            assert f"{name}: no subnet has tag karpenter.sh/discovery = nobody: tag the subnets" in message
    assert (
        "EC2NodeClass/no-profile: spec.instanceProfile"
        in report_on(deployed, "NodePool", "no-profile")["ready"]["message"]
    )
    assert (
        "EC2NodeClass/no-subnet: spec.subnetSelectorTerms"
        in report_on(deployed, "NodePool", "no-subnet")["ready"]["message"]
    )
    assert {claim["metadata"]["labels"]["karpenter.sh/provisioner-name"] for claim in deployed.claims()} == {"good"}
    deployed.assert_at_rest()
    deployed.clean()


def test_an_invalid_stored_manifest_is_reported_and_stops_no_other(deployed: Actor) -> None:
    """A client without strict validation: the API server prunes unknown fields, and the rest may be invalid."""
    deployed.clean()
    wrong = provisioner("wrong", providerRef={"name": "gone"})
    del wrong["spec"]["provider"]
    deployed.create(wrong, provisioner("good"), deployment("patient"))
    deployed.wait_running(1, "patient")

    reported = report_on(deployed, "Provisioner", "wrong")
    assert (
        "spec.providerRef is AWSNodeTemplate/gone: there is no such AWSNodeTemplate; create it or name another"
        in reported["events"][0]["note"]
    )
    deployed.assert_at_rest()
    deployed.clean()


def reasons(actor: Actor, kind: str, name: str) -> set[str]:
    """Return the reasons of the events about an object."""
    regarding = ((one["reason"], one["regarding"]) for one in actor.events())
    return {reason for reason, about in regarding if (about["kind"], about["name"]) == (kind, name)}


def test_a_class_that_is_deleted_while_a_claim_uses_it_stays_and_says_why_until_the_claim_is_gone(
    deployed: Actor,
) -> None:
    deployed.clean()
    path = f"{PATHS['EC2NodeClass']}/used"
    only = {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large"]}
    deployed.create(node_class("used"), pool_of("used", only, disruption=NEVER_DISRUPTED), deployment("web"))
    deployed.wait_running(1, "web")
    deployed.rest()
    (claim,) = deployed.claims()

    deployed.world.kube.call("DELETE", path)  # its finalizer keeps it
    assert deployed.sweep() == "SUCCEEDED"

    def why() -> str | None:
        found = deployed.world.kube.get(path)
        assert found["metadata"]["deletionTimestamp"]
        ready = {each["type"]: each for each in found["status"]["conditions"]}["Ready"]
        return ready["message"] if ready["reason"] == "NodeClassTerminating" else None

    assert until(why, what="the reason on the class", limit=60).startswith("it is being deleted: nothing is launched")
    assert "WaitingOnNodeClaimTermination" in reasons(deployed, "EC2NodeClass", "used")
    assert "NodeClassTerminating" in reasons(deployed, "NodePool", "used")
    assert (deployed.running("web"), len(deployed.claims()), len(deployed.instances())) == (1, 1, 1)

    deployed.end("web")
    deployed.world.kube.call("DELETE", f"{GROUP}/v1/nodeclaims/{claim['metadata']['name']}")
    until(deployed.is_empty, what="the claim gone", limit=90)
    assert deployed.sweep() == "SUCCEEDED"
    until(lambda: deployed.world.kube.find(path) is None, what="the class gone", limit=60)
    deployed.rest()
    deployed.clean()

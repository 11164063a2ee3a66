"""Every cause of drift from outside, of several pools at a time: the condition names it, and the new node is what the
pool and its class ask for now. Claims with digests of another version are not drifted.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.stack.stack_control import LocalStack
from tests.e2e.changing_pools import (
    POOLS,
    UNTOUCHED,
    ChangingPool,
    annotate_pool,
    claims_of,
    condition_of,
    instance_of,
    launch,
    types_of,
)
from tests.e2e.claim_ages import set_claim_age
from tests.e2e.eviction_checker import watched_evictions
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, node_class
from tests.e2e.test_pools_side_by_side import disrupt_until

pytestmark = pytest.mark.e2e

CLASSES: Final = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
CATALOGUE: Final = "catalogue/latest.json.gz"
GONE: Final = "c5d.large"
OF_KARPENTER: Final = {
    "karpenter.sh/nodepool-hash": "4022014851562331113",
    "karpenter.sh/nodepool-hash-version": "v3",
    "karpenter.k8s.aws/ec2nodeclass-hash": "14132016551642437372",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v4",
}
REASONS: Final = {
    "requirements": "RequirementsDrifted",
    "gone": "InstanceTypeNotFound",
    "image": "AMIDrift",
    "groups": "SecurityGroupDrift",
    "subnet": "SubnetDrift",
    "reserved": "CapacityReservationDrift",
    "tags": "NodeClassDrift",
    "adopted": "",
}


@dataclass(frozen=True)
class Changed:
    """What the classes select after the change."""

    image: str
    group: str
    subnets: frozenset[str]


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    yield deployed
    deployed.clean()
    deployed.knob("reservations", clear=True)
    ec2 = deployed.world.client("ec2")
    made = ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["drifted-*"]}])["SecurityGroups"]
    for each in made:
        ec2.delete_security_group(GroupId=each["GroupId"])


@pytest.fixture
def without_a_type(deployed: Actor) -> Iterator[Callable[[], None]]:
    """Takes an instance type out of the catalogue, as its next refresh does if EC2 does not offer it any more."""
    s3, place = deployed.world.client("s3"), {"Bucket": deployed.outputs["BucketName"], "Key": CATALOGUE}
    whole = s3.get_object(**place)["Body"].read()

    def remove() -> None:
        catalogue = json.loads(gzip.decompress(whole))
        del catalogue[GONE]
        s3.put_object(**place, Body=gzip.compress(json.dumps(catalogue).encode()))

    yield remove
    s3.put_object(**place, Body=whole)


def pools() -> tuple[ChangingPool, ...]:
    """Return a pool of one node for each cause, each with a class of its own name."""
    detect = {"joiner.dev/drift": "detect"}
    types = {"requirements": ["m5.large"], "gone": [GONE]}
    return tuple(
        ChangingPool(
            name, types.get(name, ["m5.large"]), ["m5.large"], class_name=name, disruption=UNTOUCHED, annotations=detect
        )
        for name in REASONS
        if name != "reserved"
    )


def classes(actor: Actor, reservation: str) -> list[Object]:
    made = {name: node_class(name) for name in REASONS}
    images = actor.world.client("ec2").describe_images(
        Filters=[{"Name": "name", "Values": ["amazon-eks-node-al2023-x86_64-standard-1.36-*"]}]
    )["Images"]
    oldest = min(images, key=lambda each: str(each["CreationDate"]))["Name"].rpartition("-")[2]
    made["image"]["spec"]["amiSelectorTerms"] = [{"alias": f"al2023@{oldest}"}]
    made["reserved"]["spec"]["capacityReservationSelectorTerms"] = [{"id": reservation}]
    return list(made.values())


def reserved_pool() -> tuple[Object, Object]:
    """Return a pool that uses its reservation first, and its Deployment."""
    made = ChangingPool("reserved", ["m5.large"], class_name="reserved", disruption=UNTOUCHED)
    pool = made.manifest()
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}
    requirements = [each for each in pool["spec"]["template"]["spec"]["requirements"] if each["key"] == INSTANCE_TYPE]
    capacity = {"key": CAPACITY_TYPE, "operator": "In", "values": ["reserved", "on-demand"]}
    pool["spec"]["template"]["spec"]["requirements"] = [*requirements, capacity, zone]
    pool["metadata"]["annotations"] = {"joiner.dev/drift": "detect"}
    return pool, made.deployment()


def change_everything(actor: Actor) -> Changed:
    """Change what each class selects, and what one pool requires."""
    kube, ec2 = actor.world.kube, actor.world.client("ec2")

    def select(name: str, **fields: Any) -> None:
        kube.merge(f"{CLASSES}/{name}", {"spec": fields})

    by_id = {each["InstanceId"]: each for each in actor.instances()}
    running = {pool: by_id[instance_of(*claims_of(actor, pool).values())] for pool in REASONS}
    discovered = [{"Name": "tag:karpenter.sh/discovery", "Values": ["joiner-demo"]}]
    subnets = ec2.describe_subnets(Filters=discovered)["Subnets"]
    name = f"drifted-{running['groups']['InstanceId']}"
    group = ec2.create_security_group(GroupName=name, Description="nodes", VpcId=subnets[0]["VpcId"])["GroupId"]
    ec2.create_tags(Resources=[group], Tags=[{"Key": "kubernetes.io/cluster/joiner-demo", "Value": "owned"}])
    other = {each["SubnetId"] for each in subnets} - {running["subnet"]["SubnetId"]}
    select("image", amiSelectorTerms=[{"alias": "al2023@latest"}])
    select("groups", securityGroupSelectorTerms=[{"id": group}])
    select("subnet", subnetSelectorTerms=[{"id": each} for each in sorted(other)])
    select("reserved", capacityReservationSelectorTerms=None)
    select("tags", tags={"team": "a"})
    narrowed = {"key": INSTANCE_TYPE, "operator": "In", "values": ["c5.large"]}
    on_demand = {"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    kube.merge(f"{POOLS}/requirements", {"spec": {"template": {"spec": {"requirements": [narrowed, on_demand]}}}})
    return Changed(running["tags"]["ImageId"], group, frozenset(other))


def drift_of(actor: Actor) -> dict[str, str]:
    """Return the reason of the condition Drifted by pool."""
    return {
        claim["metadata"]["labels"]["karpenter.sh/nodepool"]: condition_of(claim, "Drifted")[1]
        for claim in actor.claims()
    }


def test_each_cause_of_drift_is_named_and_its_node_is_replaced_by_what_is_asked_for_now(
    actor: Actor, bare_stack: LocalStack, without_a_type: Callable[[], None]
) -> None:
    kube = actor.world.kube
    place: Mapping[str, Any] = {"instanceType": "m5.large", "zone": "us-east-1a", "count": 1, "match": "targeted"}
    reservation = str(actor.knob("reservations", **place)["id"])
    actor.create(*classes(actor, reservation), *reserved_pool())
    actor.wait_running(1)
    launch(actor, *pools())
    assert actor.sweep() == "SUCCEEDED"
    assert drift_of(actor) == dict.fromkeys(REASONS, "")

    old_claims = {name: next(iter(claims_of(actor, name))) for name in REASONS}
    changed = change_everything(actor)
    next(each for each in pools() if each.name == "gone").widen(actor)
    without_a_type()
    set_claim_age(bare_stack, old_claims["gone"], timedelta(minutes=61))
    kube.merge(f"{CLAIMS}/{old_claims['adopted']}", {"metadata": {"annotations": OF_KARPENTER}})
    assert actor.sweep() == "SUCCEEDED"
    actor.rest()
    assert drift_of(actor) == REASONS
    adopted = kube.get(f"{CLAIMS}/{old_claims['adopted']}")["metadata"]["annotations"]
    assert not set(OF_KARPENTER.items()) & set(adopted.items()), "the digests are those of this version now"

    for name in REASONS:
        annotate_pool(actor, name, drift=None)
    with watched_evictions(actor):
        disrupt_until(
            actor, lambda: not any(drift_of(actor).values()) and len(actor.nodes()) == len(REASONS), what="no drift"
        )

    new_claims = {name: next(iter(claims_of(actor, name))) for name in REASONS}
    assert {name for name in REASONS if new_claims[name] == old_claims[name]} == {"adopted"}
    by_id = {each["InstanceId"]: each for each in actor.instances()}
    now = {name: by_id[instance_of(*claims_of(actor, name).values())] for name in REASONS}
    assert types_of(actor, "requirements") == ["c5.large"]
    assert types_of(actor, *REASONS) == ["c5.large"] + ["m5.large"] * (len(REASONS) - 1)
    assert now["image"]["ImageId"] == changed.image
    assert [each["GroupId"] for each in now["groups"]["SecurityGroups"]] == [changed.group]
    assert now["subnet"]["SubnetId"] in changed.subnets
    assert "CapacityReservationId" not in now["reserved"]
    assert {"Key": "team", "Value": "a"} in now["tags"]["Tags"]
    actor.wait_running(len(REASONS))

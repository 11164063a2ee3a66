"""The launches that show whether EC2 allows those of a class: built like real ones, and as different as possible."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.cluster import Requirement, Requirements, Resources, ValueSet
from joiner.launching import Launch
from joiner.launching.validation_launches import MOST_LAUNCHES, build_validation_launches
from joiner.pools import KubeletConfiguration, NodeClass, NodePool, ResolvedNodeClass
from tests.unit.functions.small_account import CLASS, CLUSTER

NODE_CLASS = NodeClass("default", tags={"team": "web"})
POOL = NodePool("default", NODE_CLASS.ref)
ZONES = ("us-east-1a", "us-east-1b")
PRICES = {"m5.large": 0.096, "m5.xlarge": 0.192, "c5.large": 0.085, "r5.large": 0.126}


def instance_type(name: str, price: float, arch: str = "amd64") -> InstanceType:
    labels = {names.ARCH: arch, names.OS: "linux", names.INSTANCE_TYPE: name}
    offerings = [
        Offering(zone, kind, cost) for zone in ZONES for kind, cost in (("on-demand", price), ("spot", price / 3))
    ]
    return InstanceType(name, labels, Resources.of(cpu=2), Resources.of(cpu=2), tuple(offerings))


CATALOGUE = Catalogue.of(
    [*(instance_type(name, price) for name, price in PRICES.items()), instance_type("m6g.large", 0.01, "arm64")]
)


def launches(*pools: NodePool, resolved: ResolvedNodeClass = CLASS, of: NodeClass = NODE_CLASS) -> Sequence[Launch]:
    return build_validation_launches(of, resolved, pools, CATALOGUE, CLUSTER, execution="sweep-1").launches


def offers(found: Sequence[Launch]) -> list[str]:
    overrides = [each.request["LaunchTemplateConfigs"][0]["Overrides"] for each in found]
    assert all(len(each) == 1 for each in overrides)
    return [f"{one['InstanceType']} in {one['AvailabilityZone']}" for (one,) in overrides]


def requiring(pool: NodePool, key: str, *values: str) -> NodePool:
    return replace(pool, requirements=Requirements.of([Requirement(key, ValueSet.of(*values))]))


def test_the_cheapest_comes_first_and_the_next_ones_have_other_capacity_types_families_and_zones() -> None:
    found = launches(POOL)

    assert offers(found)[0] == "c5.large in us-east-1a"
    assert [each.capacity_type for each in found[:2]] == ["spot", "on-demand"]
    assert {each.partition(".")[0] for each in offers(found[:3])} == {"c5", "m5", "r5"}
    assert len(set(zip(offers(found), (each.capacity_type for each in found), strict=True))) == MOST_LAUNCHES


def test_the_launches_of_a_class_with_few_are_the_whole() -> None:
    def whole(pool: NodePool) -> bool:
        found = build_validation_launches(NODE_CLASS, CLASS, [pool], CATALOGUE, CLUSTER, execution="sweep-1")
        return found.whole

    assert whole(requiring(POOL, names.INSTANCE_TYPE, "m5.large", "c5.large", "r5.large"))
    assert not whole(POOL)
    assert not whole(requiring(POOL, names.CAPACITY_TYPE, "on-demand", "spot", "reserved"))


def test_a_launch_has_the_tags_the_template_and_the_subnet_of_a_real_one() -> None:
    first = launches(POOL)[0]
    (template,) = first.templates

    assert (template.tags["team"], template.tags[names.NODEPOOL]) == ("web", "default")
    assert template.data["IamInstanceProfile"] == {"Name": "nodes"}
    assert template.data["UserData"]
    assert first.request["LaunchTemplateConfigs"][0]["Overrides"][0]["SubnetId"] == "subnet-a"
    assert {each["ResourceType"] for each in first.request["TagSpecifications"]} == {"fleet", "instance", "volume"}


def test_each_pool_of_the_class_is_tried() -> None:
    found = launches(
        requiring(POOL, names.INSTANCE_TYPE, "m5.xlarge"), requiring(replace(POOL, name="r"), names.ZONE, ZONES[1])
    )

    assert {each.pool for each in found[:2]} == {"NodePool/default", "NodePool/r"}
    assert set(offers(found)) >= {"m5.xlarge in us-east-1a", "c5.large in us-east-1b"}
    assert "c5.large in us-east-1a" not in offers(found)


@pytest.mark.parametrize(
    ("allowed", "tried"),
    [(("on-demand", "spot"), {"on-demand", "spot"}), (("spot",), {"spot"}), (("reserved",), set())],
)
def test_every_capacity_type_of_the_pool_is_tried_but_reservations(allowed: Sequence[str], tried: set[str]) -> None:
    assert {each.capacity_type for each in launches(requiring(POOL, names.CAPACITY_TYPE, *allowed))} == tried


def test_a_class_that_no_pool_names_is_tried_under_its_own_name() -> None:
    own = NodeClass("spare", "AWSNodeTemplate")
    resolved = replace(CLASS, name="spare", kind="AWSNodeTemplate")

    assert {each.pool for each in launches(resolved=resolved, of=own)} == {"Provisioner/spare"}


def test_a_type_without_an_image_or_without_a_subnet_is_not_tried() -> None:
    here = replace(CLASS, subnets=CLASS.subnets[:1])

    assert not any(offer.startswith("m6g") for offer in offers(launches(POOL)))
    assert all(offer.endswith(ZONES[0]) for offer in offers(launches(POOL, resolved=here)))
    assert launches(POOL, resolved=replace(CLASS, images=())) == ()


def test_a_pool_on_dedicated_hardware_is_tried_there() -> None:
    found = launches(requiring(POOL, names.TENANCY, names.DEDICATED_TENANCY))

    assert {each.templates[0].data["Placement"]["Tenancy"] for each in found} == {"dedicated"}


def test_a_type_without_room_beside_the_reserves_of_the_class_is_not_launched() -> None:
    reserving = replace(NODE_CLASS, kubelet=KubeletConfiguration({"kubeReserved": {"cpu": "2"}}))
    four = replace(instance_type("m5.xlarge", 0.192), capacity=Resources.of(cpu=4), allocatable=Resources.of(cpu=4))
    both = Catalogue.of([instance_type("c5.large", 0.085), four])

    found = build_validation_launches(reserving, CLASS, [POOL], both, CLUSTER, execution="sweep-1").launches

    assert {each.partition(" ")[0] for each in offers(found)} == {"m5.xlarge"}

"""A cluster of ipFamily ipv6: nodes have an IPv6 address, and take as many pods as the kubelet allows by default."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import condition, until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import CAPACITY_TYPE, INSTANCE_TYPE, deployment, node_class, node_pool
from tests.local.ipv6_ranges import ipv6_range

pytestmark = pytest.mark.e2e

CLUSTER = "joiner-demo"
CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/bounded"


@pytest.fixture
def six(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.knob("eks", name=CLUSTER, serviceCidr="fd12:3456:789a::/108", ipFamily="ipv6")
    deployed.record_cluster()
    yield deployed
    deployed.clean()
    deployed.knob("eks", name=CLUSTER, serviceCidr="10.100.0.0/16", ipFamily="ipv4")
    deployed.record_cluster()


@pytest.fixture
def dual_stack(six: Actor) -> Iterator[Actor]:
    ec2 = six.world.client("ec2")
    cluster = six.world.client("eks").describe_cluster(name=CLUSTER)["cluster"]
    with ExitStack() as ranges:
        for number, subnet in enumerate(cluster["resourcesVpcConfig"]["subnetIds"]):
            ranges.enter_context(ipv6_range(ec2, subnet, number))
        yield six


def own_nodes(actor: Actor) -> list[Object]:
    return [node for node in actor.nodes() if "karpenter.sh/nodepool" in node["metadata"]["labels"]]


@pytest.mark.parametrize("alias", ["al2023@latest", "bottlerocket@latest"])
def test_a_node_of_each_family_joins_with_its_ipv6_address(dual_stack: Actor, alias: str) -> None:
    made = node_class("bounded")
    made["spec"]["amiSelectorTerms"] = [{"alias": alias}]
    made["spec"].pop("amiFamily", None)
    pool = node_pool("bounded", {CAPACITY_TYPE: ["on-demand"], INSTANCE_TYPE: ["m5.large", "m4.large", "m3.large"]})

    dual_stack.create(made, pool, deployment("six"))
    dual_stack.wait_running(1, "six")

    (instance,) = dual_stack.instances()
    assert instance["InstanceType"] == "m5.large"  # the others are not based on Nitro
    (nic,) = instance["NetworkInterfaces"]
    assert [one["IsPrimaryIpv6"] for one in nic["Ipv6Addresses"]] == [True]
    (node,) = own_nodes(dual_stack)
    internal = [one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"]
    assert internal == [instance["Ipv6Address"]]
    assert node["status"]["allocatable"]["pods"] == "110"
    (claim,) = dual_stack.world.kube.items("/apis/karpenter.sh/v1/nodeclaims")
    assert claim["status"]["allocatable"]["pods"] == "110"


def test_a_class_whose_subnets_have_no_ipv6_range_is_refused(six: Actor) -> None:
    six.create(node_class("bounded"), node_pool("bounded"), deployment("patient"))

    def look() -> Object | None:
        found = six.world.kube.get(CLASS)
        return found if condition(found, "SubnetsReady") == "False" else None

    refused = until(look, what="the class refused", limit=90)
    (reason,) = [each for each in refused["status"]["conditions"] if each["type"] == "SubnetsReady"]
    assert reason["reason"] == "SubnetsWithoutIPv6"
    assert "no IPv6 range, and the cluster's ipFamily is ipv6: give them one" in reason["message"]
    assert six.instances() == []

"""Benchmarks beside Karpenter compare the same nodes at the same prices."""

from bench.karpenter_cluster import RESERVED, instance_types, karpenter_pool
from bench.workloads import pool
from joiner.cluster import Resources
from joiner.cluster.resources import CPU, MEMORY, PODS
from joiner_cli.catalogue_files import packaged_catalogue

UNLIMITED = 1000
KUBELET = (CPU, MEMORY, PODS)


def test_pods_get_as_much_of_a_node_of_karpenter_as_of_one_of_joiner() -> None:
    ours = packaged_catalogue().types
    provided = {one["name"]: Resources.from_kube(one["resources"]) - RESERVED for one in instance_types(UNLIMITED)}

    assert len(provided) == 51
    assert provided == {name: Resources({key: ours[name].allocatable[key] for key in KUBELET}) for name in provided}


def test_each_offering_of_karpenter_has_its_price_in_the_packaged_catalogue() -> None:
    ours = packaged_catalogue()
    for one in instance_types(UNLIMITED):
        for offering in one["offerings"]:
            capacity_type, zone = (requirement["values"][0] for requirement in offering["Requirements"])
            known = ours.offering(one["name"], zone, capacity_type)
            assert known is not None
            assert offering["Price"] == known.price_per_hour


def test_types_with_more_vcpus_than_the_pool_allows_are_not_provided() -> None:
    ours = packaged_catalogue().types

    assert max(ours[one["name"]].vcpus for one in instance_types(33)) == 32


def test_both_pools_allow_the_same_families_and_keep_their_nodes() -> None:
    joiner, karpenter = (manifests[-1]["spec"] for manifests in (pool(UNLIMITED), karpenter_pool()))
    families = [
        next(each["values"] for each in one["template"]["spec"]["requirements"] if each["key"].endswith("-family"))
        for one in (joiner, karpenter)
    ]

    assert families[0] == families[1]
    assert joiner["disruption"] == karpenter["disruption"]

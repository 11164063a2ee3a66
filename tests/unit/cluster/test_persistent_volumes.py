"""Where volumes allow a pod to run, or why no node would help it."""

from typing import Any

import pytest

from joiner.cluster import Requirements, Volumes, VolumeUnusable

ZONE = "topology.kubernetes.io/zone"


def claim(name: str = "data", *, volume: str = "", storage_class: str | None = "ebs", **more: Any) -> dict[str, Any]:
    spec = {
        "storageClassName": storage_class,
        "accessModes": ["ReadWriteOnce"],
        **({"volumeName": volume} if volume else {}),
        **more,
    }
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def volume(name: str, *zones: str, key: str = "topology.ebs.csi.aws.com/zone") -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": list(zones)}]}]
    return {"metadata": {"name": name}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}


LATER = {"metadata": {"name": "ebs"}, "volumeBindingMode": "WaitForFirstConsumer"}
IN_ONE_ZONE = {**LATER, "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]}


def test_a_pod_runs_in_the_zone_of_its_existing_volume() -> None:
    known = Volumes.from_lists([claim(volume="pv-1")], [volume("pv-1", "a")], [LATER])

    assert known.where("shop", ["data"]) == (Requirements.from_labels({ZONE: "a"}),)


def test_a_volume_to_be_provisioned_follows_the_topologies_of_its_class() -> None:
    assert Volumes.from_lists([claim()], [], [LATER]).where("shop", ["data"]) == (Requirements(),)
    assert Volumes.from_lists([claim()], [], [IN_ONE_ZONE]).where("shop", ["data"]) == (
        Requirements.from_labels({ZONE: "b"}),
    )


BETA = "volume.beta.kubernetes.io/storage-class"


def test_the_beta_annotation_of_a_claim_names_its_class_before_the_field() -> None:
    other = {"metadata": {"name": "other"}, "volumeBindingMode": "Immediate"}
    default = {
        **other,
        "metadata": {"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    }

    for storage_class in ("other", None):
        annotated = claim(storage_class=storage_class)
        annotated["metadata"]["annotations"] = {BETA: "ebs"}
        known = Volumes.from_lists([annotated], [], [IN_ONE_ZONE, other, default])
        assert known.where("shop", ["data"]) == (Requirements.from_labels({ZONE: "b"}),)

    annotated["metadata"]["annotations"] = {BETA: "gone"}
    with pytest.raises(VolumeUnusable, match="StorageClass gone of claim data does not exist"):
        Volumes.from_lists([annotated], [], [IN_ONE_ZONE, default]).where("shop", ["data"])


def test_the_beta_annotation_of_a_volume_names_its_class_before_the_field() -> None:
    local = {**LATER, "metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
    free = volume("pv-1", "a", key=ZONE)
    free["spec"] |= {"storageClassName": "ebs", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    wanted = claim(storage_class="local", resources={"requests": {"storage": "1Gi"}})

    with pytest.raises(VolumeUnusable):
        Volumes.from_lists([wanted], [free], [local]).where("shop", ["data"])
    free["metadata"]["annotations"] = {BETA: "local"}
    known = Volumes.from_lists([wanted], [free], [local])
    assert known.where("shop", ["data"]) == (Requirements.from_labels({ZONE: "a"}),)


def test_a_volume_with_an_unreadable_node_affinity_can_be_used_nowhere() -> None:
    broken = volume("pv-1")
    broken["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = [
        {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["large"]}]}
    ]
    known = Volumes.from_lists([claim(volume="pv-1")], [broken], [LATER])

    with pytest.raises(VolumeUnusable, match="the node affinity of PersistentVolume pv-1 cannot be read"):
        known.where("shop", ["data"])


def test_an_unreadable_term_affects_no_other_term_and_no_other_volume() -> None:
    unreadable = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["large"]}]}
    half, broken, good = volume("pv-half", "a"), volume("pv-broken"), volume("pv-good", "b")
    half["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"].append(unreadable)
    broken["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = [unreadable]
    bound = Volumes.from_lists([claim(volume="pv-half")], [half], [LATER])
    by_hand = {**LATER, "provisioner": "kubernetes.io/no-provisioner"}
    for one in (broken, good):
        one["spec"] |= {"storageClassName": "ebs", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    waiting = Volumes.from_lists([claim()], [broken, good], [by_hand])

    assert bound.where("shop", ["data"]) == (Requirements.from_labels({ZONE: "a"}),)
    assert waiting.where("shop", ["data"]) == (Requirements.from_labels({ZONE: "b"}),)


def test_a_pod_with_volumes_in_two_zones_can_run_nowhere() -> None:
    known = Volumes.from_lists(
        [claim("one", volume="pv-1"), claim("two", volume="pv-2")], [volume("pv-1", "a"), volume("pv-2", "b")], [LATER]
    )

    with pytest.raises(VolumeUnusable, match="exclude each other"):
        known.where("shop", ["one", "two"])


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ([], "does not exist"),
        ([claim(storage_class="missing")], "StorageClass missing"),
        ([claim(storage_class=None)], "no storage class"),
        ([claim(volume="gone")], "PersistentVolume gone"),
        ([{**claim(), "metadata": {"name": "data", "namespace": "shop", "deletionTimestamp": "now"}}], "being deleted"),
        ([{**claim(), "status": {"phase": "Lost"}}], "lost its volume"),
        ([claim(storage_class="at-once")], "not bound yet"),
    ],
)
def test_a_volume_claim_that_no_node_can_use_has_a_reason(claims: list[dict[str, Any]], why: str) -> None:
    known = Volumes.from_lists(claims, [], [LATER, {"metadata": {"name": "at-once"}}])

    with pytest.raises(VolumeUnusable, match=why):
        known.where("shop", ["data"])

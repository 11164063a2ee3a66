"""Pods whose last node never became ready for them are not planned for a while; all others are."""

from joiner.cluster import Pod
from joiner.planning import PendingPod, Reason, Snapshot
from joiner.planning.held_pods import HeldClass, hold_back
from tests.unit.planning.drawn_clusters import pod
from tests.unit.planning.test_in_flight import assigned, claim, cluster

WEB, OTHER = pod("web-0", cpu="1"), pod("other", cpu="2")
WHY = "the last node never became ready"


def held(device: str = "") -> HeldClass:
    return HeldClass(Pod.from_kube(WEB).class_key, device, WHY)


def names(snapshot: Snapshot) -> list[str]:
    return [one.name for one in snapshot.pods]


def test_pods_of_a_held_class_are_not_planned_and_have_the_reason() -> None:
    rest, found = hold_back(Snapshot.from_lists(cluster([WEB, OTHER])), [held()])

    assert names(rest) == ["other"]
    assert found == (PendingPod("default/web-0", (Reason("", WHY),)),)


def test_only_pods_that_request_the_missing_device_wait() -> None:
    snapshot = Snapshot.from_lists(cluster([WEB]))

    assert hold_back(snapshot, [held("smarter-devices/fuse")]) == (snapshot, ())
    assert names(hold_back(snapshot, [held("cpu")])[0]) == []


def test_a_pod_with_a_slot_on_a_node_that_boots_does_not_wait() -> None:
    snapshot = Snapshot.from_lists(cluster([WEB], claim()), assignments=assigned([WEB], 1))

    assert hold_back(snapshot, [held()]) == (snapshot, ())

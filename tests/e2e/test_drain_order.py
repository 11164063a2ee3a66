"""A drain from outside: the four tiers one after the other, volumes that are awaited, and a node whose name another
instance has by now.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from joiner_local.control_plane.kube_api import Object
from joiner_local.demo.change_watch import until
from tests.e2e.changing_pools import POOL, UNTOUCHED, ChangingPool, claims_of, condition_of, instance_of, node_of
from tests.e2e.forced_deletion import force_delete
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment, node_class

pytestmark = pytest.mark.e2e

CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/namespaces/default/pods"
VOLUMES: Final = "/api/v1/persistentvolumes"
VOLUME_CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
ATTACHMENTS: Final = "/apis/storage.k8s.io/v1/volumeattachments"
FINALIZER: Final = "example.com/attached"
TIERS: Final = ("web", "agent", "dns", "proxy")
"""The apps of the pods in the order in which they must leave."""
GRACE: Final = 3
LIMIT: Final = 90.0


@pytest.fixture
def actor(deployed: Actor) -> Iterator[Actor]:
    deployed.clean()
    deployed.create(node_class("changing"))
    yield deployed
    kube = deployed.world.kube
    for path in (f"{ATTACHMENTS}/held", f"{VOLUME_CLAIMS}/data", f"{VOLUMES}/data"):
        force_delete(kube, path)
    deployed.clean()


def slow(made: Object, pool: str, **spec: Any) -> Object:
    """Let each pod take two seconds of its grace period to end."""
    template = made["spec"]["template"]
    template["metadata"]["annotations"] = {"local.joiner.dev/stop-after": "2"}
    template["spec"] |= {"terminationGracePeriodSeconds": GRACE, "nodeSelector": {POOL: pool}, **spec}
    return made


def daemon(name: str, pool: str, **spec: Any) -> Object:
    made = slow(deployment(name, cpu="50m"), pool, **spec)
    del made["spec"]["replicas"]
    return {**made, "kind": "DaemonSet"}


def pods_by_tier(pool: str) -> list[Object]:
    """Return a workload for each tier, and one whose pod tolerates the taint and stays."""
    return [
        slow(deployment("web", cpu="500m"), pool),
        daemon("agent", pool),
        slow(deployment("dns", cpu="100m"), pool, priorityClassName="system-cluster-critical"),
        daemon("proxy", pool, priorityClassName="system-node-critical"),
        daemon("staying", pool, tolerations=[{"operator": "Exists"}]),
    ]


def delete_without_waiting(actor: Actor, path: str) -> None:
    actor.world.kube.call("DELETE", path)


def watch_drain(actor: Actor, node: str, claim: str) -> list[Mapping[str, bool]]:
    """Return what was seen of the pods on the node until the claim is gone: by app, whether it is being deleted."""
    seen: list[Mapping[str, bool]] = []
    end = time.monotonic() + LIMIT
    while actor.world.kube.find(f"{CLAIMS}/{claim}") is not None:
        assert time.monotonic() < end, "the claim is still there"
        pods = [pod for pod in actor.world.kube.items(PODS) if pod["spec"].get("nodeName") == node]
        seen.append({pod["metadata"]["labels"]["app"]: "deletionTimestamp" in pod["metadata"] for pod in pods})
        time.sleep(0.1)
    return seen


def test_pods_leave_in_four_tiers_and_pods_that_tolerate_the_taint_stay(actor: Actor) -> None:
    pool = ChangingPool("tiers", ["m5.large"], disruption=UNTOUCHED)
    actor.create(pool.manifest())
    actor.rest()
    actor.create(*pods_by_tier("tiers"))
    actor.wait_running(5)
    actor.rest()
    [(name, claim)] = claims_of(actor, "tiers").items()
    node = node_of(claim)

    delete_without_waiting(actor, f"{CLAIMS}/{name}")
    seen = watch_drain(actor, node, name)

    leaving = [[app for app in TIERS if now.get(app)] for now in seen]
    assert {len(each) for each in leaving} <= {0, 1}, "one tier at a time"
    order = list(dict.fromkeys(app for each in leaving for app in each))
    assert order == list(TIERS)
    for now in seen:  # a tier begins when the one before it has ended
        begun = [tier for tier, app in enumerate(TIERS) if now.get(app)]
        assert not [app for app in TIERS[: min(begun, default=0)] if app in now]
    last = max(index for index, now in enumerate(seen) if "proxy" in now)
    assert all("staying" in now and not now["staying"] for now in seen[: last + 1])
    actor.wait_running(5)  # on the next node


def volume(pool: str, node: str) -> tuple[Object, Object, Object]:
    """Return a volume, its claim, and a pod on this node that uses it. Kubernetes attaches no volume of this kind, so
    the test's own attachment is the only one."""
    size = {"storage": "1Gi"}
    source = {"nfs": {"server": "192.0.2.1", "path": "/data"}}
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    reference = {"namespace": "default", "name": "data"}
    made = {"metadata": {"name": "data"}, "spec": {**source, **modes, "capacity": size, "claimRef": reference}}
    claim = {"metadata": {"name": "data"}, "spec": {**modes, "resources": {"requests": size}, "volumeName": "data"}}
    template = deployment("stored", cpu="100m", nodeSelector={POOL: pool, "kubernetes.io/hostname": node})
    pod = {**template["spec"]["template"], "metadata": {"name": "stored", "labels": {"app": "stored"}}}
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return made, claim, pod


def test_an_instance_is_terminated_after_its_volumes_are_detached(actor: Actor) -> None:
    kube = actor.world.kube
    pool = ChangingPool("stored", ["m5.large"], cpu="200m", disruption=UNTOUCHED)
    actor.create(pool.manifest())
    actor.rest()
    actor.create(pool.deployment())
    actor.wait_running(1)
    actor.rest()
    [(name, claim)] = claims_of(actor, "stored").items()
    node, instance = kube.get(f"{NODES}/{node_of(claim)}"), instance_of(claim)
    made, wanted, pod = volume("stored", node["metadata"]["labels"]["kubernetes.io/hostname"])
    kube.create(VOLUMES, made)
    kube.create(VOLUME_CLAIMS, wanted)
    kube.create(PODS, pod)
    attached = {"attacher": "ebs.csi.aws.com", "nodeName": node_of(claim), "source": {"persistentVolumeName": "data"}}
    kube.create(ATTACHMENTS, {"metadata": {"name": "held", "finalizers": [FINALIZER]}, "spec": attached})
    actor.wait_running(2)

    delete_without_waiting(actor, f"{CLAIMS}/{name}")
    until(
        lambda: condition_of(kube.get(f"{CLAIMS}/{name}"), "VolumesDetached")[1] == "AwaitingVolumeDetachment",
        what="a drain that waits for the volume",
        limit=LIMIT,
    )
    assert kube.find(f"{PODS}/stored") is None
    assert instance in [each["InstanceId"] for each in actor.instances()]
    assert "AwaitingVolumeDetachment" in {event["reason"] for event in actor.events()}

    force_delete(kube, f"{ATTACHMENTS}/held")
    until(lambda: kube.find(f"{CLAIMS}/{name}") is None, what="the claim gone", limit=LIMIT)
    assert instance not in [each["InstanceId"] for each in actor.instances()]
    actor.wait_running(1)


def test_a_node_whose_name_another_instance_has_by_now_is_neither_drained_nor_deleted(actor: Actor) -> None:
    kube, ec2 = actor.world.kube, actor.world.client("ec2")
    pool = ChangingPool("reused", ["m5.large"], disruption=UNTOUCHED)
    actor.create(pool.manifest())
    actor.rest()
    actor.create(pool.deployment())
    actor.wait_running(1)
    actor.rest()
    [(name, claim)] = claims_of(actor, "reused").items()
    path, [ours] = f"{NODES}/{node_of(claim)}", actor.instances()
    launched = ec2.run_instances(
        ImageId=ours["ImageId"], InstanceType="t3.micro", SubnetId=ours["SubnetId"], MinCount=1, MaxCount=1
    )
    foreign = str(launched["Instances"][0]["InstanceId"])
    provider_id = f"aws:///{ours['Placement']['AvailabilityZone']}/{foreign}"

    kube.merge(path, {"metadata": {"finalizers": None}})
    kube.delete(path, missing_ok=True)
    size = {"cpu": "2", "memory": "4Gi", "pods": "20"}
    node = {
        "metadata": {"name": node_of(claim)},
        "spec": {"providerID": provider_id},
        "status": {"capacity": size, "allocatable": size},
    }
    kube.create(NODES, node)
    pod = deployment("foreign")["spec"]["template"]
    kube.create(PODS, {"metadata": {"name": "foreign"}, "spec": {**pod["spec"], "nodeName": node_of(claim)}})
    uid = kube.get(path)["metadata"]["uid"]

    try:
        delete_without_waiting(actor, f"{CLAIMS}/{name}")
        until(lambda: kube.find(f"{CLAIMS}/{name}") is None, what="the claim gone", limit=LIMIT)
        actor.rest()
        assert actor.sweep() == "SUCCEEDED"
        actor.rest()

        assert [each["InstanceId"] for each in actor.instances() if each["InstanceId"] == ours["InstanceId"]] == []
        assert foreign in [each["InstanceId"] for each in actor.instances()]
        standing = kube.get(path)
        assert (standing["metadata"]["uid"], standing["spec"]["providerID"]) == (uid, provider_id)
        assert "deletionTimestamp" not in standing["metadata"]
        assert "karpenter.sh/disrupted" not in {taint["key"] for taint in standing["spec"].get("taints", ())}
        assert "deletionTimestamp" not in kube.get(f"{PODS}/foreign")["metadata"]
        actor.wait_running(1, "reused")
    finally:
        kube.delete(f"{PODS}/foreign", missing_ok=True)
        kube.delete(path, missing_ok=True)
        ec2.terminate_instances(InstanceIds=[foreign])

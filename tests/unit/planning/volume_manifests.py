"""Manifests of volumes: claims, PersistentVolumes, classes, and the limits of drivers."""

from typing import Any

from tests.unit.planning.drawn_clusters import (
    Json,
    node_pool,
    pod,
)

EBS = "ebs.csi.aws.com"


ONE_TYPE = node_pool(
    requirements=[{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g.large"]}]
)


LATER = {"metadata": {"name": "ebs"}, "provisioner": EBS, "volumeBindingMode": "WaitForFirstConsumer"}


def claim(name: str, *, volume: str = "", modes: str = "ReadWriteOnce", storage_class: str | None = "ebs") -> Json:
    fields = {"accessModes": [modes], "storageClassName": storage_class, "volumeName": volume}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def volume(name: str, zone: str) -> Json:
    terms = [{"matchExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [zone]}]}]
    spec = {
        "csi": {"driver": EBS, "volumeHandle": f"vol-{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def mounting(name: str, *claims: str, **fields: Any) -> dict[str, Any]:
    return pod(name, volumes=[{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims], **fields)


def csi_node(name: str, count: int) -> Json:
    return {"metadata": {"name": name}, "spec": {"drivers": [{"name": EBS, "allocatable": {"count": count}}]}}

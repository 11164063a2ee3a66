"""The Node object that a kubelet creates, and what the cloud controller adds to it.

Sources: the kubelet's node registration (kubernetes, pkg/kubelet/nodestatus), nodeadm's settings for it (external cloud
provider, provider id), and cloud-provider-aws's node controller, which EKS runs: labels of type, zone and region, then
removal of the taint `uninitialized`.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, Final

from joiner_local.node_agent.node_capacity import NodeCapacity, to_kube
from joiner_local.node_agent.node_registration import Registration

KUBELET: Final = "local.joiner.dev/kubelet"  # label: from now on KWOK simulates this node's kubelet
READY_AFTER: Final = "local.joiner.dev/ready-after"
FAULT: Final = "local.joiner.dev/fault"
START_AFTER: Final = "local.joiner.dev/start-after"  # annotation of a pod: seconds from its admission to Running
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
NOT_READY: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ec2Instance:
    """The fields of DescribeInstances that the agent uses."""

    id: str
    name: str  # its private DNS name: the node's name
    address: str
    _: KW_ONLY
    instance_type: str
    zone: str
    architecture: str
    image_id: str
    root_device: str
    efa_interfaces: int = 0
    ipv6_address: str = ""

    @classmethod
    def from_ec2(cls, answer: Mapping[str, Any]) -> "Ec2Instance":
        return cls(
            id=answer["InstanceId"],
            name=answer["PrivateDnsName"],
            address=answer["PrivateIpAddress"],
            instance_type=answer["InstanceType"],
            zone=answer["Placement"]["AvailabilityZone"],
            architecture=answer["Architecture"],
            image_id=answer["ImageId"],
            root_device=answer.get("RootDeviceName", ""),
            ipv6_address=answer.get("Ipv6Address") or "",
            efa_interfaces=sum(
                nic.get("InterfaceType", "").startswith("efa") for nic in answer.get("NetworkInterfaces", [])
            ),
        )

    @property
    def region(self) -> str:
        return self.zone[:-1]

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.id}"


@dataclass(frozen=True, slots=True)
class NodeSoftware:
    """The software of the instance, for `status.nodeInfo`."""

    os_image: str
    kubelet_version: str
    labels: Mapping[str, str] = field(
        default_factory=lambda: {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}
    )


def registered(
    instance: Ec2Instance,
    registration: Registration,
    node_capacity: NodeCapacity,
    software: NodeSoftware,
    *,
    ready_after: float,
    now: datetime,
    ip_family: str = "ipv4",
) -> Object:
    """Return the Node that the kubelet posts. The API server adds the taint `not-ready`."""
    address = instance.ipv6_address if ip_family == "ipv6" else instance.address
    arch = ARCHITECTURES[instance.architecture]
    labels = {
        "beta.kubernetes.io/arch": arch,
        "kubernetes.io/arch": arch,
        **software.labels,
        "kubernetes.io/hostname": instance.name,
        KUBELET: "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": instance.name,
            "labels": {**labels, **registration.labels},
            "annotations": {
                READY_AFTER: f"{ready_after:g}s",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {
            "providerID": instance.provider_id,
            "taints": [*registration.taints, {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}],
        },
        "status": _status(instance, node_capacity, software, now, address=address),
    }


def _status(
    instance: Ec2Instance, node_capacity: NodeCapacity, software: NodeSoftware, now: datetime, *, address: str
) -> Object:
    return {
        "capacity": to_kube(node_capacity.capacity),
        "allocatable": to_kube(node_capacity.allocatable),
        "conditions": _conditions(now),
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": instance.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(instance, software),
    }


def _conditions(now: datetime) -> list[Object]:
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    pressures = [
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]
    return [
        *(
            {"type": kind, "status": "False", "reason": reason, "message": message, **times}
            for kind, reason, message in pressures
        ),
        {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": NOT_READY, **times},
    ]


def _node_info(instance: Ec2Instance, software: NodeSoftware) -> dict[str, str]:
    return {
        "architecture": ARCHITECTURES[instance.architecture],
        "operatingSystem": software.labels["kubernetes.io/os"],
        "osImage": software.os_image,
        "kernelVersion": "6.12.55-74.119.amzn2023",
        "containerRuntimeVersion": "containerd://2.1.5",
        "kubeletVersion": software.kubelet_version,
        "kubeProxyVersion": "",
        "machineID": instance.id.replace("-", ""),
        "systemUUID": instance.id.replace("-", ""),
        "bootID": instance.id.replace("-", ""),
    }


def cloud_labels(instance: Ec2Instance, zone_id: str) -> dict[str, str]:
    return {
        "node.kubernetes.io/instance-type": instance.instance_type,
        "beta.kubernetes.io/instance-type": instance.instance_type,
        "topology.kubernetes.io/zone": instance.zone,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "topology.kubernetes.io/region": instance.region,
        "failure-domain.beta.kubernetes.io/region": instance.region,
        "topology.k8s.aws/zone-id": zone_id,
    }

"""Let one instance join: read the user data, take the identity, create the Node as the node.

What fails for a real node fails here, with a reason in the log. `Unbootable` is permanent; `NotYet` is retried, as a
kubelet retries without end (an access entry may be created later).
"""

import hashlib
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import urllib3

from joiner.adapters.tls import InvalidAuthority
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.control_plane.kubeconfig import ApiServerEndpoint
from joiner_local.node_agent.boot_settings import BootSettings
from joiner_local.node_agent.image_software import ImageSoftware, software_of
from joiner_local.node_agent.instance_source import InstanceMetadata, InstanceReader, JoinedCluster
from joiner_local.node_agent.node_capacity import NodeCapacity
from joiner_local.node_agent.node_identity import profile_session
from joiner_local.node_agent.node_objects import FAULT, KUBELET, Ec2Instance, NodeSoftware, Object, registered
from joiner_local.node_agent.node_registration import Unbootable

EXISTS: Final = 409
REFUSED: Final = {401: "the cluster does not know it (401): has its role an access entry of type EC2_LINUX?"}


class NotYet(Exception):
    """The node could not join now; the message has the reason."""


@dataclass(slots=True)
class NodeJoining:
    """What any instance of one cluster needs to join; `folder` is for CA files."""

    aws: InstanceReader
    cluster: str
    folder: Path

    def join(self, instance: Ec2Instance, metadata: InstanceMetadata, *, ready_after: float, fault: str = "") -> Object:
        """Join; return the Node as the API server stores it. Raises Unbootable or NotYet."""
        facts = self.aws.cluster(self.cluster)
        image = software_of(self.aws.image_name(instance.image_id))
        software = _software(image, facts)
        config = image.read(metadata.user_data)
        _check_cluster(config, facts, instance)
        machine = self.aws.machine(instance, _volume_size(instance, metadata, image.data_device))
        capacity = NodeCapacity.of(
            machine.with_windows() if image.windows_build else machine,
            config.kubelet,
            config.local_storage,
            own_pods=image.own_pods,
            windows=bool(image.windows_build),
        )
        now, family = datetime.now(UTC), config.ip_family
        registration = config.registration
        node = registered(
            instance, registration, capacity, software, ready_after=ready_after, now=now, ip_family=family
        )
        match fault:
            case "not-ready":
                node["metadata"]["labels"][FAULT] = fault
            case "other-name":
                node["metadata"]["name"] = f"worker-{instance.id}"
            case "no-devices":
                _remove_devices(node["status"])
        token = profile_session(metadata).eks_token(self.aws.endpoint, self.aws.region, config.cluster)
        try:
            kube = KubeApi(
                ApiServerEndpoint(config.endpoint, self._authority(config.certificate_authority)),
                token=token,
                connections=1,
            )
        except InvalidAuthority as error:
            raise NotYet(f"the user data's CA cannot be used for {node['metadata']['name']}: {error}") from error
        return _register(kube, node)

    def _authority(self, pem: bytes) -> Path:
        path = self.folder / f"{hashlib.sha256(pem).hexdigest()[:16]}.crt"
        if not path.exists():
            fresh = Path(tempfile.mkstemp(dir=self.folder)[1])
            fresh.write_bytes(pem)
            fresh.replace(path)
        return path


def _software(image: ImageSoftware, facts: JoinedCluster) -> NodeSoftware:
    """Return what the node reports of its software. Raises Unbootable if the kubelet is newer than the cluster."""
    version = image.kubelet or facts.version
    if _minor(version) > _minor(facts.version):
        raise Unbootable(f"a kubelet of {version} does not work with a control plane of {facts.version}")
    return NodeSoftware(image.os_image, f"v{version}.0-eks-local", image.labels)


def _remove_devices(status: Object) -> None:
    for amounts in (status["capacity"], status["allocatable"]):
        for name in [name for name in amounts if "/" in name]:
            del amounts[name]


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def _check_cluster(config: BootSettings, facts: JoinedCluster, instance: Ec2Instance) -> None:
    """Refuse another endpoint: it might be a real cluster."""
    if config.endpoint.rstrip("/") != facts.endpoint:
        raise Unbootable(
            f"the user data names the API server {config.endpoint}; that of {facts.name} is {facts.endpoint}"
        )
    if config.cluster != facts.name:
        raise Unbootable(f"the user data is for the cluster {config.cluster}; this API server is {facts.name}'s")
    _check_addresses(config, facts, instance)


def _check_addresses(config: BootSettings, facts: JoinedCluster, instance: Ec2Instance) -> None:
    """Refuse a node without an address of the family that the cluster has: its pods would get no addresses."""
    if config.ip_family != facts.ip_family:
        raise Unbootable(
            f"the user data makes a node of {config.ip_family}, and the ipFamily of {facts.name} is {facts.ip_family}"
        )
    if facts.ip_family == "ipv6" and not instance.ipv6_address:
        raise Unbootable(f"{instance.id} has no IPv6 address, and the ipFamily of {facts.name} is ipv6")


def _volume_size(instance: Ec2Instance, metadata: InstanceMetadata, device: str) -> int:
    """Return the GiB of the volume with the files of pods; the root volume, if the image names none."""
    name = device or instance.root_device
    if name not in metadata.volumes:
        raise Unbootable(f"the instance has no volume {name}")
    return metadata.volumes[name]


def _register(kube: KubeApi, node: Object) -> Object:
    try:
        return kube.create("/api/v1/nodes", node)
    except ApiError as error:
        if error.status != EXISTS:
            raise NotYet(f"{REFUSED.get(error.status, 'the API server refuses it')}: {error}") from error
        return _return(kube, node)
    except urllib3.exceptions.SSLError as error:
        raise NotYet(f"the API server is not signed by the user data's CA: {error}") from error
    except urllib3.exceptions.HTTPError as error:
        raise NotYet(f"the API server cannot be reached: {error}") from error


def _return(kube: KubeApi, node: Object) -> Object:
    """Handle an existing node: this instance was stopped and started, or another instance had the name."""
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    try:
        present = kube.get(path)
        if present["spec"].get("providerID") != node["spec"]["providerID"]:
            raise NotYet(
                f"{node['metadata']['name']} is {present['spec'].get('providerID')}, whose node is still there"
            )
        return kube.merge(path, {"metadata": {"labels": {KUBELET: "kwok"}}})
    except ApiError as error:
        raise NotYet(f"the API server refuses its node's update: {error}") from error

"""Instances of the local EC2 that the node agent turns into nodes, and pods that are bound to them."""

from dataclasses import dataclass
from typing import Any

import yaml

from joiner_local.control_plane.kube_api import KubeApi, Object
from joiner_local.demo.change_watch import until
from joiner_local.knob_client import turn_knob
from joiner_local.stack.stack_control import LocalStack
from tests.local.launch_fixtures import LaunchPad

PODS = "/api/v1/namespaces/default/pods"

FILLING = {"key": "joiner.dev/filling", "effect": "NoSchedule"}

UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}

EVERYTHING = [{"operator": "Exists"}]


def write_node_config(
    described: Object, *, labels: str = "team=a", taints: list[Object] | None = None, **cluster: str
) -> bytes:
    """Return user data with which a node of AL2023 joins the described cluster."""
    facts = {
        "name": described["name"],
        "apiServerEndpoint": described["endpoint"],
        "certificateAuthority": described["certificateAuthority"]["data"],
        "cidr": described["kubernetesNetworkConfig"]["serviceIpv4Cidr"],
        **cluster,
    }
    kubelet = {"config": {"registerWithTaints": taints or []}, "flags": [f'--node-labels="{labels}"']}
    config = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"cluster": facts, "kubelet": kubelet},
    }
    head = (
        b'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n'
        b"--//\nContent-Type: application/node.eks.aws\n\n"
    )
    return head + yaml.safe_dump(config).encode() + b"\n--//--\n"


@dataclass(slots=True)
class Nodes:
    """Instances of this test, and their nodes."""

    stack: LocalStack
    kube: KubeApi
    pad: LaunchPad
    cluster: dict[str, Any]
    ids: list[str]

    def user_data(self, *, labels: str = "team=a", taints: list[Object] | None = None, **cluster: str) -> bytes:
        return write_node_config(self.cluster, labels=labels, taints=taints, **cluster)

    def launch(self, count: int = 1, *, user_data: bytes = b"", **override: Any) -> list[str]:
        disk = {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 40, "VolumeType": "gp3"}}
        wanted = self.pad.override(BlockDeviceMappings=[disk], **override)
        ids = self.pad.launch(wanted, count, user_data=user_data or self.user_data())
        self.ids += ids
        return ids

    def agent(self, name: str, **asked: Any) -> dict[str, Any]:
        return turn_knob(self.stack.known.node_agent, name, asked)

    def why(self, instance_id: str) -> str:
        reason: str = self.agent("instances").get(instance_id, {}).get("why", "")
        return reason

    def of(self, instance_id: str) -> Object | None:
        nodes = self.kube.items("/api/v1/nodes")
        return next((node for node in nodes if node["spec"].get("providerID", "").endswith(instance_id)), None)

    def condition(self, instance_id: str) -> str:
        node = self.of(instance_id)
        conditions = node["status"]["conditions"] if node else []
        return next((str(each["status"]) for each in conditions if each["type"] == "Ready"), "")

    def joined(self, instance_id: str) -> Object:
        until(
            lambda: self.condition(instance_id) == "True" and not self._being_completed(instance_id),
            what="the node ready",
            limit=90,
        )
        node = self.of(instance_id)
        assert node is not None
        return node

    def _being_completed(self, instance_id: str) -> bool:
        node = self.of(instance_id)
        return any(taint["key"].startswith("node.") for taint in (node or {"spec": {}})["spec"].get("taints", []))

    def terminate(self) -> None:
        if self.ids:
            self.pad.ec2.terminate_instances(InstanceIds=self.ids)
        self.agent("faults", clear=True)
        until(lambda: not any(self.of(identity) for identity in self.ids), what="the nodes gone", limit=90)


def pod(name: str, node: Object, *, cpu: str = "100m", resources: dict[str, str] | None = None, **spec: Any) -> Object:
    asked = {"cpu": cpu, **(resources or {})}
    container = {
        "name": "main",
        "image": "pause",
        "resources": {"requests": asked, "limits": {k: v for k, v in asked.items() if "/" in k}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node["metadata"]["name"],
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }

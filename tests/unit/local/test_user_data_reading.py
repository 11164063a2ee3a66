"""User data that a node boots with, and user data that it never joins with."""

import base64
import gzip
from typing import Any

import pytest
import yaml

from joiner_local.node_agent.node_config import read_node_config
from joiner_local.node_agent.node_registration import Unbootable

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
CLUSTER = {
    "name": "demo",
    "apiServerEndpoint": "https://127.0.0.1:6443",
    "certificateAuthority": base64.b64encode(CERTIFICATE).decode(),
    "cidr": "10.100.0.0/16",
}


def document(cluster: dict[str, Any] | None = None, **spec: Any) -> bytes:
    spec["cluster"] = CLUSTER if cluster is None else cluster
    return yaml.safe_dump({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}).encode()


def multipart(*parts: tuple[str, bytes], boundary: str = "//") -> bytes:
    text = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{boundary}"\n\n'.encode()
    for kind, content in parts:
        text += f"--{boundary}\nContent-Type: {kind}\n\n".encode() + content + b"\n"
    return text + f"--{boundary}--\n".encode()


NODE_CONFIG = "application/node.eks.aws"


def test_a_bare_node_config_is_read() -> None:
    taints = [{"key": "joiner.dev/filling", "effect": "NoSchedule"}]
    config = read_node_config(
        document(
            kubelet={
                "config": {"maxPods": 20, "registerWithTaints": taints},
                "flags": ['--node-labels="team=a,karpenter.sh/nodepool=x"'],
            }
        )
    )

    assert (config.cluster, config.endpoint, config.cidr) == ("demo", "https://127.0.0.1:6443", "10.100.0.0/16")
    assert config.certificate_authority == CERTIFICATE
    assert config.registration.labels == {"team": "a", "karpenter.sh/nodepool": "x"}
    assert config.registration.taints == ({"key": "joiner.dev/filling", "effect": "NoSchedule"},)
    assert config.kubelet["maxPods"] == 20


def test_the_node_config_of_a_multipart_message_is_read() -> None:
    config = read_node_config(multipart(("text/x-shellscript", b"#!/bin/bash\necho hi"), (NODE_CONFIG, document())))

    assert config.cluster == "demo"


def test_user_data_may_be_compressed() -> None:
    assert read_node_config(gzip.compress(multipart((NODE_CONFIG, document())))).cluster == "demo"


def test_later_parts_win_field_by_field() -> None:
    first = document(kubelet={"config": {"maxPods": 10, "kubeReserved": {"cpu": "1"}}, "flags": ["--node-labels=a=1"]})
    second = document(
        {},
        kubelet={"config": {"maxPods": 20}, "flags": ["--node-labels=b=2"]},
        instance={"localStorage": {"strategy": "RAID0"}},
    )

    config = read_node_config(multipart((NODE_CONFIG, first), (NODE_CONFIG, second)))

    assert config.kubelet == {"maxPods": 20, "kubeReserved": {"cpu": "1"}}
    assert (config.registration.labels, config.local_storage) == ({"b": "2"}, "RAID0")


@pytest.mark.parametrize(
    ("user_data", "why"),
    [
        (b"", "holds no NodeConfig"),
        (b"#!/bin/bash\n/etc/eks/bootstrap.sh demo", "holds no NodeConfig"),
        (multipart(("text/x-shellscript", b"#!/bin/bash")), "holds no NodeConfig"),
        (b"spec: [", "is no YAML"),
        (b"- a\n- b", "is not a mapping"),
        (b"apiVersion: v1\nkind: Pod", "a v1 Pod, not a node.eks.aws/v1alpha1 NodeConfig"),
        (document({**CLUSTER, "name": ""}), "spec.cluster.name is missing"),
        (document({**CLUSTER, "apiServerEndpoint": None}), "spec.cluster.apiServerEndpoint is missing"),
        (document({**CLUSTER, "certificateAuthority": "???"}), "not base64"),
        (document({**CLUSTER, "certificateAuthority": "aGVsbG8="}), "holds no certificate"),
        (document({key: value for key, value in CLUSTER.items() if key != "cidr"}), "spec.cluster.cidr is missing"),
        (document({**CLUSTER, "cidr": "10.100.0.0/99"}), "spec.cluster.cidr"),
        (document(kubelet={"flags": ["--node-labels=team a=b"]}), "is no label"),
        (document(kubelet={"flags": ["--node-labels=team"]}), "is no label"),
        (document(kubelet={"flags": ["--node-labels=k8s.io/team=a"]}), "unknown 'kubernetes.io' or 'k8s.io' labels"),
        (document(kubelet={"flags": ['--node-labels="team=a']}), "quoted wrongly"),
        (document(kubelet={"flags": ["node-labels=team=a"]}), "is no kubelet flag"),
        (document(kubelet={"flags": "--node-labels=a=b"}), "not a list of strings"),
        (document(kubelet={"labels": {}}), "is no field of a NodeConfig"),
        (document(kubelet={"config": {"registerWithTaints": [{"key": "a", "effect": "Never"}]}}), "is no taint"),
        (document(kubelet={"config": {"registerWithTaints": ["a=b:NoSchedule"]}}), "not a list of taints"),
        (document(kubelet={"config": {"kubeReserved": {"cpu": 1}}}), "kubeReserved.cpu: it is no text"),
        (document(instance={"localStorage": {"strategy": "RAID5"}}), "RAID5 is not known"),
    ],
)
def test_a_node_with_such_user_data_never_joins(user_data: bytes, why: str) -> None:
    with pytest.raises(Unbootable, match=why):
        read_node_config(user_data)


def test_labels_of_nodes_own_domains_may_be_registered() -> None:
    config = read_node_config(
        document(kubelet={"flags": ["--node-labels=node.kubernetes.io/role=a,topology.kubernetes.io/zone=us-east-1a"]})
    )

    assert config.registration.labels == {"node.kubernetes.io/role": "a", "topology.kubernetes.io/zone": "us-east-1a"}


def test_taints_may_come_by_flag_too() -> None:
    config = read_node_config(document(kubelet={"flags": ["--register-with-taints=a=b:NoSchedule,c:NoExecute"]}))

    assert config.registration.taints == (
        {"key": "a", "effect": "NoSchedule", "value": "b"},
        {"key": "c", "effect": "NoExecute"},
    )

"""User data: the configuration that a node reads at its first start to join the cluster.

It is for nodeadm of AL2023 and for custom images. The text consists of MIME parts. The user's parts are first and
Joiner's part is last, because in nodeadm later parts take precedence. Joiner's part is a NodeConfig in JSON, which is
valid YAML with every value quoted. Every value from a manifest is checked against its grammar: an author of a NodePool
must not get access to the shell of a node. User data contains no secret, because every principal with
ec2:DescribeInstanceAttribute can read it. Sources: nodeadm's API reference (node.eks.aws/v1alpha1); Kubernetes,
NodeRestriction; Karpenter, spec.userData.
"""

import email
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Protocol

from joiner import names
from joiner.cluster import Taint
from joiner.pools import NodeClaim, NodeClass, NodePool
from joiner.pools.label_rules import NAME, OF_KUBERNETES, PREFIX, VALUE, in_domain
from joiner.pools.node_class import ImageFamily

LIMIT_BYTES = 16_384  # limit of EC2, before base64
DO_NOT_SYNC_TAINTS = (
    "karpenter.sh/do-not-sync-taints"  # the kubelet has already set all taints; registration must not set them twice
)
REGISTRATION_TAINTS = (Taint(names.UNREGISTERED, "NoExecute"), Taint(names.FILLING, "NoSchedule"))
COUNTED_BY_EVERY_KUBELET = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
CLUSTER_NAME = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}")
ENDPOINT = re.compile(r"https://[A-Za-z0-9.:\[\]-]+(:[0-9]+)?/?")
BASE64 = re.compile(r"[A-Za-z0-9+/\r\n]+=*[\r\n]*")
CIDR = re.compile(r"[0-9A-Fa-f.:]+/[0-9]{1,3}")


class ClusterDescription(Protocol):
    """The facts of the cluster that a node needs (``eks:DescribeCluster``). The CA is in base64, as EKS returns it."""

    @property
    def name(self) -> str: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def certificate_authority(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def service_cidr(self) -> str: ...


class UserDataRefused(ValueError):
    """No node can start with this user data.

    ``reason`` is for programs. The message is for users and has the remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class MimePart:
    """One MIME part: its body as written, and its other headers, such as the encoding."""

    content_type: str
    text: str
    headers: tuple[tuple[str, str], ...] = ()


def build_user_data(
    cluster: ClusterDescription, claim: NodeClaim, pool: NodePool, node_class: NodeClass, family: ImageFamily
) -> str:
    """Return the user data for the node of a claim, as text; raises UserDataRefused.

    All claims of one pool and class get the same text, so that few launch templates are needed. Only claims that
    request devices get a different one.
    """
    if family == "AL2023":
        taints = (*claim.taints, *claim.startup_taints, *choose_registration_taints(claim, pool))
        config = build_node_config(
            cluster, select_node_labels(claim, pool), taints, choose_kubelet_config(pool, node_class), node_class
        )
        text = write_multipart(
            [
                *read_user_parts(node_class.user_data or ""),
                MimePart("application/node.eks.aws", json.dumps(config, indent=2)),
            ]
        )
    elif family == "Custom":
        text = node_class.user_data or ""
    else:
        raise UserDataRefused("FamilyNotSupported", f"amiFamily {family} is not supported yet: use AL2023 or Custom")
    size = len(text.encode())
    if size > LIMIT_BYTES:
        raise UserDataRefused(
            "UserDataSizeLimitExceeded",
            f"user data has {size} bytes and EC2 takes {LIMIT_BYTES}: shorten spec.userData",
        )
    return text


def choose_registration_taints(claim: NodeClaim, pool: NodePool) -> tuple[Taint, ...]:
    """Return the taints that keep pods away until the node is registered and the pods planned for it are bound.

    The second taint is omitted for a pool whose annotation ``joiner.dev/placing`` is ``schedule``. It is also omitted
    for a node that waits for its own daemons: a daemon set that does not tolerate it could not install its device
    plugin, or the agent that removes a start-up taint.
    """
    said = pool.own_annotations.get(names.PLACING) or pool.annotations.get(names.PLACING)
    devices = any(amount > 0 for name, amount in claim.requests.items() if name not in COUNTED_BY_EVERY_KUBELET)
    return REGISTRATION_TAINTS[:1] if said == "schedule" or devices or claim.startup_taints else REGISTRATION_TAINTS


def select_node_labels(claim: NodeClaim, pool: NodePool) -> dict[str, str]:
    """Return the labels that the kubelet sets on its own node.

    Without labels that NodeRestriction forbids (registration sets them) and labels that only the launched instance
    decides.
    """
    ours = (names.NODEPOOL, names.PROVISIONER, names.NODECLASS)
    said = {key: value for key, value in claim.labels.items() if key in pool.labels or key in ours}
    return {key: value for key, value in said.items() if not in_domain(key, OF_KUBERNETES)} | {
        DO_NOT_SYNC_TAINTS: "true"
    }


def choose_kubelet_config(pool: NodePool, node_class: NodeClass) -> dict[str, Any]:
    """Return the kubelet settings of the pool (a Provisioner's kubeletConfiguration), or else those of the class."""
    said = pool.kubelet or node_class.kubelet
    return dict(sorted(said.config.items())) if said else {}


def build_node_config(
    cluster: ClusterDescription,
    labels: Mapping[str, str],
    taints: Iterable[Taint],
    kubelet: Mapping[str, Any],
    node_class: NodeClass,
) -> dict[str, Any]:
    """Return the NodeConfig for nodeadm; every value is checked."""
    spec: dict[str, Any] = {
        "cluster": {
            "name": check_grammar("the cluster's name", cluster.name, CLUSTER_NAME),
            "apiServerEndpoint": check_grammar("the cluster's endpoint", cluster.endpoint, ENDPOINT),
            "certificateAuthority": check_grammar(
                "the cluster's certificate authority", cluster.certificate_authority, BASE64
            ),
            "cidr": check_grammar("the cluster's service CIDR", cluster.service_cidr, CIDR),
        },
        "kubelet": {
            "config": {**kubelet, "registerWithTaints": [_taint(taint) for taint in taints]},
            "flags": [f"--node-labels={','.join(_labels(labels))}"],
        },
    }
    if node_class.instance_store_policy == "RAID0":
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def check_grammar(what: str, value: str, grammar: re.Pattern[str]) -> str:
    """Return the value if it matches its grammar; raise UserDataRefused if not.

    >>> check_grammar("the cluster's name", "a; reboot", CLUSTER_NAME)
    Traceback (most recent call last):
    joiner.launching.user_data.UserDataRefused: 'a; reboot' cannot be the cluster's name
    """
    if not grammar.fullmatch(value):
        raise UserDataRefused("InvalidUserData", f"{value[:80]!r} cannot be {what}")
    return value


def _key(what: str, key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash:
        check_grammar(f"the prefix of {what}", prefix, PREFIX)
    check_grammar(what, name, NAME)
    return key


def _labels(labels: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(labels):
        yield f"{_key('a label', key)}={check_grammar(f'the value of label {key}', labels[key], VALUE)}"


def _taint(taint: Taint) -> dict[str, str]:
    _key("a taint", taint.key)
    check_grammar(f"the value of taint {taint.key}", taint.value, VALUE)
    return taint.to_kube()


def read_user_parts(text: str) -> list[MimePart]:
    """Return the user's parts: MIME unchanged, a NodeConfig as one part, any other text as a shell script.

    >>> [part.content_type for part in read_user_parts("apiVersion: node.eks.aws/v1alpha1")]
    ['application/node.eks.aws']
    >>> [part.content_type for part in read_user_parts("#!/bin/sh")]
    ['text/x-shellscript']
    """
    if not text.strip():
        return []
    if re.match(r"(mime-version|content-type):", text.lstrip(), re.IGNORECASE):
        message = email.message_from_string(text.lstrip())
        return [_as_it_is(part) for part in message.walk() if not part.is_multipart()]
    if re.search(r"^\s*[\"']?apiVersion[\"']?\s*:\s*[\"']?node\.eks\.aws/", text, re.MULTILINE):
        return [MimePart("application/node.eks.aws", text)]
    return [MimePart("text/x-shellscript", text)]


def _as_it_is(part: Message) -> MimePart:
    """Return a part with its headers. Without the encoding and the character set, its body could not be read."""
    kept = tuple(
        (name, str(value)) for name, value in part.items() if name.lower() not in ("content-type", "mime-version")
    )
    return MimePart(str(part.get("Content-Type", part.get_content_type())), str(part.get_payload()), kept)


def write_multipart(parts: Iterable[MimePart]) -> str:
    """Return the parts as one MIME document.

    Equal parts give an equal document, because the boundary is a counter, not random.
    """
    listed = list(parts)
    number, boundary = 0, "//"
    while any(f"--{boundary}" in part.text for part in listed):
        number, boundary = number + 1, f"//{number + 1}"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in listed:
        headers = [f"{name}: {value}" for name, value in (("Content-Type", part.content_type), *part.headers)]
        lines += [f"--{boundary}", *headers, "", part.text.rstrip("\n"), ""]
    return "\n".join([*lines, f"--{boundary}--", ""])

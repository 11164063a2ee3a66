"""Custom images: the user data is sent unchanged, and its author is responsible for labels and taints."""

import re
from collections.abc import Iterator
from typing import Final

from joiner import names
from joiner.launching.image_families.image_family import warn
from joiner.launching.image_families.image_variants import ImageParameter
from joiner.launching.image_families.mime_parts import read_user_parts
from joiner.launching.image_families.node_settings import NodeSettings, UserDataRefused
from joiner.pools import BlockDevice, NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily

JOINS: Final = re.compile(r"bootstrap|nodeadm|node\.eks\.aws|kubelet|kubeadm|settings\.kubernetes", re.IGNORECASE)
"""What user data that joins a cluster names: the bootstrap script of EKS for Linux or Windows, nodeadm or its document,
the kubelet, or settings of Bottlerocket."""


class CustomImages:
    """See ``FamilyOfImages``."""

    name: ImageFamily = "Custom"
    kubernetes_versions = ""
    devices: tuple[BlockDevice, ...] = ()

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:  # noqa: ARG002 - the interface
        """Return nothing: the class names its images."""
        return ()

    def explain_missing_images(self, version: str) -> str:  # noqa: ARG002 - the interface
        """Return nothing: the family has no images of its own."""
        return ""

    def find_problems(self, node_class: NodeClass) -> Iterator[NodeClassProblem]:
        """Yield warnings about user data with which nodes may not join."""
        if not node_class.user_data:
            message = "it is not set: nodes of the family Custom join only if the image itself makes them"
            yield warn(node_class, "userData", "UserDataMissing", message)
        else:
            yield from _find_script_problems(node_class, _read_text(node_class.user_data))
        declared = (
            "nodes of the family Custom do not get it from here, and plans count it as what userData sets on them: "
            "write the same there"
        )
        if node_class.kubelet is not None:
            yield warn(node_class, "kubelet", "DeclaredOnly", declared)
        if node_class.instance_store_policy:
            yield warn(node_class, "instanceStorePolicy", "DeclaredOnly", declared)

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return the user data of the class as it is."""
        return settings.own


def _find_script_problems(node_class: NodeClass, text: str) -> Iterator[NodeClassProblem]:
    if not JOINS.search(text):
        message = (
            "it names nothing that joins a node to the cluster (EKS's bootstrap script, nodeadm, the kubelet, or "
            "settings of Bottlerocket): nodes of the family Custom join only if the image itself makes them"
        )
        yield warn(node_class, "userData", "UserDataJoinsNoCluster", message)
    if names.UNREGISTERED not in text:
        message = (
            f"it does not name the taint {names.UNREGISTERED}:NoExecute: let the kubelet register with it (and "
            f"with the taints of the pool), or pods may start on the node before it is registered"
        )
        yield warn(node_class, "userData", "RegistrationTaintMissing", message)


def _read_text(user_data: str) -> str:
    """Return the user data with the decoded texts of its MIME parts; as it is written if it is malformed, or of a form
    that other programs than cloud-init read."""
    try:
        return "\n".join((user_data, *(part.decode() for part in read_user_parts(user_data))))
    except UserDataRefused:
        return user_data

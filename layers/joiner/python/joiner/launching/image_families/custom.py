"""Custom images: the user data is sent unchanged, and its author is responsible for labels and taints."""

from collections.abc import Iterator

from joiner import names
from joiner.launching.image_families.image_family import warn
from joiner.launching.image_families.image_variants import ImageParameter
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.pools import BlockDevice, NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily


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
        elif names.UNREGISTERED not in node_class.user_data:
            message = (
                f"it does not name the taint {names.UNREGISTERED}:NoExecute: let the kubelet register with it (and "
                f"with the taints of the pool), or pods may start on the node before it is registered"
            )
            yield warn(node_class, "userData", "RegistrationTaintMissing", message)
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

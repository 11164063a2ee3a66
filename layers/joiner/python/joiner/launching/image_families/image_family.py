"""The interface of an image family: where its images are, what its nodes read, and what it cannot do."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from joiner.launching.image_families.image_variants import ImageParameter
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.pools import BlockDevice, NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily, field_path

GP3_VOLUME = "gp3"


class FamilyOfImages(Protocol):
    """One family. ``devices`` are the volumes of a node whose class names none; empty: the image decides."""

    @property
    def name(self) -> ImageFamily:
        """Return the value of `amiFamily`."""

    @property
    def devices(self) -> tuple[BlockDevice, ...]:
        """Return the volumes of a node whose class names none."""

    @property
    def kubernetes_versions(self) -> str:
        """Return for which versions of Kubernetes AWS has images, such as ``up to 1.32``; empty: for all."""

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:
        """Return the parameters of AWS with the images of a release (``latest``: the newest) for a Kubernetes version.

        Empty if AWS names none: then a class selects its images itself.
        """

    def explain_missing_images(self, version: str) -> str:
        """Return why AWS has no images for this Kubernetes version, with the remedy; empty if it has or may have.

        ``version`` is empty if the cluster is unknown.
        """

    def find_problems(self, node_class: NodeClass) -> Iterable[NodeClassProblem]:
        """Yield what a class of this family cannot have."""

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return the user data as text; raises UserDataRefused."""


def encrypted_volume(device: str, gib: int) -> BlockDevice:
    """Return a default volume of a family."""
    return BlockDevice(device, gib, GP3_VOLUME, encrypted=True)


def warn(node_class: NodeClass, field: str, reason: str, message: str) -> NodeClassProblem:
    """Return a warning about a field of the class."""
    return NodeClassProblem("ValidationSucceeded", reason, f"{field_path(node_class, field)}: {message}", "warning")


def refuse(node_class: NodeClass, field: str, reason: str, message: str) -> NodeClassProblem:
    """Return the error of a field with which no node can start."""
    return NodeClassProblem("ValidationSucceeded", reason, f"{field_path(node_class, field)}: {message}")


def find_unused_addresses(node_class: NodeClass) -> Iterator[NodeClassProblem]:
    """Yield a warning for DNS servers after the first, for a family whose bootstrap script takes one address."""
    kubelet = node_class.kubelet
    if kubelet and len(kubelet.config.get("clusterDNS") or ()) > 1:
        message = "the bootstrap script of these images takes one address: nodes have only the first one"
        yield warn(node_class, "kubelet.clusterDNS", "WithoutEffect", message)

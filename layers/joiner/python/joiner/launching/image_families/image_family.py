"""The interface of an image family: where its images are, what its nodes read, and what it cannot do."""

from collections.abc import Iterable
from typing import Final, Protocol

from joiner.launching.image_families.image_variants import ImageParameter
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.pools import BlockDevice, NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily

GP3_VOLUME = "gp3"
BESIDE_TEMPLATE: Final = ("context", "launchTemplate", "subnetSelector", "tags")
"""The fields of a class that a launch template does not decide."""


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


def field_path(node_class: NodeClass, name: str) -> str:
    """Return the path of a field in the manifest of the class.

    >>> [field_path(NodeClass("default", kind), "subnetSelector") for kind in ("Inline", "EC2NodeClass")]
    ['spec.provider.subnetSelector', 'spec.subnetSelectorTerms']

    A field that a launch template decides is one of the template:

    >>> field_path(NodeClass("default", "AWSNodeTemplate", launch_template="mine"), "userData")
    'spec.launchTemplate (its userData)'
    """
    if node_class.launch_template and name not in BESIDE_TEMPLATE:
        return f"{field_path(node_class, 'launchTemplate')} (its {name})"
    terms = "Terms" if node_class.kind == "EC2NodeClass" and name.endswith("Selector") else ""
    return f"spec.{'provider.' if node_class.kind == 'Inline' else ''}{name}{terms}"


def warn(node_class: NodeClass, field: str, reason: str, message: str) -> NodeClassProblem:
    """Return a warning about a field of the class."""
    return NodeClassProblem("ValidationSucceeded", reason, f"{field_path(node_class, field)}: {message}", "warning")


def refuse(node_class: NodeClass, field: str, reason: str, message: str) -> NodeClassProblem:
    """Return the error of a field with which no node can start."""
    return NodeClassProblem("ValidationSucceeded", reason, f"{field_path(node_class, field)}: {message}")

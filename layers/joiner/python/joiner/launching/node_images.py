"""The image of a node: the parameters with AWS's EKS images, and the order in which images are tried.

Sources: Amazon EKS user guide, "Retrieve recommended Amazon Linux AMI IDs"; Karpenter, spec.amiSelectorTerms (alias).
"""

from collections.abc import Iterable

from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.image_variants import LATEST, ImageParameter
from joiner.pools import Image, NodeClass
from joiner.pools.node_class import ImageFamily

PUBLIC_PARAMETERS = "/aws/service/"
"""The parameters that the role of the resolver may read; those of an account may contain secrets."""


def choose_family(node_class: NodeClass) -> ImageFamily:
    """Return the image family of a class; AL2023 by default.

    Old Karpenter used AL2, which ends with Kubernetes 1.32.
    """
    return node_class.ami_family or "AL2023"


def find_alias(node_class: NodeClass) -> str:
    """Return the alias by which a class names its images; empty if it has none."""
    return next((term.alias for term in node_class.image_terms if term.alias), "")


def choose_image_family(node_class: NodeClass) -> ImageFamily | None:
    """Return the family whose images AWS names for a class; None if the class selects its images itself.

    A class of the family Custom may name the images of another family by an alias.

    >>> from joiner.pools import ImageTerm
    >>> choose_image_family(NodeClass("x", ami_family="Custom", image_terms=(ImageTerm(alias="al2@latest"),)))
    'AL2'
    """
    alias = find_alias(node_class).partition("@")[0]
    if alias:
        return next((family for family in IMAGE_FAMILIES if family.lower() == alias), None)
    return None if node_class.image_terms else choose_family(node_class)


def explain_assumed_images(node_class: NodeClass) -> str:
    """Return what a plan without the version of the cluster assumes about the images of a class; empty if nothing.

    >>> from joiner.pools import ImageTerm
    >>> explain_assumed_images(NodeClass("x", ami_family="AL2", image_terms=(ImageTerm(alias="al2@latest"),)))
    'AWS has images of AL2 for Kubernetes up to 1.32: this plan assumes that the cluster has such a version'

    Nothing is assumed of a release of a family of which AWS names none, because such an alias is refused:

    >>> explain_assumed_images(NodeClass("x", image_terms=(ImageTerm(alias="windows2025@v1.0.0"),)))
    ''
    """
    family = choose_image_family(node_class)
    if family not in IMAGE_FAMILIES or family is None:
        return ""
    release = find_alias(node_class).partition("@")[2]
    if release not in ("", LATEST) and not IMAGE_FAMILIES[family].list_parameters("", release):
        return ""
    assumed = []
    if versions := IMAGE_FAMILIES[family].kubernetes_versions:
        assumed.append(
            f"AWS has images of {family} for Kubernetes {versions}: this plan assumes that the cluster has such a "
            f"version"
        )
    if release not in ("", LATEST):
        assumed.append(f"the release {release} is not looked up: this plan assumes that AWS has it for the cluster")
    return "; ".join(assumed)


def is_public_parameter(parameter: str) -> bool:
    """Return whether the resolver may read an SSM parameter by its name.

    >>> is_public_parameter("/aws/service/bottlerocket/aws-k8s-1.36/x86_64/latest/image_id"), is_public_parameter("/my")
    (True, False)
    """
    return parameter.startswith(PUBLIC_PARAMETERS)


def list_image_parameters(node_class: NodeClass, kubernetes_version: str) -> tuple[ImageParameter, ...]:
    """Return the parameters with the images of a class that names only a family or an alias.

    The result is empty if the class selects images itself.

    >>> list_image_parameters(NodeClass("default"), "1.36")[0].name
    '/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id'
    """
    family = choose_image_family(node_class)
    if family is None or family not in IMAGE_FAMILIES:
        return ()
    release = find_alias(node_class).partition("@")[2] or LATEST
    return IMAGE_FAMILIES[family].list_parameters(kubernetes_version, release)


def sort_newest_first(images: Iterable[Image]) -> tuple[Image, ...]:
    """Return the images in the order in which they are tried.

    >>> old, new = Image("a", "amd64", created="2026-10"), Image("b", "amd64", created="2026-11", deprecated=True)
    >>> [image.id for image in sort_newest_first([new, old])]
    ['a', 'b']
    """
    by_age = sorted(images, key=lambda image: (image.created, image.id), reverse=True)
    return tuple(sorted(by_age, key=lambda image: image.deprecated))

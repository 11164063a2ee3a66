"""Amazon Linux 2 and Ubuntu: a shell script calls ``/etc/eks/bootstrap.sh`` of the image, in the last MIME part.

The user's parts run before it. Sources: amazon-eks-ami, ``bootstrap.sh`` of Amazon Linux 2 (its arguments); Karpenter,
"NodeClasses" (spec.userData).
"""

import ipaddress
import shlex
from collections.abc import Iterable, Iterator

from joiner.launching.image_families.image_family import encrypted_volume, find_unused_addresses, refuse
from joiner.launching.image_families.image_variants import LATEST, ImageParameter, parse_release
from joiner.launching.image_families.kubelet_flags import write_kubelet_flags, write_registration_flags
from joiner.launching.image_families.mime_parts import (
    NODE_CONFIG,
    SHELL_SCRIPT,
    MimePart,
    read_user_parts,
    write_multipart,
)
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.launching.image_families.script_parts import find_part_problems, read_readable_parts
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily

NEWEST_FOR_AL2 = (1, 32)
AL2_IMAGES: tuple[tuple[str, str, str, str], ...] = (
    ("amd64", "standard", "amazon-linux-2", "amazon-eks-node"),
    ("arm64", "standard", "amazon-linux-2-arm64", "amazon-eks-arm64-node"),
    ("amd64", "nvidia", "amazon-linux-2-gpu", "amazon-eks-gpu-node"),
    ("amd64", "neuron", "amazon-linux-2-gpu", "amazon-eks-gpu-node"),
)
"""Architecture, variant, folder of the parameters, and the beginning of a release's name."""


class AmazonLinux2:
    """See ``FamilyOfImages``."""

    name: ImageFamily = "AL2"
    kubernetes_versions = f"up to {'.'.join(map(str, NEWEST_FOR_AL2))}"
    devices = (encrypted_volume("/dev/xvda", 20),)

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:
        """Return the SSM parameters of the family's images."""
        return tuple(
            ImageParameter.of(
                f"/aws/service/eks/optimized-ami/{version}/{folder}/"
                f"{'recommended' if release == LATEST else f'{prefix}-{version}-{release}'}/image_id",
                arch,
                variant,
            )
            for arch, variant, folder, prefix in AL2_IMAGES
        )

    def explain_missing_images(self, version: str) -> str:
        """Return the reason from Kubernetes 1.33 on, for which AWS publishes no AL2 images."""
        if parse_release(version) <= NEWEST_FOR_AL2:
            return ""
        return f"AWS has no AL2 images from Kubernetes 1.33 on, and the cluster has {version}: use the family AL2023"

    def find_problems(self, node_class: NodeClass) -> Iterable[NodeClassProblem]:
        """Return the fields that the bootstrap script cannot apply."""
        return find_script_problems(node_class)

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return a script that calls `/etc/eks/bootstrap.sh`."""
        return write_bootstrap_script(settings)


class Ubuntu:
    """See ``FamilyOfImages``. Old Karpenter had this family; its classes select their images themselves."""

    name: ImageFamily = "Ubuntu"
    kubernetes_versions = ""
    devices = (encrypted_volume("/dev/sda1", 20),)

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:  # noqa: ARG002 - the interface
        """Return nothing: the class names its images."""
        return ()

    def explain_missing_images(self, version: str) -> str:  # noqa: ARG002 - the interface
        """Return nothing: the family has no images of its own."""
        return ""

    def find_problems(self, node_class: NodeClass) -> Iterable[NodeClassProblem]:
        """Return the fields that the bootstrap script cannot apply."""
        return find_script_problems(node_class)

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return a script that calls `/etc/eks/bootstrap.sh`."""
        return write_bootstrap_script(settings)


def find_script_problems(node_class: NodeClass) -> Iterator[NodeClassProblem]:
    """Yield unreadable user data, and user data for nodeadm: these images have no nodeadm."""
    yield from find_unused_addresses(node_class)
    problems = [*find_part_problems(node_class)]
    yield from problems
    if any(problem.severity == "error" for problem in problems):
        return
    if any(part.media_type == NODE_CONFIG for part, _ in read_readable_parts(node_class)):
        message = (
            "it has a NodeConfig, which only images of the family AL2023 read: write a shell script, or use amiFamily "
            "AL2023"
        )
        yield refuse(node_class, "userData", "InvalidUserData", message)


def write_bootstrap_script(settings: NodeSettings) -> str:
    """Return the user's parts, and the script that starts the kubelet; every value is checked."""
    arguments = " \\\n  ".join(f"{flag} {shlex.quote(value)}" for flag, value in _arguments(settings))
    script = (
        "#!/bin/bash -xe\n"
        "exec > >(tee /var/log/user-data.log | logger -t user-data -s 2>/dev/console) 2>&1\n"
        f"/etc/eks/bootstrap.sh {shlex.quote(settings.cluster_name)} \\\n  {arguments}\n"
    )
    return write_multipart([*read_user_parts(settings.own), MimePart(f'{SHELL_SCRIPT}; charset="us-ascii"', script)])


def _arguments(settings: NodeSettings) -> Iterator[tuple[str, str]]:
    yield "--apiserver-endpoint", settings.endpoint
    yield "--b64-cluster-ca", "".join(settings.certificate_authority.split())
    if ipaddress.ip_network(settings.service_cidr).version == 6:
        yield "--ip-family", "ipv6"
        yield "--service-ipv6-cidr", settings.service_cidr
    yield "--dns-cluster-ip", settings.cluster_dns()[0]
    if settings.kubelet.get("maxPods") is not None:
        yield "--use-max-pods", "false"
    flags = (*write_registration_flags(settings), *write_kubelet_flags(settings.kubelet))
    yield "--kubelet-extra-args", " ".join(flags)
    if settings.raid0:
        yield "--local-disks", "raid0"

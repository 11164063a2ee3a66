"""The software of an image, by the name of the image: which user data its instances read, and what the node reports.

Names are those of Amazon's images (`aws.ec2.public_images`). The instances of any other image read whichever form of
user data they get, as images do that were made from one of Amazon's.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from joiner_local.node_agent.boot_settings import BootSettings
from joiner_local.node_agent.bottlerocket_settings import read_bottlerocket_settings
from joiner_local.node_agent.eks_bootstrap_script import BOOTSTRAP, read_bootstrap_script
from joiner_local.node_agent.node_config import API_VERSION, read_node_config
from joiner_local.node_agent.node_registration import Unbootable
from joiner_local.node_agent.windows_bootstrap import read_windows_bootstrap

Reader = Callable[[bytes], BootSettings]


@dataclass(frozen=True, slots=True)
class ImageSoftware:
    """`kubelet` is the Kubernetes version of the image's kubelet, "" if the name does not show it. `data_device` is the
    volume with the files of pods; "": the root volume. `own_pods` says whether the kubelet reserves memory for the pods
    that it allows, and not for those that the network interfaces allow.
    """

    os_image: str
    read: Reader
    kubelet: str = ""
    data_device: str = ""
    own_pods: bool = False
    windows_build: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of the operating system, which the kubelet sets."""
        if not self.windows_build:
            return {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}
        return {
            "kubernetes.io/os": "windows",
            "beta.kubernetes.io/os": "windows",
            "node.kubernetes.io/windows-build": self.windows_build,
        }


VERSION: Final = r"(?P<version>1\.[0-9]+)"


def read_any(user_data: bytes) -> BootSettings:
    """Read user data in the form that it has. Raises Unbootable."""
    if API_VERSION.encode() in user_data:
        return read_node_config(user_data)
    if BOOTSTRAP.encode() in user_data:
        return read_bootstrap_script(user_data)
    if b"<powershell>" in user_data:
        return read_windows_bootstrap(user_data)
    if b"[settings" in user_data:
        return read_bottlerocket_settings(user_data)
    raise Unbootable("the user data of a custom image starts no kubelet")


FAMILIES: Final[tuple[tuple[re.Pattern[str], ImageSoftware], ...]] = (
    (
        re.compile(rf"amazon-eks-node-al2023-[a-z0-9_]+-[a-z]+-{VERSION}-v[0-9]+"),
        ImageSoftware("Amazon Linux 2023.9.20261027", read_node_config),
    ),
    (
        re.compile(rf"amazon-eks-(arm64-|gpu-)?node-{VERSION}-v[0-9]+"),
        ImageSoftware("Amazon Linux 2", read_bootstrap_script),
    ),
    (
        re.compile(rf"bottlerocket-aws-k8s-{VERSION}(-nvidia|-fips)*-[a-z0-9_]+-v.+"),
        ImageSoftware("Bottlerocket OS", read_bottlerocket_settings, data_device="/dev/xvdb", own_pods=True),
    ),
    *(
        (
            re.compile(rf"Windows_Server-{year}-English-Core-EKS_Optimized-{VERSION}-[0-9.]+"),
            ImageSoftware(
                f"Windows Server {year} Datacenter", read_windows_bootstrap, own_pods=True, windows_build=build
            ),
        )
        for year, build in (("2019", "10.0.17763"), ("2022", "10.0.20348"), ("2025", "10.0.26100"))
    ),
    (
        re.compile(rf"ubuntu-eks/k8s_{VERSION}/.+"),
        ImageSoftware("Ubuntu 22.04.5 LTS", read_bootstrap_script),
    ),
)


def software_of(image: str) -> ImageSoftware:
    """Return the software of an image with this name.

    >>> software_of("amazon-eks-node-al2023-arm64-standard-1.36-v20261104").kubelet
    '1.36'
    >>> software_of("bottlerocket-aws-k8s-1.36-nvidia-x86_64-v1.50.0-f2c1d5a8").data_device
    '/dev/xvdb'
    """
    for pattern, known in FAMILIES:
        if match := pattern.fullmatch(image):
            return replace(known, kubelet=match["version"])
    return ImageSoftware(image or "unknown", read_any)

"""Amazon's EKS-optimized images that this account can see, two releases each, as DescribeImages shows them.

Names, owners and root devices are those of Amazon. Ids are digests of the names, so they are the same in every run.
Each release of a family exists for each Kubernetes version that it is built for: Amazon Linux 2 up to 1.32, the others
up to 1.36.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from moto.ec2.models.amis import Ami, AmiBackend

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.eks.eks_clusters import VERSIONS

EKS_ACCOUNT: Final = "602401143452"
BOTTLEROCKET_ACCOUNT: Final = "092701018921"
DAYS: Final = (
    datetime(2026, 10, 7, 18, 22, 5, tzinfo=UTC),
    datetime(2026, 11, 4, 17, 41, 39, tzinfo=UTC),
)  # oldest first
BOTTLEROCKET_RELEASES: Final = ("1.49.0-dd3f5f03", "1.50.0-f2c1d5a8")
WINDOWS_ACCOUNT: Final = "801119661308"
WINDOWS_YEARS: Final = (("2019", (1, 0)), ("2022", (1, 0)), ("2025", (1, 35)))  # year and first Kubernetes version
NEWEST_FOR_AL2: Final = (1, 32)
AL2_VARIANTS: Final = (
    ("", "x86_64", "amazon-eks-node"),
    ("-arm64", "arm64", "amazon-eks-arm64-node"),
    ("-gpu", "x86_64", "amazon-eks-gpu-node"),
)
AL2023_VARIANTS: Final = (
    ("x86_64", "standard"),
    ("x86_64", "nvidia"),
    ("x86_64", "neuron"),
    ("arm64", "standard"),
    ("arm64", "nvidia"),
)


@dataclass(frozen=True, slots=True)
class EksImage:
    """`parameters` is the folder of its SSM parameters, `release` the entry beside `recommended` (or `latest`)."""

    name: str
    architecture: str
    created: datetime
    owner: str
    description: str
    parameters: str
    release: str
    newest: bool
    devices: tuple[tuple[str, int], ...] = (("/dev/xvda", 20),)  # name and GiB; the first is the root

    @property
    def id(self) -> str:
        return f"ami-{hashlib.sha256(self.name.encode()).hexdigest()[:17]}"


def images() -> Iterator[EksImage]:
    for version in VERSIONS:
        for created in DAYS:
            yield from _al2023(version, created)
            if tuple(map(int, version.split("."))) <= NEWEST_FOR_AL2:
                yield from _al2(version, created)
        yield from _bottlerocket(version)
        yield from _windows(version)


def _al2023(version: str, created: datetime) -> Iterator[EksImage]:
    for architecture, variant in AL2023_VARIANTS:
        name = f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{created:%Y%m%d}"
        yield EksImage(
            name=name,
            architecture=architecture,
            created=created,
            owner=EKS_ACCOUNT,
            description=f"EKS-optimized Kubernetes node based on Amazon Linux 2023, (k8s: {version})",
            parameters=f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}",
            release=name,
            newest=created == DAYS[-1],
        )


def _al2(version: str, created: datetime) -> Iterator[EksImage]:
    for suffix, architecture, prefix in AL2_VARIANTS:
        name = f"{prefix}-{version}-v{created:%Y%m%d}"
        yield EksImage(
            name=name,
            architecture=architecture,
            created=created,
            owner=EKS_ACCOUNT,
            description=f"EKS Kubernetes Worker AMI with AmazonLinux2 image, (k8s: {version})",
            parameters=f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2{suffix}",
            release=name,
            newest=created == DAYS[-1],
        )


def _bottlerocket(version: str) -> Iterator[EksImage]:
    for created, release in zip(DAYS, BOTTLEROCKET_RELEASES, strict=True):
        for variant in (f"aws-k8s-{version}", f"aws-k8s-{version}-nvidia"):
            for architecture, image_architecture in (("x86_64", "x86_64"), ("arm64", "arm64")):
                name = f"bottlerocket-{variant}-{architecture}-v{release}"
                yield EksImage(
                    name=name,
                    architecture=image_architecture,
                    created=created,
                    owner=BOTTLEROCKET_ACCOUNT,
                    description=f"Bottlerocket {release} for {variant}",
                    parameters=f"/aws/service/bottlerocket/{variant}/{architecture}",
                    release=release.partition("-")[0],
                    newest=created == DAYS[-1],
                    devices=(("/dev/xvda", 4), ("/dev/xvdb", 20)),
                )


def _windows(version: str) -> Iterator[EksImage]:
    for year, oldest in WINDOWS_YEARS:
        if tuple(map(int, version.split("."))) < oldest:
            continue
        folder = f"Windows_Server-{year}-English-Core-EKS_Optimized-{version}"
        for created in DAYS:
            yield EksImage(
                name=f"{folder}-{created:%Y.%m.%d}",
                architecture="x86_64",
                created=created,
                owner=WINDOWS_ACCOUNT,
                description=f"Microsoft Windows Server {year} Core optimized for EKS, (k8s: {version})",
                parameters=f"/aws/service/ami-windows-latest/{folder}",
                release="",  # only the newest has a parameter
                newest=created == DAYS[-1],
                devices=(("/dev/sda1", 50),),
            )


class PublicImage(Ami):  # type: ignore[misc] # moto has no types
    """An image of Amazon, with its block devices."""

    def __init__(self, backend: Any, image: EksImage) -> None:
        super().__init__(
            backend,
            image.id,
            name=image.name,
            description=image.description,
            owner_id=image.owner,
            owner_alias="amazon",
            public=True,
            virtualization_type="hvm",
            architecture=image.architecture,
            creation_date=image.created,
            image_location=f"amazon/{image.name}",
            hypervisor="xen",
            root_device_type="ebs",
            root_device_name=image.devices[0][0],
            region_name=f"{backend.region_name}a",
            boot_mode="uefi-preferred",
        )
        self.devices = image.devices

    @property
    def block_device_mappings(self) -> list[dict[str, Any]]:
        return [
            {
                "DeviceName": name,
                "Ebs": {
                    "SnapshotId": self.ebs_snapshot.id,
                    "VolumeSize": size,
                    "VolumeType": "gp3",
                    "DeleteOnTermination": True,
                    "Encrypted": False,
                },
            }
            for name, size in self.devices
        ]


def install() -> None:
    load = AmiBackend._load_amis

    def load_with_ours(backend: Any) -> None:
        load(backend)
        for image in images():
            backend.amis[image.id] = PublicImage(backend, image)

    wrap_attribute(AmiBackend, "_load_amis", load_with_ours, load)

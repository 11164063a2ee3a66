"""The public SSM parameters that name Amazon's recommended images; the images are in `public_images`.

Paths: EKS user guide, "Retrieve recommended Amazon Linux AMI IDs", and Bottlerocket's README, "Finding an AMI".
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from moto.ssm.models import Parameter, ParameterDict

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.ec2 import public_images
from joiner_local.aws.ec2.public_images import EksImage

FOLDERS: Final = (
    "/aws/service/eks/optimized-ami",
    "/aws/service/bottlerocket",
    "/aws/service/ami-windows-latest/Windows_Server-",
)


def parameters() -> Iterator[tuple[str, str]]:
    """Return the names and values of all of them."""
    for image in public_images.images():
        if image.parameters.startswith(FOLDERS[0]):
            yield from _eks_parameters(image)
        elif image.parameters.startswith(FOLDERS[1]):
            yield from _bottlerocket_parameters(image)
        elif image.newest:
            yield f"{image.parameters}/image_id", image.id
            yield f"{image.parameters}/release_version", image.name.rpartition("-")[2]


def _eks_parameters(image: EksImage) -> Iterator[tuple[str, str]]:
    for place in [image.release, *(["recommended"] if image.newest else [])]:
        answer = {"image_id": image.id, "image_name": image.name, "release_version": image.release.rpartition("-v")[2]}
        yield f"{image.parameters}/{place}", json.dumps({"schema_version": "2", **answer})
        for key, value in answer.items():
            yield f"{image.parameters}/{place}/{key}", value


def _bottlerocket_parameters(image: EksImage) -> Iterator[tuple[str, str]]:
    for place in [image.release, *(["latest"] if image.newest else [])]:
        yield f"{image.parameters}/{place}/image_id", image.id
        yield f"{image.parameters}/{place}/image_version", image.name.rpartition("-v")[2]


def install() -> None:
    public_images.install()
    check = ParameterDict._check_loading_status

    def check_with_ours(store: Any, key: str) -> None:
        check(store, key)
        if str(key or "").startswith(FOLDERS) and not getattr(store, "eks_images_loaded", False):
            store.eks_images_loaded = True
            for name, value in parameters():
                dict.__setitem__(store, name, [_parameter(store, name, value)])

    wrap_attribute(ParameterDict, "_check_loading_status", check_with_ours, check)


def _parameter(store: Any, name: str, value: str) -> Parameter:
    return Parameter(
        account_id=store.account_id,
        name=name,
        value=value,
        parameter_type="String",
        description=None,
        allowed_pattern=None,
        keyid=None,
        last_modified_date=public_images.DAYS[-1].timestamp(),
        version=1,
        data_type="text",
    )

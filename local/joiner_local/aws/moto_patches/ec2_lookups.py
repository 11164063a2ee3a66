"""Return moto's results without a scan of all resources for each: with a thousand instances moto's scans take minutes.

moto finds the tags of one resource by matching a pattern against all tags of all resources, one instance by a search
through all, and the image of a new instance by a filter on all images.
"""

from collections.abc import Callable
from typing import Any

from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import InstanceBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute


def get_tags(resource: Any) -> list[dict[str, str]]:
    if not resource.id:
        return []
    tags = resource.ec2_backend.tags.get(resource.id) or {}
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(resource.id), "")
    return [
        {"resource_id": resource.id, "key": key, "value": value, "resource_type": kind}
        for key, value in tags.copy().items()
    ]


def get_instance(backend: Any, instance_id: str) -> Any:
    known: dict[str, Any] = backend.__dict__.setdefault("_joiner_instances", {})
    if instance_id not in known:
        for reservation in reversed(list(backend.reservations.values())):
            known.update({instance.id: instance for instance in reservation.instances})
            if instance_id in known:
                break
        else:
            raise InvalidInstanceIdError(instance_id)
    return known[instance_id]


def _of_one_image(describe: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return a `describe_images` that finds the image of a new instance by its id; the filter of a user is a list."""

    def describe_images(backend: Any, *args: Any, **kwargs: Any) -> list[Any]:
        match args, kwargs:
            case (), {"filters": {"image-id": str() as wanted, **others}, **rest} if not others and not rest:
                found = backend.amis.get(wanted)
                return [found] if found else []
        return describe(backend, *args, **kwargs)

    return describe_images


def install() -> None:
    describe_images = AmiBackend.describe_images
    wrap_attribute(AmiBackend, "describe_images", _of_one_image(describe_images), describe_images)
    replace_attribute(TaggedEC2Resource, "get_tags", get_tags)
    replace_attribute(InstanceBackend, "get_instance", get_instance)

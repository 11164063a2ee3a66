"""Return moto's results without a scan of all resources for each: with a thousand instances moto's scans take minutes.

moto finds the tags of one resource by matching a pattern against all tags of all resources, one instance by a search
through all, the reservations of instances by a copy of all, and the image of a new instance by a filter on all images.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moto.ec2.exceptions import InvalidInstanceIdError
from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instances import InstanceBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, filter_reservations, get_prefix

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
    for reservation in _reservations_of(backend, [instance_id]):
        return next(instance for instance in reservation.instances if instance.id == instance_id)
    raise InvalidInstanceIdError(instance_id)


def _reservations_of(backend: Any, ids: Iterable[str]) -> list[Any]:
    """Return the reservations with these instances, in the order of their launch; unknown ids have none."""
    known: dict[str, str] = backend.__dict__.setdefault("_joiner_reservations", {})
    wanted = set(ids)
    missing = wanted - known.keys()
    for reservation in reversed(list(backend.reservations.values())):  # those asked for the first time are new
        if not missing:
            break
        known.update({instance.id: reservation.id for instance in reservation.instances})
        missing -= known.keys()
    found = {known[each] for each in wanted if each in known}
    if len(found) < 2:
        return [backend.reservations[each] for each in found]
    return [reservation for key, reservation in backend.reservations.copy().items() if key in found]


def _exact_ids(filters: Mapping[str, list[str]] | None) -> list[str]:
    """Return the instance ids that a filter names; none if it has patterns, or if there is no such filter."""
    ids = list((filters or {}).get("instance-id") or ())
    return [] if any("*" in each or "?" in each for each in ids) else ids


def all_reservations(backend: Any, filters: Mapping[str, list[str]] | None = None) -> list[Any]:
    """Return copies of the reservations that meet the filters, as moto's method does."""
    ids = _exact_ids(filters)
    reservations = _reservations_of(backend, ids) if ids else list(backend.reservations.copy().values())
    copies = [copy.copy(each) for each in reservations]
    return copies if filters is None else list(filter_reservations(copies, filters))


def get_multi_instances_by_id(backend: Any, ids: Iterable[str], filters: Any = None) -> list[Any]:
    """Return the instances with these ids that meet the filters; EC2's error for unknown ids."""
    wanted = list(ids)
    by_id = {each.id: each for reservation in _reservations_of(backend, wanted) for each in reservation.instances}
    if missing := [each for each in wanted if each not in by_id]:
        raise InvalidInstanceIdError(missing)
    return [by_id[each] for each in wanted if by_id[each].applies(filters)]


def _of_its_instances(get: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return a method that reads only the reservations of the instances in its first argument."""

    def narrowed(backend: Any, ids: list[str], *args: Any, **kwargs: Any) -> list[Any]:
        part = object.__new__(type(backend))  # moto keeps a list of all backends that its own constructor made
        part.__dict__.update(backend.__dict__)
        part.reservations = {each.id: each for each in _reservations_of(backend, ids)}
        return get(part, ids, *args, **kwargs)

    return narrowed


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
    replace_attribute(InstanceBackend, "all_reservations", all_reservations)
    replace_attribute(InstanceBackend, "get_multi_instances_by_id", get_multi_instances_by_id)
    by_ids = InstanceBackend.get_reservations_by_instance_ids
    wrap_attribute(InstanceBackend, "get_reservations_by_instance_ids", _of_its_instances(by_ids), by_ids)

"""Compute once what moto computes again for every request, or in every module, although it never changes.

For each request moto searches the file system for its services, about two hundred lookups under a lock, and asks Python
for all methods of the responding class. With three deployed stacks on two cores that is a tenth of all computing of the
local AWS.
"""

from functools import cache
from typing import Any

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute


def cache_service_lookups() -> None:
    """Cache the list of moto's services and the lists of their operations, for this process."""
    from moto import backends
    from moto.core import responses

    modules = frozenset(backends.list_of_moto_modules())
    replace_attribute(backends, "list_of_moto_modules", lambda: modules)
    original = responses.method_names_from_class
    wrap_attribute(responses, "method_names_from_class", cache(original), original)


def cache_service_models() -> None:
    """Cache botocore's models. Call it before moto is imported: six of its modules create a session each, and each
    session reads EC2's model of three megabytes.
    """
    from botocore import loaders

    read: dict[str, Any] = {}
    original = loaders.JSONFileLoader.load_file

    def load_file(loader: loaders.JSONFileLoader, path: str) -> Any:
        if path not in read:
            read[path] = original(loader, path)
        return read[path]

    wrap_attribute(loaders.JSONFileLoader, "load_file", load_file, original)

"""What moto works out anew for every request, or every module of it for itself, though it never changes: worked out once.

For each request moto asks the file system which folders of its own are services, some two hundred questions under a lock, and asks Python
for all methods of the class that answers. With three deployed stacks on two cores that is a tenth of all that the local AWS computes.
"""

from functools import cache
from typing import Any


def cache_service_lookups() -> None:
    """For this process, whoever serves moto in it."""
    from moto import backends
    from moto.core import responses

    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = cache(responses.method_names_from_class)


def cache_service_models() -> None:
    """Before moto is imported: half a dozen of its modules make a session of their own, and each reads EC2's model of three megabytes."""
    from botocore import loaders

    read: dict[str, Any] = {}
    original = loaders.JSONFileLoader.load_file

    def load_file(loader: loaders.JSONFileLoader, path: str) -> Any:
        if path not in read:
            read[path] = original(loader, path)
        return read[path]

    loaders.JSONFileLoader.load_file = load_file  # type: ignore[method-assign, assignment] # botocore asks for its instances alone

"""What moto works out anew for every request, though it never changes while the server runs: worked out once.

For each request moto asks the file system which folders of its own are services, some two hundred questions under a lock, and asks Python
for all methods of the class that answers. With three deployed stacks on two cores that is a tenth of all that the local AWS computes.
"""

from functools import cache


def work_out_once() -> None:
    """For this process, whoever serves moto in it."""
    from moto import backends
    from moto.core import responses

    modules = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    responses.method_names_from_class = cache(responses.method_names_from_class)

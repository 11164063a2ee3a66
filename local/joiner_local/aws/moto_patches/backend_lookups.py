"""Let the requests of many threads find moto's backends without a lock.

moto takes one lock for the whole process at each lookup of an account, several times in a request, in case the account
is new. With a hundred requests at a time they queue for it, although each account exists after the first one.
"""

from collections.abc import Callable
from typing import Any

from joiner_local.aws.attribute_patches import wrap_attribute


def install() -> None:
    from moto.core.base_backend import BackendDict

    original = BackendDict.__getitem__
    wrap_attribute(BackendDict, "__getitem__", _known_first(original), original)


def _known_first(get: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def found(self: Any, account: str) -> Any:
        known = dict.get(self, account)
        return get(self, account) if known is None else known

    return found

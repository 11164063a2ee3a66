"""Read documents that a later invocation replaces: what is missing or cannot be read is not worth a failure."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from joiner.adapters.item_reading import BROKEN
from joiner.adapters.store import UNREADABLE, DocumentSchema, NoSuchDocument, Store

Read = TypeVar("Read")

log = logging.getLogger(__name__)


def read_replaced_document(store: Store, key: str, read: Callable[[Any], Read], empty: Read, *, what: str) -> Read:
    """Return the document under `key` as `Store.get_seldom_changed` does; `empty` if it is missing or cannot be read.

    `what` names it in the log.
    """
    try:
        return store.get_seldom_changed(key, read)
    except NoSuchDocument:
        return empty
    except (DocumentSchema, *BROKEN, *UNREADABLE) as reason:
        log.warning("%s cannot be read: %s", what, reason)
        return empty

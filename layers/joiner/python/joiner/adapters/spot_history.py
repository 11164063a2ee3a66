"""The document with the node-hours of spot instances: written by survey_cluster, read by refresh_catalogue."""

import logging
from typing import Any, Final

import msgspec

from joiner.adapters.item_reading import BROKEN
from joiner.adapters.store import UNREADABLE, DocumentSchema, NoSuchDocument, Store
from joiner.catalogue.interruption_history import SpotHours

log = logging.getLogger(__name__)

SPOT_HOURS: Final = "spot-hours/latest.json.gz"


def put_spot_hours(store: Store, hours: SpotHours) -> None:
    """Store the node-hours."""
    store.put(SPOT_HOURS, hours)


def get_spot_hours(store: Store) -> SpotHours:
    """Return the stored node-hours, read again only when they changed.

    A document that is missing or cannot be read counts as empty; a sweep replaces it within an hour.
    """
    try:
        return store.get_seldom_changed(SPOT_HOURS, _read)
    except NoSuchDocument:
        return SpotHours()
    except (DocumentSchema, *BROKEN, *UNREADABLE) as reason:
        log.warning("the node-hours of spot instances cannot be read: %s", reason)
        return SpotHours()


def _read(stored: Any) -> SpotHours:
    return msgspec.convert(stored, SpotHours)

"""The document with the node-hours of spot instances: written by survey_cluster, read by refresh_catalogue."""

from typing import Any, Final

import msgspec

from joiner.adapters.replaced_documents import read_replaced_document
from joiner.adapters.store import Store
from joiner.catalogue.interruption_history import SpotHours

SPOT_HOURS: Final = "spot-hours/latest.json.gz"


def put_spot_hours(store: Store, hours: SpotHours) -> None:
    """Store the node-hours."""
    store.put(SPOT_HOURS, hours)


def get_spot_hours(store: Store) -> SpotHours:
    """Return the stored node-hours, read again only when they changed.

    A document that is missing or cannot be read counts as empty; a sweep replaces it within an hour.
    """
    return read_replaced_document(store, SPOT_HOURS, _read, SpotHours(), what="the node-hours of spot instances")


def _read(stored: Any) -> SpotHours:
    return msgspec.convert(stored, SpotHours)

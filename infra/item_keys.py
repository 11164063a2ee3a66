"""Keys of the table's items that state machines update themselves, in DynamoDB's JSON.

`joiner.adapters.ledger_items` reads the same items; `tests/infra/test_item_keys.py` compares both.
"""

from collections.abc import Mapping
from typing import Any, Final

from infra.states_language import EXECUTION_NAME

LEASE: Final = "LEASE"
WAVE: Final = "WAVE"


def item_key(kind: str, id: str) -> Mapping[str, Any]:
    """Return the key of one item: its kind, the partition key, and its id within the kind.

    >>> item_key("LEASE", "scale-up")
    {'kind': {'S': 'LEASE'}, 'id': {'S': 'scale-up'}}
    """
    return {"kind": {"S": kind}, "id": {"S": id}}


LEASE_KEY: Final = item_key(LEASE, "scale-up")
"""The lease of all machines that launch or retire nodes."""

SWEEP_TURN_KEY: Final = item_key(LEASE, "sweep")
"""The turn of the sweeps; the doorbell notes in it when the latest sweep starts to read
(`joiner.adapters.sweep_slot`)."""

WAVE_KEY: Final = item_key(WAVE, EXECUTION_NAME)
"""The nodes for which this execution waits."""

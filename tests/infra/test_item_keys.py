"""State machines update the same items as the functions."""

from infra import item_keys
from joiner.adapters import ledger_items


def test_the_kinds_of_items_are_those_of_the_ledger() -> None:
    assert (item_keys.LEASE, item_keys.WAVE) == (ledger_items.LEASE, ledger_items.WAVE)


def test_the_lease_is_the_item_that_functions_renew() -> None:
    assert item_keys.LEASE_KEY == {"kind": {"S": ledger_items.LEASE}, "id": {"S": ledger_items.SCALE_UP}}

"""The items of instances and their claims, kind `INSTANCE`: handle_interruption knows by them whose notices it handles.

Written by launch_instances for what it launches, and by survey_instances for other claims; deleted by forget_nodes and
collect_garbage when the instance is gone.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from joiner import item_keys
from joiner.adapters.dynamodb_table import TRANSACTION, ConditionFailed, DynamoTable
from joiner.adapters.ledger_items import Pairing

SET_CLAIM: Final = "SET claim = :claim, launch = :launch"
UNPAIRED: Final = "attribute_not_exists(claim) OR claim = :claim"
STILL_PAIRED: Final = "claim = :former"


class PairingRecords(DynamoTable):
    """The instances of one deployment, each with its claim."""

    def pair(self, instance: str, claim: str, launch: str) -> Pairing:
        """Record the claim of an instance. The first record is final; the stored pairing is returned."""
        try:
            item = self._update(
                item_keys.INSTANCE,
                instance,
                SET_CLAIM,
                {":claim": claim, ":launch": launch},
                condition=UNPAIRED,
            )
        except ConditionFailed:
            item = self._get(item_keys.INSTANCE, instance)
        return self._read_one(item_keys.INSTANCE, item, Pairing.of)

    def pair_all(self, claims: Mapping[str, str], launch: str) -> dict[str, str]:
        """Record the claims of all instances of a launch, in one request for a hundred instances. Return the claim of
        each instance, which differs from `claims` where another one was recorded first.
        """
        found: dict[str, str] = {}
        instances = sorted(claims)
        for start in range(0, len(instances), TRANSACTION):
            part = {each: claims[each] for each in instances[start : start + TRANSACTION]}
            values = {each: {":claim": claim, ":launch": launch} for each, claim in part.items()}
            if self._update_together(item_keys.INSTANCE, SET_CLAIM, values, condition=UNPAIRED):
                found |= part
            else:
                found |= {each: self.pair(each, claim, launch).claim for each, claim in part.items()}
        return found

    def pair_again(self, instance: str, claim: str, former: str) -> bool:
        """Replace the claim of an instance whose recorded claim is not its own; False if the record changed meanwhile.

        One claim may have been launched twice: the second instance then has a claim of another name.
        """
        values = {":claim": claim, ":former": former}
        return self._try_update(item_keys.INSTANCE, instance, "SET claim = :claim", values, condition=STILL_PAIRED)

    def pairings(self, instances: Iterable[str]) -> dict[str, Pairing]:
        """Return the pairings of those of `instances` that Joiner launched or adopted, by instance id."""
        listed = self._get_each(item_keys.INSTANCE, instances)
        return {pairing.instance: pairing for pairing in self._read(item_keys.INSTANCE, listed, Pairing.of)}

    def forget_instance(self, instance: str) -> None:
        """Delete the record of a terminated instance. Later events about it are ignored."""
        self._delete(item_keys.INSTANCE, instance)

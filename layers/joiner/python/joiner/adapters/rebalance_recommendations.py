"""Rebalance recommendations of EC2: one item `RECOMMENDED` for each claim, written by handle_interruption.
survey_cluster postpones the end of items while Joiner is paused.

The function that receives a recommendation cannot read the cluster. The next sweep reads the pool of the claim, whose
annotation decides what follows (`joiner.lifecycle.checks.claims_to_rebalance`).
"""

from joiner.adapters.lasting_records import KEPT, LastingRecords
from joiner.item_keys import RECOMMENDED


class Recommendations(LastingRecords):
    """The recommendations that EC2 made for instances of this deployment, by claim. EC2 repeats one for an instance
    that is still at risk.
    """

    _kind = RECOMMENDED

    def note(self, claim: str, instance: str, now: int) -> None:
        """Record a recommendation; the time of the first one stays."""
        self._update(
            RECOMMENDED,
            claim,
            "SET since = if_not_exists(since, :now), #instance = :instance, expires = :expires",
            {":now": now, ":instance": instance, ":expires": now + KEPT},
            names={"#instance": "instance"},
        )

    def postpone(self, claim: str, now: int) -> None:
        """Keep a recommendation for another day, unless it has ended meanwhile."""
        values = {":expires": now + KEPT}
        self._try_update(RECOMMENDED, claim, "SET expires = :expires", values, condition="attribute_exists(since)")

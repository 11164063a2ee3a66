"""Records the instances of claims that this deployment did not launch: handle_interruption knows instances only from
the table.

launch_instances records what it launches. Other claims become Joiner's later: kept nodes of an earlier deployment,
claims whose CustomResourceDefinitions another autoscaler handed over, claims that were rebuilt. The first sweep that
sees such a claim records its instance.
"""

from collections.abc import Collection, Mapping, Sequence

from aws_lambda_powertools import Logger

from joiner.adapters.ledger import Ledger
from joiner.item_keys import INSTANCE
from joiner.lifecycle.checks.instance_survey import SeenClaim

logger = Logger(child=True)

SHOWN = 10  # instances in a log line

ADOPTED = ""
"""The launch of an instance that this deployment did not launch."""


class InstanceAdoption:
    """Reads and completes the records of the claims' instances.

    `recorded` are the instances of claims whose records this process has read or written; each use updates it. A record
    stays as long as its instance exists, so a sweep reads the records of new claims only.
    """

    def __init__(self, ledger: Ledger, recorded: set[str]) -> None:
        self._ledger = ledger
        self._recorded = recorded

    def pairings(
        self, claims: Sequence[SeenClaim], strangers: Collection[str], working: Collection[str]
    ) -> Mapping[str, str]:
        """Return the recorded claims of `strangers`, which are instances without a claim, by instance.

        Record the claims of instances that are among those `working`, and have no record or that of a claim that does
        not exist or has another instance.
        """
        owners = {claim.instance: claim.name for claim in claims if claim.instance}
        self._recorded.intersection_update(owners)
        unread = owners.keys() - self._recorded
        found = {each.instance: each.claim for each in self._ledger.pairings({*strangers, *unread}).values()}
        unreadable = self._ledger.unreadable_ids(INSTANCE)  # the survey reports them
        known = {(claim.instance, claim.name) for claim in claims}
        missing = {
            instance: owners[instance]
            for instance in sorted((unread - found.keys() - unreadable).intersection(working))
        }
        moved = {
            instance: (found[instance], owners[instance])
            for instance in sorted((unread & found.keys()).intersection(working))
            if (instance, found[instance]) not in known
        }
        self._record(missing, moved)
        self._recorded.update(unread & found.keys(), missing)
        return found

    def _record(self, missing: Mapping[str, str], moved: Mapping[str, tuple[str, str]]) -> None:
        if missing:
            self._ledger.pair_all(missing, ADOPTED)
        for instance, (former, claim) in moved.items():
            self._ledger.pair_again(instance, claim, former)
        if adopted := [*missing, *moved]:
            logger.info(
                "instances of claims that were not launched here are recorded: their notices are handled from now on",
                count=len(adopted),
                instances=adopted[:SHOWN],
            )

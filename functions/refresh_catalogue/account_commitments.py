"""The commitments of the account: read at each refresh, and kept from the last one where a call fails.

A failure is logged when it begins, or when its error code changes, and once more when it ends. An account without the
permission would otherwise fill the log with the same line every hour. The metric `CommitmentsNotRead` counts the
refreshes of which a part failed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from joiner.adapters.account_billing import (
    get_account_commitments,
    put_account_commitments,
    read_instances_elsewhere,
    read_reserved_instances,
    read_savings_plans,
)
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.store import Store
from joiner.catalogue.reserved_instances_and_savings_plans import (
    OTHER_INSTANCES,
    RESERVED_INSTANCES,
    SAVINGS_PLANS,
    AccountCommitments,
)

logger = Logger(child=True)

FIELDS: Final = {RESERVED_INSTANCES: "reserved", SAVINGS_PLANS: "plans", OTHER_INSTANCES: "elsewhere"}


@dataclass(frozen=True, slots=True)
class AccountReader:
    """Reads reserved instances and instances from EC2, and savings plans from their own API."""

    ec2_client: Any
    savings_plans: Any
    region: str
    cluster: str

    def read(self, store: Store, now: datetime) -> AccountCommitments:
        """Return what the account owns. A part that cannot be read is that of the last refresh."""
        calls: Mapping[str, Callable[[], Any]] = {
            RESERVED_INSTANCES: lambda: read_reserved_instances(self.ec2_client),
            SAVINGS_PLANS: lambda: read_savings_plans(self.savings_plans, self.region),
            OTHER_INSTANCES: lambda: read_instances_elsewhere(Ec2(self.ec2_client), self.cluster),
        }
        former = get_account_commitments(store)
        content: dict[str, Any] = {name: getattr(former, name) for name in FIELDS.values()}
        read_at, failures = dict(former.read_at), {}
        for what, call in calls.items():
            try:
                content[FIELDS[what]] = call()
            except (Ec2Error, BotoCoreError, ClientError) as reason:
                failures[what] = str(reason)
            else:
                read_at[what] = int(now.timestamp())
        found = AccountCommitments(**content, read_at=read_at, failures=failures)
        _log_changes(former, found)
        put_account_commitments(store, found)
        return found


def _log_changes(former: AccountCommitments, found: AccountCommitments) -> None:
    for what, reason in found.failures.items():
        if _code(former.failures.get(what, "")) != _code(reason):
            logger.warning(
                f"the account's {what} cannot be read: plans use {_used_instead(what, found)}. This line is not "
                "repeated while the error is the same. See commitments.fromAccount in docs/settings.md",
                reason=reason,
            )
    for what in former.failures.keys() - found.failures.keys():
        logger.info(f"the account's {what} can be read again")


def _used_instead(what: str, found: AccountCommitments) -> str:
    if OTHER_INSTANCES not in found.read_at:
        return "the commitments of the settings only"
    if at := found.read_at.get(what):
        return f"those read at {datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}, until their terms end"
    return "those of the settings only"


def _code(reason: str) -> str:
    """Return the error code; the message of a denial differs at each call."""
    return reason.partition(":")[0]

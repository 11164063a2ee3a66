"""EC2's status checks and scheduled events of a sweep: what they record for the retirements that the sweep starts.

The sweep does not fail if EC2 refuses the call: the permission may be missing, and all other checks work without it.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from aws_lambda_powertools import Logger

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.orphan_records import Impairments
from joiner.adapters.retirements import Retirements
from joiner.lifecycle.checks.instance_survey import SeenClaim
from joiner.lifecycle.instance_health import HealthFinding, find_impaired, find_impaired_pools, judge_health
from joiner.lifecycle.recorded_retirement import is_about
from joiner.lifecycle.retirement import RetirementReason

logger = Logger(child=True)

UNKNOWN: Final = (
    "EC2 does not answer ec2:DescribeInstanceStatus ({code}), so impaired instances and scheduled events are not "
    "found: {remedy}"
)
REFUSED: Final = "allow it to the role of survey_instances"
BUSY: Final = "the next sweep tries again"


class InstanceHealth:
    """Reads the status of this cluster's instances, and records why their claims are retired."""

    def __init__(self, ec2: Ec2, impairments: Impairments, retirements: Retirements) -> None:
        self._ec2 = ec2
        self._impairments = impairments
        self._retirements = retirements

    def record(self, seen: Iterable[SeenClaim], now: datetime, *, acting: bool) -> list[str]:
        """Record what EC2 reports about the instances of these claims; return one sentence for each case.

        Unless `acting`, only the start of an impairment is recorded.
        """
        claims = {claim.instance: claim for claim in seen if claim.instance}
        try:
            statuses = [each for each in self._ec2.troubled_instances() if each.instance in claims]
        except Ec2Error as reason:
            logger.warning("the status of instances is unknown", reason=str(reason))
            return [UNKNOWN.format(code=reason.code, remedy=BUSY if reason.busy else REFUSED)]
        impaired, before = find_impaired(statuses, claims), self._impairments.since()
        moment = int(now.timestamp())
        self._withdraw(before.keys() - set(impaired), claims)  # first: what is not kept is not found again
        self._impairments.keep(impaired, before, moment)
        since = {instance: before.get(instance, moment) for instance in impaired}
        pools = find_impaired_pools(impaired, {instance: claim.pool for instance, claim in claims.items()})
        blocked = {instance for instance in impaired if claims[instance].pool in pools}
        found = judge_health(statuses, since, now, blocked=blocked)
        for pool, message in pools.items():
            logger.warning("impaired instances are not retired", pool=pool, reason=message)
        if found and acting:
            self._note(found, claims, moment)
        return [*(f"{pool}: {message}" for pool, message in pools.items()), *(each.message for each in found)]

    def _withdraw(self, recovered: Iterable[str], claims: Mapping[str, SeenClaim]) -> None:
        """Withdraw the retirements of instances whose checks succeed again, if they have not begun: they may have
        waited for the end of a pause, and their deadline has passed."""
        for instance in sorted(recovered):
            claim = claims.get(instance)
            reason = RetirementReason.IMPAIRED
            if claim and not claim.deleting and self._retirements.withdraw(claim.name, reason, instance=instance):
                logger.info("an instance has recovered", nodeclaim=claim.name, instance=instance)

    def _note(self, found: list[HealthFinding], claims: Mapping[str, SeenClaim], now: int) -> None:
        """Record each finding once for its claim: a second record would end a back-off."""
        known = self._retirements.all()
        for each in found:
            claim = claims[each.instance].name
            deadline = int(each.drained_by.timestamp()) if each.drained_by is not None else 0
            standing = known.get(claim)
            standing = standing if standing is not None and is_about(standing, each.instance) else None
            known_so = standing is not None and each.reason in standing.reasons
            if known_so and standing is not None and (not deadline or 0 < standing.deadline <= deadline):
                continue
            logger.warning("an instance is in trouble", nodeclaim=claim, instance=each.instance, reason=each.message)
            self._retirements.hurry(claim, each.reason, deadline, now, instance=each.instance)

"""What a batch of messages needs to know, read when the first message needs it, and once for the whole batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aws_lambda_powertools import Logger
from botocore.exceptions import BotoCoreError, ClientError

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_instances import Instance
from joiner.adapters.executions import RUNNING, STATUS_UNKNOWN, Executions
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import Pairing, Retirement
from joiner.adapters.pause import PauseSwitch
from joiner.adapters.retirements import Retirements

logger = Logger(child=True)


class PauseReadOnce:
    """Whether Joiner is paused: read when the first message of a batch needs it, and once for the whole batch."""

    def __init__(self, switch: PauseSwitch) -> None:
        self._switch = switch
        self._paused: bool | None = None

    def on(self) -> bool:
        """Return whether Joiner is paused."""
        if self._paused is None:
            self._paused = self._switch.on()
        return self._paused


class LostInstances:
    """What EC2 returns now for instances that were reported lost, and what the ledger contains after that call.

    The first use reads all of them in one call.
    """

    def __init__(self, ec2: Ec2, ledger: Ledger, instances: Iterable[str]) -> None:
        self._ec2 = ec2
        self._ledger = ledger
        self._instances = frozenset(instances)
        self._found: Mapping[str, Instance] | None = None
        self._ours: Mapping[str, Pairing] | None = None

    def works(self, instance: str) -> bool:
        """Return whether the instance runs; False if EC2 does not know it."""
        if self._found is None:
            self._found = self._ec2.find_by_id(self._instances)
        return instance in self._found and self._found[instance].works

    def instance(self, instance: str) -> Instance | None:
        """Return the instance as EC2 shows it; None if EC2 does not know it. Call `works` first."""
        return (self._found or {}).get(instance)

    def is_ours(self, instance: str) -> bool:
        """Return whether the ledger still contains the instance after the EC2 call. A retirement may have ended
        meanwhile.
        """
        if self._ours is None:
            self._ours = self._ledger.pairings(self._instances)
        return instance in self._ours


class RetirementOwners:
    """Whether the executions that own retirements attend to them. Their last check does not show that they have ended:
    the status of each is read, too.
    """

    def __init__(self, executions: Executions, retirements: Retirements) -> None:
        self._executions = executions
        self._retirements = retirements
        self._statuses: dict[str, str] = {}

    def attend(self, retirement: Retirement, now: int) -> bool:
        """Return whether the owner attends to the retirement. The claim loses an owner that has ended: with it, no
        other execution could take the claim for three minutes after the owner's last check.
        """
        if not retirement.attended(now):
            return False
        status = self._status(retirement.owner)
        if status in (RUNNING, STATUS_UNKNOWN):
            return True
        logger.info(
            "the execution that retired it has ended", nodeclaim=retirement.claim, owner=retirement.owner, status=status
        )
        self._retirements.disown(retirement.claim, retirement.owner)
        return False

    def _status(self, owner: str) -> str:
        if owner not in self._statuses:
            try:
                self._statuses[owner] = self._executions.status(owner)
            except (BotoCoreError, ClientError) as reason:
                logger.warning("the status of an execution is unknown", owner=owner, reason=str(reason))
                self._statuses[owner] = STATUS_UNKNOWN
        return self._statuses[owner]


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """The facts of one batch."""

    losses: LostInstances
    owners: RetirementOwners
    paused: PauseReadOnce

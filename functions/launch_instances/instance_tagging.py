"""Tag launched instances with their claims, for people. The ledger has the pairing, so no launch fails for a tag."""

from collections.abc import Mapping
from threading import Event

from aws_lambda_powertools import Logger

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error
from joiner.adapters.parallel_calls import TimeLeft, call_each_in_time
from joiner.names import NODECLAIM

logger = Logger(child=True)


def name_instances(ec2: Ec2, launched: Mapping[str, Mapping[str, str]], time_left: TimeLeft) -> None:
    """Give instances (by id) the tags that name their claims, several at a time; `ec2` tries each call once.

    EC2 may not know a new instance yet; the next sweeps tag instances that lack their name (survey_instances). They
    also tag the others after a throttle or a lost answer, or when the time is over: the launches that follow need the
    requests more.
    """
    busy = Event()

    def tag(instance: str) -> bool:
        if busy.is_set():
            return False
        try:
            ec2.tag([instance], launched[instance])
        except Ec2Error as refusal:
            if refusal.busy:
                busy.set()
            raise
        return True

    answers, late = call_each_in_time(launched, tag, Ec2Error, time_left)
    for instance, answer in answers:
        if isinstance(answer, Ec2Error):
            claim = launched[instance][NODECLAIM]
            logger.warning("an instance could not be tagged", instance=instance, nodeclaim=claim, reason=str(answer))
    left = len(late) + sum(answer is False for _, answer in answers)
    if left:
        logger.info("instances are left to the sweep to tag", left=left)

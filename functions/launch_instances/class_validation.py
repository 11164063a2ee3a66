"""Try the launches of node classes as dry runs, and record whether EC2 allows them.

The launch template is created, as Karpenter does: policies may require one, with certain tags. A node that is launched
later uses the same one; otherwise it is deleted like every unused template. CreateFleet and RunInstances are dry runs.
Nothing is sent twice: what gets no answer is tried again with the next detection of drift.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from functions.launch_instances.launch_dry_runs import build_run_request
from joiner.adapters.class_validations import ClassToValidate
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error, translate_errors
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import TimeLeft, call_each_in_time
from joiner.launching import Launch
from joiner.launching.fleet_request import TEMPLATE_VERSION
from joiner.lifecycle.class_verdicts import (
    ALLOWED,
    REFUSED,
    ClassVerdict,
    LaunchCall,
    MissingPermission,
    shorten_message,
)

logger = Logger(child=True)


class NoVerdict(Exception):
    """EC2's answer shows nothing about permissions."""


class ClassValidator:
    """The node classes of one invocation. `client` sends each request once."""

    def __init__(self, ledger: Ledger, client: Any, time_left: TimeLeft) -> None:
        self._ledger = ledger
        self._client = client
        self._ec2 = Ec2(client)
        self._time_left = time_left

    def answer(self, classes: Iterable[ClassToValidate], now: datetime) -> dict[str, Any]:
        """Return ``{"validated", "refused", "changed"}``: how many classes got a verdict, how many of them were
        refused, and how many are ready now and were not, or the reverse.
        """
        at = int(now.timestamp())
        answers, left = call_each_in_time(classes, self._try_class, NoVerdict, self._time_left)
        verdicts = [(each, answer) for each, answer in answers if not isinstance(answer, NoVerdict)]
        for each, refusals in verdicts:
            self._ledger.note_verdict(each.key, ClassVerdict(each.digest, refusals, at))
            for refusal in refusals:
                logger.warning(refusal.explanation, nodeclass=each.key, reason=refusal.reason)
        for each, answer in answers:
            if isinstance(answer, NoVerdict):
                logger.info("no verdict about a class", nodeclass=each.key, reason=str(answer))
        for each in left:
            logger.info("no verdict about a class", nodeclass=each.key, reason="no time was left")
        return {
            "validated": len(verdicts),
            "refused": sum(bool(refusals) for _, refusals in verdicts),
            "changed": sum(refusals != each.held for each, refusals in verdicts),
        }

    def _try_class(self, wanted: ClassToValidate) -> tuple[MissingPermission, ...]:
        """Return what EC2 refuses of the first launch; nothing if it allows one of them. Raises NoVerdict."""
        found: list[tuple[MissingPermission, ...]] = []
        for launch in wanted.launches:
            if self._time_left.over:
                raise NoVerdict("no time was left")
            found.append(self._try_launch(launch))
            if not found[-1]:
                return ()
        if not found:
            raise NoVerdict("no launch is possible")
        return found[0]

    def _try_launch(self, launch: Launch) -> tuple[MissingPermission, ...]:
        """Return what EC2 refuses of one launch. Raises NoVerdict for an answer that is neither a refusal nor a
        permission: the other launches of the class are not tried then, because it is most often a throttle.
        """
        template = launch.templates[0]
        try:
            self._ec2.ensure_launch_template(template.name, template.data, template.tags)
        except Ec2Error as error:
            return (_read_refusal("CreateLaunchTemplate", error),)
        version = {"LaunchTemplateName": template.name, "Version": TEMPLATE_VERSION}
        dry_runs: list[tuple[LaunchCall, Any, Mapping[str, Any]]] = [
            ("CreateFleet", self._client.create_fleet, launch.request),
            ("RunInstances", self._client.run_instances, {**build_run_request(launch), "LaunchTemplate": version}),
        ]
        found = []
        for call, send, request in dry_runs:
            try:
                with translate_errors():
                    send(DryRun=True, **request)
            except Ec2Error as error:
                if error.code != ALLOWED:
                    found.append(_read_refusal(call, error))
        return tuple(found)


def _read_refusal(call: LaunchCall, error: Ec2Error) -> MissingPermission:
    """Return the error as a refusal. Raises NoVerdict if it is none."""
    if error.code != REFUSED:
        raise NoVerdict(f"{call}: {error}")
    return MissingPermission(call, shorten_message(error.message))

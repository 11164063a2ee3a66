"""Try the launches of node classes as dry runs, and record whether EC2 allows them.

The launch template is created, as Karpenter does: policies may require one, with certain tags. A node that is launched
later uses the same one; otherwise it is deleted like every unused template. CreateFleet and RunInstances are dry runs.
One invocation sends nothing twice: what gets no answer is tried again with the next detection of drift.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from functions.launch_instances.launch_dry_runs import build_run_request
from joiner.adapters.class_validations import ClassToValidate
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error, Ec2Throttled, NoAnswer, translate_errors
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


class _UnclearAnswer(Exception):
    """EC2's answer about one launch shows nothing about permissions."""


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
        """Return what EC2 refuses of the first refused launch; nothing if it allows one. Raises NoVerdict."""
        found: list[tuple[MissingPermission, ...]] = []
        unclear: list[str] = []
        for launch in wanted.launches:
            if self._time_left.over:
                raise NoVerdict("no time was left")
            try:
                found.append(self._try_launch(launch))
            except _UnclearAnswer as answer:
                unclear.append(str(answer))
                continue
            except (Ec2Throttled, NoAnswer) as error:
                raise NoVerdict(str(error)) from error
            except Exception as reason:  # the verdicts of other classes are kept
                raise NoVerdict(f"{type(reason).__name__}: {reason}") from reason
            if not found[-1]:
                return ()
        if not found:
            raise NoVerdict(unclear[0] if unclear else "no launch is possible")
        whole = wanted.whole and not unclear
        return tuple(replace(each, certain=whole or each.concerns_every_launch) for each in found[0])

    def _try_launch(self, launch: Launch) -> tuple[MissingPermission, ...]:
        """Return what EC2 refuses of one launch. Raises _UnclearAnswer for an answer that is neither a refusal nor a
        permission, Ec2Throttled, or NoAnswer.
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
    """Return the error as a refusal. Raises the error, or _UnclearAnswer, if it is none."""
    if isinstance(error, (Ec2Throttled, NoAnswer)):
        raise error
    # An existing template is read, too: that it may not be read does not keep a launch from using it
    if error.code != REFUSED or "DescribeLaunchTemplateVersions" in error.message:
        raise _UnclearAnswer(f"{call}: {error}")
    return MissingPermission(call, shorten_message(error.message))

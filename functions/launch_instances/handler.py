"""Launch instances: one CreateFleet for each group of similar claims, safe to repeat after a failure at any point.

The launch is stored before the request is sent, in one transaction with the check that its lease is current. If a
launch is found open, it is unknown whether its request was sent. Instances with the launch's tag are then its result.
If there are fewer instances than claims, the same request is sent again with the same client token, and EC2 returns the
same instances. A refusal, also of a launch template, is an outcome. The first outcome that is stored is the one that
counts.

One invocation launches several groups at a time. They wait for EC2 together, and one start of a sandbox serves all.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

from aws_lambda_powertools import Logger

from functions.launch_instances.class_validation import ClassValidator
from functions.launch_instances.instance_tagging import name_instances
from functions.launch_instances.launch_dry_runs import send_dry_runs
from joiner.adapters import documents, environment, metrics
from joiner.adapters.dynamodb_table import ItemTooLarge
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import Ec2Error, Ec2Throttled, NoAnswer
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LaunchRecord, LeaseLost, OfferingKey
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each
from joiner.adapters.pause import PauseSwitch
from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.adapters.warm_up import returns_at_warm_up
from joiner.catalogue.unavailable_offerings import UNAVAILABLE_SECONDS
from joiner.launching import Launch, LaunchOutcome, read_fleet_answer, read_fleet_refusal
from joiner.launching.launch_outcome import (
    list_cut_messages,
    list_instance_places,
    list_short_offerings,
    read_instances,
)
from joiner.names import claim_tags

logger = Logger()
environment.prepare_clients("dynamodb", "ec2", "s3", "ssm")

CODES_SHOWN: Final = 5  # the results of all groups of a pass are one result of a Map, limited to 256 KiB


FLEETS_AT_ONCE: Final = 16
"""All groups of one invocation: most of the time they wait for CreateFleet."""

TRIED_AGAIN_WITHIN: Final = 15.0
"""Seconds after which a failed group is left to the next round. EC2 may take the 40 seconds of the client's timeout for
the second try, too, and the function has a minute."""

NAMED_BY_LAUNCHES: Final = 100
"""Maximum of instances that one invocation tags, one call each: as many as EC2 accepts at once
(https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html)."""

VALIDATED_WITHIN: Final = 20.0
"""Seconds in which calls for the validation of node classes start: a sweep waits for them, and a later one goes on."""


class Launcher:
    """One launch; its dependencies are arguments, which tests replace. `tagging` returns the client for the names of
    instances, which are tagged only in the time that is left.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        ec2: Ec2,
        pause: PauseSwitch,
        *,
        tagging: Callable[[], Ec2] | None = None,
        time_left: TimeLeft = UNBOUNDED,
    ) -> None:
        self._pause = pause
        self._ledger = ledger
        self._store = store
        self._ec2 = ec2
        self._tagging = tagging or (lambda: ec2)
        self._time_left = time_left
        self._unnamed: dict[str, Mapping[str, str]] = {}

    def answer(self, task: Task, key: str, index: int, now: datetime, lease_until: int) -> dict[str, Any]:
        """Launch one group; return ``{"launch", "launched", "short", "failed", "errors"}``, or ``{"paused": true}``.

        Raises LeaseLost if another execution holds the lease now.
        """
        if self._may_not_launch(task, lease_until):
            return {"paused": True}
        answer = self._outcome(task, documents.get_launches(self._store, key, [index])[index], now)
        self._name_instances()
        return answer

    def answer_all(
        self, task: Task, key: str, indexes: Sequence[int], now: datetime, lease_until: int, *, last: bool = True
    ) -> dict[str, Any]:
        """Launch groups at the same time; return the answer of `launch_groups`, or ``{"paused": true}``.

        The lease is renewed once for all. Each launch checks it again in the transaction that stores it. Only the
        `last` groups name their instances.
        """
        if self._may_not_launch(task, lease_until):
            return {"paused": True}
        launches = documents.get_launches(self._store, key, indexes)
        answer = launch_groups(lambda index: self._outcome(task, launches[index], now), indexes)
        if last:  # after all fleets: a launch that waits for names is a node that comes later
            self._name_instances()
        return answer

    def _may_not_launch(self, task: Task, lease_until: int) -> bool:
        """Renew the lease; return whether Joiner is paused."""
        self._ledger.renew(task.execution.arn, task.lease_number, lease_until)
        paused = self._pause.on()
        if paused:
            logger.warning("Joiner is paused: nothing is launched")
        return paused

    def _outcome(self, task: Task, launch: Launch, now: datetime) -> dict[str, Any]:
        logger.thread_safe_append_keys(launch=launch.id, nodepool=launch.pool)
        known = self._ledger.launch(launch.id)
        outcome = (
            LaunchOutcome.from_json(known.outcome) if known and known.closed else self._launch(task, launch, known)
        )
        for each in outcome.launched:
            shape = f"{each.instance_type} in {each.zone}, {each.capacity_type}"
            logger.info(f"launched {shape}", instance=each.instance_id, nodeclaim=each.claim)
        if len(launch.claims) > 1:  # the request itself names a single instance
            tags = launch.instance_tags
            self._unnamed |= {each.instance_id: claim_tags(each.claim, tags) for each in outcome.launched}
        self._remember_shortages(launch, outcome, int(now.timestamp()))
        unmet = len(outcome.unmet)
        return {
            "launch": launch.id,
            "launched": len(outcome.launched),
            "short": unmet if outcome.again else 0,
            "failed": 0 if outcome.again else unmet,
            "errors": list(outcome.codes)[:CODES_SHOWN],
        }

    def _launch(self, task: Task, launch: Launch, known: LaunchRecord | None) -> LaunchOutcome:
        mine = documents.record_of(launch, lease_number=task.lease_number, execution=task.execution.arn)
        record = self._ledger.begin_launch(mine)
        if record.closed:
            return LaunchOutcome.from_json(record.outcome)
        launch = documents.launch_of(record)
        outcome = self._send_again(launch, record) if known or record != mine else self._send(launch, record)
        claims = {each.instance_id: each.claim for each in outcome.launched}
        outcome = outcome.as_paired(self._ledger.pair_all(claims, launch.id))
        return LaunchOutcome.from_json(self._close(launch, outcome))

    def _close(self, launch: Launch, outcome: LaunchOutcome) -> str:
        """Store the outcome of a launch; return the stored one.

        A launch with an outcome does not need the content of its templates any more, which is most of a large item.
        """
        try:
            return self._ledger.close_launch(launch.id, outcome.to_json())
        except ItemTooLarge as reason:
            logger.warning("the outcome is stored without the launch templates", reason=str(reason))
            details = documents.details_of(replace(launch, templates=()))
            return self._ledger.close_launch(launch.id, outcome.without_messages().to_json(), details)

    def _send(self, launch: Launch, record: LaunchRecord) -> LaunchOutcome:
        """Send a launch for the first time."""
        try:
            return read_fleet_answer(launch, self._fleet(launch, record))
        except NoAnswer:
            raise  # instances may exist: the launch stays open, and the next try searches for them first
        except Ec2Error as refusal:
            logger.warning("EC2 refused the whole request", code=refusal.code, reason=refusal.message)
            return read_fleet_refusal(launch, refusal.code, refusal.message)

    def _send_again(self, launch: Launch, record: LaunchRecord) -> LaunchOutcome:
        """Return the outcome of an earlier send: the instances with its tag, which may be only some, and EC2's answer
        to the same bytes and token.
        """
        tagged = {
            each.id: (each.instance_type, each.zone, each.capacity_type)
            for each in self._ec2.instances_of_launch(launch.id)
        }
        if tagged:
            logger.warning("an earlier try launched already", instances=sorted(tagged))
        answer: Mapping[str, Any] = {}
        if len(tagged) < len(launch.claims):
            try:
                answer = self._fleet(launch, record)
            except (NoAnswer, Ec2Throttled):
                raise  # the outcome of the earlier send is unknown: the launch stays open
            except Ec2Error as refusal:
                logger.warning("EC2 refused the request that was sent again", code=refusal.code, reason=refusal.message)
                answer = {"Errors": [{"ErrorCode": refusal.code, "ErrorMessage": refusal.message}]}
        found = list_instance_places(launch, answer) | tagged
        standing = {pairing.instance: pairing.claim for pairing in self._ledger.pairings(found).values()}
        return read_instances(launch, found, answer.get("Errors") or (), standing)

    def _fleet(self, launch: Launch, record: LaunchRecord) -> Mapping[str, Any]:
        """Create the missing launch templates, then send the exact request."""
        for template in launch.templates:
            self._ec2.ensure_launch_template(template.name, template.data, template.tags)
        answer = self._ec2.create_fleet(json.loads(record.request))
        for code, message in list_cut_messages(answer.get("Errors") or ()).items():
            logger.warning("EC2 refused offerings; this is the whole message of the first", code=code, reason=message)
        return answer

    def _name_instances(self) -> None:
        """Tag the launched instances with their claims."""
        launched, self._unnamed = dict(islice(self._unnamed.items(), NAMED_BY_LAUNCHES)), {}
        if launched:
            name_instances(self._tagging(), launched, self._time_left)

    def _remember_shortages(self, launch: Launch, outcome: LaunchOutcome, now: int) -> None:
        for short in outcome.short:
            logger.warning("short of capacity", code=short.code, instanceType=short.instance_type, zone=short.zone)
            for offering in list_short_offerings(short, launch):
                self._ledger.mark_unavailable(OfferingKey(*offering), now + UNAVAILABLE_SECONDS, short.code)
        for failure in outcome.failed:
            logger.error("the launch failed", code=failure.code, reason=failure.message, remedy=failure.remedy)


def launch_groups(
    launch: Callable[[int], Mapping[str, Any]],
    indexes: Sequence[int],
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Launch groups at the same time; `launch` launches one. Return ``{"launched", "short", "failed", "notLaunched",
    "errors"}``: sums of their answers, and the number of groups whose launch failed.

    If only some fail, they are tried once more, if the function has time for that: each launch that has an outcome is
    kept. If all fail, or if the lease is lost, the first error is raised.
    """
    began = clock()
    answers = dict(call_each(indexes, launch, Exception, workers=FLEETS_AT_ONCE))
    failures = _failures(answers.values())
    some = 0 < len(failures) < len(indexes) and not any(isinstance(each, LeaseLost) for each in failures)
    if some and clock() - began < TRIED_AGAIN_WITHIN:
        again = [index for index in indexes if isinstance(answers[index], Exception)]
        answers |= call_each(again, launch, Exception, workers=FLEETS_AT_ONCE)
        failures = _failures(answers.values())
    lost = [each for each in failures if isinstance(each, LeaseLost)]
    if lost or len(failures) == len(indexes):
        raise [*lost, *failures][0]
    for each in failures:
        logger.error(
            "a group could not be launched; its launch stays open", error=type(each).__name__, reason=str(each)
        )
    done = [answer for answer in answers.values() if not isinstance(answer, Exception)]
    total = {name: sum(each.get(name, 0) for each in done) for name in ("launched", "short", "failed")}
    codes = dict.fromkeys(code for each in done for code in each.get("errors", ()))
    return {**total, "notLaunched": len(failures), "errors": list(codes)[:CODES_SHOWN]}


def _failures(answers: Iterable[Mapping[str, Any] | Exception]) -> list[Exception]:
    return [each for each in answers if isinstance(each, Exception)]


def _validate(key: str, context: Any) -> dict[str, Any]:
    """Try the launches of the classes of a document, unless Joiner may launch nothing: launch templates are created."""
    if environment.pause(launching=True).on():
        logger.warning("Joiner is paused: no launches are tried")
        return {"validated": 0, "refused": 0, "changed": 0}
    client = environment.single_try_client("ec2")
    limited = environment.time_left(context).at_most(VALIDATED_WITHIN, time.monotonic)
    validator = ClassValidator(environment.ledger(), client, limited)
    answer = validator.answer(documents.get_validations(environment.store(), key), environment.now())
    logger.info("validated node classes", **answer)
    return answer


@returns_at_warm_up
@logger.inject_lambda_context(clear_state=True)
def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Handle one invocation of the function."""
    if "validate" in event:  # the sweep, outside the lease: nothing is launched
        return _validate(str(event["validate"]), context)
    if "dryRun" in event:  # joiner accept: dry runs, outside any execution
        return send_dry_runs(environment.client("ec2"), Launch.from_json(event["dryRun"]))
    task = environment.task(event)
    logger.thread_safe_clear_keys()
    logger.append_keys(execution=task.execution.name, cluster=task.cluster.name, round=task.round)
    now = environment.now()
    ec2 = Ec2(environment.client("ec2"), environment.fleet_client())
    launcher = Launcher(
        environment.ledger(),
        environment.store(),
        ec2,
        environment.pause(launching=True),
        tagging=lambda: Ec2(environment.single_try_client("ec2")),
        time_left=environment.time_left(context),
    )
    until, first = environment.lease_end(context, now), int(event["first"])
    indexes = range(first, first + int(event["count"]))
    answer = launcher.answer_all(task, str(event["launches"]), indexes, now, until, last=bool(event.get("last", True)))
    if "paused" in answer:
        return answer
    failed = answer["failed"] + answer["notLaunched"]
    counts = {"NodesLaunched": answer["launched"], "NodesShort": answer["short"], "LaunchesFailed": failed}
    metrics.publish(task.cluster.name, counts)
    return answer

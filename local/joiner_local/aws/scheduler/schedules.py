"""EventBridge Scheduler: moto stores the schedules, and this module invokes their targets, by the clock or on request.

Targets: functions, state machines (also Express), queues; each with the schedule's role, retries and a dead-letter
queue. A rate schedule without a start date is due as soon as it exists, as on AWS. A flexible time window is used at
its beginning.

Knobs: `schedules/fire {"name": "sweep", "group": "default"}` invokes the target of one schedule now, even a disabled
one, and answers the started execution; `schedules/hold {"held": true}` stops the clock until `false`; `schedules {}`
answers when each is due next.
"""

import datetime as dt
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.eventbridge.target_delivery import DeliveryFailed, EventTargets
from joiner_local.aws.iam.assumed_roles import check_assumable
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.aws.scheduler.schedule_expressions import InvalidExpression, Once, parse
from joiner_local.delayed_actions import DelayedActions
from joiner_local.knob_requests import read_text

log = logging.getLogger(__name__)

SERVICE = "scheduler.amazonaws.com"
TARGETS = ("lambda", "states", "sqs")
TICK = 0.25  # seconds between readings of the clock
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0  # seconds; on AWS minutes, too long for tests


def install(aws: LocalAws, targets: EventTargets) -> None:
    schedules = Schedules(targets)
    _check_what_is_made()
    aws.add_knobs(
        {
            "schedules": schedules.list_schedules,
            "schedules/fire": schedules.fire_by_hand,
            "schedules/hold": schedules.hold,
        }
    )
    threading.Thread(target=schedules.run, daemon=True, name="schedules").start()


def _backend() -> Any:
    from moto.scheduler.models import scheduler_backends

    return scheduler_backends[ACCOUNT][REGION]


def _check_what_is_made() -> None:
    """Refuse CreateSchedule and UpdateSchedule for schedules that could never run."""
    from moto.scheduler.exceptions import ValidationException
    from moto.scheduler.models import EventBridgeSchedulerBackend

    def checked(original: Callable[..., Any]) -> Callable[..., Any]:
        def make(backend: Any, **asked: Any) -> Any:
            problem = _problem(asked)
            if problem is not None:
                raise ValidationException(message=problem)
            return original(backend, **asked)

        return make

    for name in ("create_schedule", "update_schedule"):
        original = getattr(EventBridgeSchedulerBackend, name)
        wrap_attribute(EventBridgeSchedulerBackend, name, checked(original), original)


def _problem(asked: Mapping[str, Any]) -> str | None:
    """Return why Scheduler refuses a schedule, or None."""
    target = asked["target"]
    service = target["Arn"].split(":")[2]
    if service not in TARGETS:
        return f"the local AWS's schedules reach {', '.join(TARGETS)}, not {target['Arn']}"
    try:
        parse(asked["schedule_expression"], asked["schedule_expression_timezone"] or "UTC")
        if service == "states" and "Input" in target:
            json.loads(target["Input"])
    except InvalidExpression as error:
        return str(error)
    except ValueError:
        return "Invalid RequestJson provided. Reason: the Input of a state machine must be JSON"
    if check_assumable(target["RoleArn"], SERVICE) is not None:
        return "The execution role you provide must allow AWS EventBridge Scheduler to assume the role."
    return None


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """One invocation of a target: the target, its input, the scheduled time, and since when it is tried."""

    schedule_arn: str
    target: Mapping[str, Any]
    body: str
    scheduled: str
    since: float


@dataclass(slots=True)
class Schedules:
    targets: EventTargets
    held: bool = False
    _next: dict[tuple[Any, ...], float | None] = field(default_factory=dict)
    _retries: DelayedActions = field(default_factory=lambda: DelayedActions("schedule-retries"))

    def run(self) -> None:
        while True:
            time.sleep(TICK)
            try:
                self.tick(time.time())
            except Exception:
                log.exception("schedules")

    def tick(self, now: float) -> None:
        """Invoke the targets of due schedules, and drop deleted schedules."""
        living = {}
        for schedule in _all_schedules():
            living[_key(schedule)] = schedule
        self._next = {key: at for key, at in self._next.items() if key in living}
        for key, schedule in living.items():
            expression = parse(schedule.schedule_expression, schedule.schedule_expression_timezone)
            if key not in self._next:
                self._next[key] = expression.first(_timestamp(schedule.start_date) or now)
            at = self._next[key]
            if at is None or now < at:
                continue
            while at is not None and at <= now:  # a machine that was suspended does not run missed schedules
                at = expression.after(at)
            self._next[key] = at
            end = _timestamp(schedule.end_date)
            if schedule.state == "ENABLED" and not self.held and (end is None or now <= end):
                self._attempt(_due(schedule), 0)
                if isinstance(expression, Once) and schedule.action_after_completion == "DELETE":
                    _backend().delete_schedule(schedule.group_name, schedule.name)

    def fire_by_hand(self, asked: dict[str, Any]) -> dict[str, Any]:
        name, group = read_text(asked, "name"), read_text(asked, "group", "default")
        groups = _backend().schedule_groups
        if group not in groups or name not in groups[group].schedules:
            known = ", ".join(sorted(f"{schedule.group_name}/{schedule.name}" for schedule in _all_schedules()))
            raise ValueError(f"there is no schedule {group}/{name}, but {known or 'none at all'}")
        due = _due(groups[group].schedules[name])
        try:
            execution = self._deliver(due)
        except DeliveryFailed as failed:
            raise ValueError(f"{failed.code}: {failed}") from failed
        return {"name": name, "group": group, "target": due.target["Arn"], "input": due.body, "execution": execution}

    def _deliver(self, due: DueSchedule) -> str | None:
        target, group = due.target, _message_group(due)
        return self.targets.deliver(
            target["Arn"], due.body, group=group, source=due.schedule_arn, role=target["RoleArn"]
        )

    def hold(self, asked: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(asked.get("held"), bool):
            raise ValueError("say whether schedules are held: true or false")
        self.held = asked["held"]
        return {"held": self.held}

    def list_schedules(self, _asked: dict[str, Any]) -> dict[str, Any]:
        found = [
            {
                "name": schedule.name,
                "group": schedule.group_name,
                "state": schedule.state,
                "expression": schedule.schedule_expression,
                "next": self._next.get(_key(schedule)),
            }
            for schedule in _all_schedules()
        ]
        return {"held": self.held, "schedules": found}

    def _attempt(self, due: DueSchedule, attempt: int) -> None:
        try:
            self._deliver(due)
        except DeliveryFailed as failed:
            policy = due.target.get("RetryPolicy") or {}
            most, oldest = (
                int(policy.get("MaximumRetryAttempts", 185)),
                float(policy.get("MaximumEventAgeInSeconds", 86400)),
            )
            delay = min(FIRST_RETRY * 2**attempt, LONGEST_RETRY)
            exhausted = "MaximumRetryAttempts" if attempt >= most else "MaximumEventAgeInSeconds"
            if attempt < most and time.time() + delay - due.since <= oldest:
                self._retries.after(delay, lambda: self._attempt(due, attempt + 1))
                return
            log.warning("schedule %s: %s: %s", due.schedule_arn, failed.code, failed)
            _dead_letter(due, failed, attempt, exhausted)


def _all_schedules() -> list[Any]:
    return [
        schedule for group in list(_backend().schedule_groups.values()) for schedule in list(group.schedules.values())
    ]


def _key(schedule: Any) -> tuple[Any, ...]:
    """Return what restarts a schedule when it changes: the schedule, its expression, its zone, its start."""
    return id(schedule), schedule.schedule_expression, schedule.schedule_expression_timezone, schedule.start_date


def _due(schedule: Any) -> DueSchedule:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = schedule.target.get("Input")
    if body is None:
        event = {
            "version": "0",
            "id": str(uuid.uuid4()),
            "detail-type": "Scheduled Event",
            "source": "aws.scheduler",
            "account": ACCOUNT,
            "time": now,
            "region": REGION,
            "resources": [schedule.arn],
            "detail": "{}",
        }
        body = json.dumps(event)
    known = {
        "schedule-arn": schedule.arn,
        "scheduled-time": now,
        "execution-id": str(uuid.uuid4()),
        "attempt-number": "1",
    }
    for name, value in known.items():
        body = body.replace(f"<aws.scheduler.{name}>", value)
    return DueSchedule(schedule.arn, schedule.target, body, now, time.time())


def _message_group(due: DueSchedule) -> str | None:
    return (due.target.get("SqsParameters") or {}).get("MessageGroupId")


def _dead_letter(due: DueSchedule, failed: DeliveryFailed, attempts: int, exhausted: str) -> None:
    """Send the input to the dead-letter queue, with the reason in attributes ("Configuring a dead-letter queue for
    EventBridge Scheduler").
    """
    from moto.sqs.models import sqs_backends

    queue = (due.target.get("DeadLetterConfig") or {}).get("Arn")
    if not queue:
        return
    answer = {
        "ERROR_CODE": failed.code,
        "ERROR_MESSAGE": str(failed),
        "EXHAUSTED_RETRY_CONDITION": exhausted,
        "RETRY_ATTEMPTS": str(attempts),
        "SCHEDULED_TIME": due.scheduled,
        "SCHEDULE_ARN": due.schedule_arn,
        "TARGET_ARN": due.target["Arn"],
    }
    attributes = {name: {"DataType": "String", "StringValue": value} for name, value in answer.items()}
    sqs_backends[ACCOUNT][REGION].send_message(queue.rpartition(":")[2], due.body, message_attributes=attributes)


def _timestamp(value: Any) -> float | None:
    if value in (None, ""):
        return None
    if isinstance(value, int | float):
        return float(value)
    return dt.datetime.fromisoformat(str(value)).timestamp()

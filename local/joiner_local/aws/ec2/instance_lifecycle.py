"""The life of an instance as EC2 tells it: pending, running, shutting-down, terminated (or stopping, stopped), with an event for each step.

moto jumps from one end to the other and tells nobody. Here each step takes its time (knob `instances`), and each is announced on
EventBridge as "EC2 Instance State-change Notification" (EC2 user guide, "State change events for your instances").

Terminated ones are shown for an hour, as EC2 does, and then forgotten.

The knob: `POST /_local/instances {"pendingSeconds": 1, "stoppingSeconds": 1, "shownSeconds": 3600}`.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError, OperationNotPermitted4
from moto.ec2.models.instances import InstanceBackend, InstanceState, StateReason
from moto.ec2.responses import EC2Response

from joiner_local.agenda import Agenda
from joiner_local.aws.ec2.eventual_consistency import VISIBILITY
from joiner_local.aws.eventbridge.event_rules import publish
from joiner_local.aws.local_aws import LocalAws

log = logging.getLogger(__name__)

CODES: Final = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
AGENDA: Final = Agenda("ec2")


@dataclass(slots=True)
class TransitionTimes:
    """Seconds from pending to running, and from shutting down (stopping) to terminated (stopped). EC2 takes some 5 to 60.

    `shown` is how long one that ended is still described.
    """

    pending: float = 0.3
    stopping: float = 0.3
    shown: float = 3600.0


PACE: Final = TransitionTimes()


@dataclass(frozen=True, slots=True)
class EndReason:
    code: str
    message: str


USER: Final = EndReason("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")


def emit(instance: Any, detail_type: str, detail: dict[str, Any]) -> None:
    """An event of aws.ec2 about this instance."""
    backend = instance.ec2_backend
    arn = f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}:instance/{instance.id}"
    publish("aws.ec2", detail_type, {"instance-id": instance.id, **detail}, [arn])


def _announce(instance: Any, state: str) -> None:
    """Soon, on the agenda's thread: whoever called EC2 does not wait for targets of rules."""
    AGENDA.after(0, lambda: emit(instance, "EC2 Instance State-change Notification", {"state": state}))


def _enter(instance: Any, state: str) -> None:
    instance._state = InstanceState(state, CODES[state])
    _announce(instance, state)


def booted(instances: Iterable[Any]) -> None:
    """New instances: pending now, running after a while, unless they ended before."""

    def run(instance: Any) -> None:
        if instance.state == "pending":
            _enter(instance, "running")

    for instance in instances:
        _enter(instance, "pending")
        AGENDA.after(PACE.pending, partial(run, instance))


def terminate(instance: Any, reason: EndReason) -> None:
    if instance.state in ("shutting-down", "terminated"):
        return
    instance.state_reason = StateReason(reason.message, reason.code)  # EC2 shows it from the first event of the end on
    _enter(instance, "shutting-down")
    AGENDA.after(PACE.stopping, lambda: _terminated(instance, reason))


def _terminated(instance: Any, reason: EndReason) -> None:
    instance.terminate()  # moto's: interfaces and volumes go
    instance.state_reason = StateReason(reason.message, reason.code)
    if reason is not USER:
        instance._reason = f"{reason.code.partition('.')[2]} ({utcnow():%Y-%m-%d %H:%M:%S} GMT)"
    _enter(instance, "terminated")
    AGENDA.after(PACE.shown, lambda: _forget(instance))


def _forget(instance: Any) -> None:
    backend = instance.ec2_backend
    for identity, reservation in list(backend.reservations.items()):
        if instance in reservation.instances:
            reservation.instances.remove(instance)
            if not reservation.instances:
                del backend.reservations[identity]
    backend.tags.pop(instance.id, None)


def _stop(instance: Any) -> None:
    def stopped() -> None:
        if instance.state == "stopping":
            instance.stop()
            _enter(instance, "stopped")

    _enter(instance, "stopping")
    AGENDA.after(PACE.stopping, stopped)


def _start(instance: Any) -> None:
    instance.start()
    booted([instance])


def _changes(changed: list[tuple[Any, InstanceState]]) -> list[dict[str, Any]]:
    return [
        {"InstanceId": instance.id, "CurrentState": instance.instance_state, "PreviousState": {"Code": before.code, "Name": before.name}}
        for instance, before in changed
    ]


def terminate_instances(response: Any) -> ActionResult:
    """One unknown id refuses all; an instance that is ending already is no error."""
    ids = response._get_param("InstanceIds", [])
    if len(ids) > 1000:
        raise EC2ClientError("InvalidParameterValue", "At most 1000 instances can be terminated by one request.")
    response.error_on_dryrun()
    return ActionResult({"TerminatingInstances": _changes(response.ec2_backend.terminate_instances(ids))})


def _backend_terminate(backend: Any, ids: list[str]) -> list[tuple[Any, InstanceState]]:
    """A protected instance refuses the whole call; it keeps all instances of its zone that the call names, and none of other zones.

    Source: EC2 API reference, TerminateInstances.
    """
    if not ids:
        raise EC2ClientError("InvalidParameterCombination", "No instances specified")
    asked = backend.get_multi_instances_by_id(ids)
    protected = [instance for instance in asked if instance.disable_api_termination is True]
    spared = {instance._placement.zone for instance in protected}
    before = [(instance, instance.instance_state) for instance in asked]
    for instance in asked:
        if instance._placement.zone not in spared:
            terminate(instance, USER)
    if protected:
        raise OperationNotPermitted4(protected[0].id)
    return before


def stop_instances(response: Any) -> ActionResult:
    ids = response._get_param("InstanceIds", [])
    response.error_on_dryrun()
    asked = response.ec2_backend.get_multi_instances_by_id(ids)
    _check_states(asked, {"running", "pending", "stopping", "stopped"}, "stopped")
    before = [(instance, instance.instance_state) for instance in asked]
    for instance in asked:
        if instance.state not in ("stopping", "stopped"):
            _stop(instance)
    return ActionResult({"StoppingInstances": _changes(before)})


def start_instances(response: Any) -> ActionResult:
    ids = response._get_param("InstanceIds", [])
    response.error_on_dryrun()
    asked = response.ec2_backend.get_multi_instances_by_id(ids)
    _check_states(asked, {"running", "pending", "stopped"}, "started")
    before = [(instance, instance.instance_state) for instance in asked]
    for instance in asked:
        if instance.state == "stopped":
            _start(instance)
    return ActionResult({"StartingInstances": _changes(before)})


def _check_states(instances: Iterable[Any], allowed: set[str], verb: str) -> None:
    for instance in instances:
        if instance.state not in allowed:
            message = f"The instance '{instance.id}' is not in a state from which it can be {verb}."
            raise EC2ClientError("IncorrectInstanceState", message)


def set_pace(asked: dict[str, Any]) -> dict[str, Any]:
    if unknown := asked.keys() - {"pendingSeconds", "stoppingSeconds", "shownSeconds"}:
        raise ValueError(f"instances: {sorted(unknown)} is not known")
    PACE.pending = float(asked.get("pendingSeconds", PACE.pending))
    PACE.stopping = float(asked.get("stoppingSeconds", PACE.stopping))
    PACE.shown = float(asked.get("shownSeconds", PACE.shown))
    return {"pendingSeconds": PACE.pending, "stoppingSeconds": PACE.stopping, "shownSeconds": PACE.shown}


def install(aws: LocalAws) -> None:
    run = EC2Response.run_instances

    def run_instances(response: Any) -> ActionResult:
        answer: ActionResult = run(response)
        VISIBILITY.launched(answer.result.instances)
        booted(answer.result.instances)
        return answer

    EC2Response.run_instances = run_instances
    EC2Response.terminate_instances = terminate_instances
    EC2Response.stop_instances = stop_instances
    EC2Response.start_instances = start_instances
    InstanceBackend.terminate_instances = _backend_terminate
    aws.knobs["instances"] = set_pace

"""The states of an instance: pending, running, shutting-down, terminated (or stopping, stopped), with an event for
each.

moto changes the state at once and emits no event. Here each transition takes its time (knob `instances`), and each
emits an "EC2 Instance State-change Notification" on EventBridge (EC2 user guide, "State change events for your
instances"). Terminated instances are described for an hour, as by EC2, and then deleted.

Knob: `POST /_local/instances {"pendingSeconds": 1, "stoppingSeconds": 1, "shownSeconds": 3600}`.
"""

import logging
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import EC2ClientError, OperationNotPermitted4
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState, StateReason
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute
from joiner_local.aws.ec2.eventual_consistency import VISIBILITY
from joiner_local.aws.ec2.refused_launch_fields import check_run_instances
from joiner_local.aws.eventbridge.event_rules import publish
from joiner_local.aws.local_aws import LocalAws
from joiner_local.delayed_actions import DelayedActions
from joiner_local.knob_requests import check_fields, read_number

log = logging.getLogger(__name__)

CODES: Final = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
AGENDA: Final = DelayedActions("ec2")


@dataclass(slots=True)
class TransitionTimes:
    """Seconds from pending to running, and from shutting-down (stopping) to terminated (stopped). EC2 takes about 5 to
    60.

    `shown` is how long a terminated instance is described.
    """

    pending: float = 0.3
    stopping: float = 0.3
    shown: float = 3600.0


PACE: Final = TransitionTimes()


@dataclass(frozen=True, slots=True)
class EndReason:
    """Why an instance ends: the code and the message of its StateReason."""

    code: str
    message: str


USER: Final = EndReason("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown")


def emit(instance: Any, detail_type: str, detail: dict[str, Any]) -> None:
    """Emit an event of aws.ec2 about this instance."""
    backend = instance.ec2_backend
    arn = f"arn:{backend.partition}:ec2:{backend.region_name}:{backend.account_id}:instance/{instance.id}"
    publish("aws.ec2", detail_type, {"instance-id": instance.id, **detail}, [arn])


def _announce(instance: Any, state: str) -> None:
    """Emit the event on another thread: callers of EC2 do not wait for targets of rules."""
    AGENDA.after(0, lambda: emit(instance, "EC2 Instance State-change Notification", {"state": state}))


def _enter(instance: Any, state: str) -> None:
    instance._state = InstanceState(state, CODES[state])
    _announce(instance, state)


def booted(instances: Iterable[Any], failure: EndReason | None = None) -> None:
    """Start the transitions of new instances: pending now, running later unless they end before.

    With a `failure` they never run: they are shut down after half of the time to boot.
    """

    def run(instance: Any) -> None:
        if instance.state == "pending":
            _enter(instance, "running")

    for instance in instances:
        _enter(instance, "pending")
        if failure is None:
            AGENDA.after(PACE.pending, partial(run, instance))
        else:
            AGENDA.after(PACE.pending / 2, partial(terminate, instance, failure))


def terminate(instance: Any, reason: EndReason) -> None:
    """Shut the instance down, with its reason; no effect if it is ending."""
    if instance.state in ("shutting-down", "terminated"):
        return
    instance.state_reason = StateReason(reason.message, reason.code)  # EC2 shows the reason from the first event on
    _enter(instance, "shutting-down")
    AGENDA.after(PACE.stopping, lambda: _terminated(instance, reason))


def _unseen(instance: Any) -> Any:
    """Return a stand-in of the instance whose state and reason moto may change: interfaces, volumes and associations
    are the instance's own.

    moto changes the state first and the reason later, each to its own values; a description in between would show them.
    """
    stand_in = copy(instance)
    stand_in._state = copy(instance._state)
    return stand_in


def _terminated(instance: Any, reason: EndReason) -> None:
    _unseen(instance).terminate()  # moto deletes interfaces and volumes
    what = "User initiated" if reason is USER else reason.code.partition(".")[2]
    instance._reason = f"{what} ({utcnow():%Y-%m-%d %H:%M:%S} GMT)"
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
            _unseen(instance).stop()
            _enter(instance, "stopped")

    instance.state_reason = StateReason(USER.message, USER.code)
    instance._reason = f"User initiated ({utcnow():%Y-%m-%d %H:%M:%S} GMT)"
    _enter(instance, "stopping")
    AGENDA.after(PACE.stopping, stopped)


def _start(instance: Any) -> None:
    _unseen(instance).start()
    instance.launch_time = utcnow()
    instance.state_reason = StateReason()
    instance._reason = ""
    booted([instance])


def _changes(changed: list[tuple[Any, InstanceState]]) -> list[dict[str, Any]]:
    return [
        {
            "InstanceId": instance.id,
            "CurrentState": instance.instance_state,
            "PreviousState": {"Code": before.code, "Name": before.name},
        }
        for instance, before in changed
    ]


def terminate_instances(response: Any) -> ActionResult:
    """Terminate instances. An unknown id fails the whole call; an instance that is shutting down is no error."""
    ids = response._get_param("InstanceIds", [])
    if len(ids) > 1000:
        raise EC2ClientError("InvalidParameterValue", "At most 1000 instances can be terminated by one request.")
    response.error_on_dryrun()
    return ActionResult({"TerminatingInstances": _changes(response.ec2_backend.terminate_instances(ids))})


def _backend_terminate(backend: Any, ids: list[str]) -> list[tuple[Any, InstanceState]]:
    """Terminate instances, except that a protected instance fails the call: no named instance of its zone is
    terminated, those of other zones are.

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
    """Stop instances. EC2 refuses terminated ones."""
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
    """Start stopped instances. EC2 refuses those that are stopping or terminated."""
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
    """Set how long instances are pending, stopping, and shown after their end."""
    check_fields(asked, {"pendingSeconds", "stoppingSeconds", "shownSeconds"}, "instances")
    PACE.pending = read_number(asked, "pendingSeconds", PACE.pending)
    PACE.stopping = read_number(asked, "stoppingSeconds", PACE.stopping)
    PACE.shown = read_number(asked, "shownSeconds", PACE.shown)
    return {"pendingSeconds": PACE.pending, "stoppingSeconds": PACE.stopping, "shownSeconds": PACE.shown}


def install(aws: LocalAws) -> None:
    """Install the actions in moto, and the knob `instances`."""
    run = EC2Response.run_instances

    def run_instances(response: Any) -> ActionResult:
        check_run_instances(response)
        answer: ActionResult = run(response)
        for instance in answer.result.instances:
            instance.disable_api_termination = bool(response._get_param("DisableApiTermination"))
        VISIBILITY.launched(answer.result.instances)
        booted(answer.result.instances)
        return answer

    init = Instance.__init__

    def begin(instance: Any, *arguments: Any, **named: Any) -> None:
        init(instance, *arguments, **named)
        instance._state = InstanceState("pending", CODES["pending"])  # moto's runs before it has its volumes

    wrap_attribute(Instance, "__init__", begin, init)
    wrap_attribute(EC2Response, "run_instances", run_instances, run)
    replace_attribute(EC2Response, "terminate_instances", terminate_instances)
    replace_attribute(EC2Response, "stop_instances", stop_instances)
    replace_attribute(EC2Response, "start_instances", start_instances)
    replace_attribute(InstanceBackend, "terminate_instances", _backend_terminate)
    aws.add_knobs({"instances": set_pace})

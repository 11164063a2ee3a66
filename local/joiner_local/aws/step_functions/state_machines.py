"""What the Step Functions API acts on: state machines with their versions, and executions with the rules of their
names.

Execution names ("StartExecution" in the API reference): the name of a Standard execution is unique for its machine. The
same name with the same input while it runs is the same execution; after its end, or with another input, it is
ExecutionAlreadyExists. Express names may repeat.
"""

import datetime as dt
import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace

from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws.step_functions.execution_history import HistoryEvent
from joiner_local.aws.step_functions.machine_definition import InvalidDefinition, MachineDefinition, parse_machine
from joiner_local.aws.step_functions.machine_execution import MachineExecution
from joiner_local.aws.step_functions.payload_sizes import LARGEST_PAYLOAD
from joiner_local.aws.step_functions.state_interpreter import ExecutionIdentity
from joiner_local.aws.step_functions.task_calls import ServiceRefused, Services
from joiner_local.aws.step_functions.task_tokens import TaskTokens

ARN = f"arn:aws:states:{REGION}:{ACCOUNT}"
LONGEST_NAME = 80
_FORBIDDEN = re.compile(r"""[\s<>{}\[\]?*"#%\\^|~`$&,;:/\x00-\x1f\x7f-\x9f\ufffe\uffff]""")
OFF: Mapping[str, object] = {"level": "OFF", "includeExecutionData": False}

# Sends one event of an execution to the log group of the logging configuration.
Ship = Callable[[Mapping[str, object], ExecutionIdentity, HistoryEvent], None]


@dataclass(frozen=True, slots=True)
class StateMachine:
    """A machine at one time; `source` is set on a published version."""

    arn: str
    name: str
    definition: str
    _: KW_ONLY
    role: str
    type: str
    parsed: MachineDefinition
    logging: Mapping[str, object] = field(default_factory=lambda: OFF)
    tracing: Mapping[str, object] = field(default_factory=lambda: {"enabled": False})
    created: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    updated: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    revision: str = field(default_factory=lambda: str(uuid.uuid4()))
    source: str | None = None
    description: str = ""

    @property
    def express(self) -> bool:
        """Return whether executions are Express."""
        return self.type == "EXPRESS"


def check_name(name: str) -> str:
    """Return the name; ServiceRefused for a length or a character that the service does not take."""
    if not 1 <= len(name) <= LONGEST_NAME or _FORBIDDEN.search(name):
        raise ServiceRefused("InvalidName", f"Invalid Name: '{name}'")
    return name


@dataclass(slots=True)
class StateMachines:
    """All machines and executions of the account. `check_role` refuses a role that Step Functions cannot assume."""

    services: Services
    ship: Ship
    check_role: Callable[[str], None]
    _: KW_ONLY
    tokens: TaskTokens = field(default_factory=TaskTokens)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    watchers: list[Callable[[MachineExecution, HistoryEvent], None]] = field(default_factory=list)
    pace: float = 1.0  # factor of waits and retry delays of executions
    twice: frozenset[str] = frozenset()
    """Names of Express machines whose executions run twice: AWS promises *at least once* for asynchronous ones."""
    _machines: dict[str, StateMachine] = field(default_factory=dict)
    _versions: dict[str, list[StateMachine]] = field(default_factory=dict)
    _published: dict[str, int] = field(default_factory=dict)
    _executions: dict[str, MachineExecution] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def create(self, machine: StateMachine) -> StateMachine:
        """Create a machine. The same machine again is no error; another machine of that name is."""
        check_name(machine.name)
        self.check_role(machine.role)
        with self._lock:
            known = self._machines.get(machine.arn)
            if known is not None:
                if (known.definition, known.type, known.logging, known.tracing) != (
                    machine.definition,
                    machine.type,
                    machine.logging,
                    machine.tracing,
                ):
                    raise ServiceRefused("StateMachineAlreadyExists", f"State Machine Already Exists: '{machine.arn}'")
                return known
            self._machines[machine.arn] = machine
            return machine

    def update(self, arn: str, changes: Mapping[str, object]) -> StateMachine:
        """Change a machine; later executions use the change. The service refuses an invalid definition."""
        if "role" in changes:
            self.check_role(str(changes["role"]))
        with self._lock:
            known = self._find(arn)
            if "definition" in changes:
                changes = {**changes, "parsed": parse(str(changes["definition"]), known.type)}
            changes = {**changes, "updated": dt.datetime.now(dt.UTC), "revision": str(uuid.uuid4())}
            changed = replace(known, **changes)  # type: ignore[arg-type]  # names of fields
            self._machines[arn] = changed
            return changed

    def delete(self, arn: str) -> None:
        """Delete a machine and end its running executions. Ended executions can still be read."""
        with self._lock:
            if self._machines.pop(arn, None) is None:
                return
            self._versions.pop(arn, None)
            self.tags.pop(arn, None)
            running = [
                each
                for each in self._executions.values()
                if each.identity.machine_arn == arn and each.status == "RUNNING"
            ]
        for each in running:
            each.stop(None, "The state machine was deleted.")

    def describe(self, arn: str) -> StateMachine:
        """Return a machine or, by its own ARN, one of its versions."""
        with self._lock:
            if arn in self._machines:
                return self._machines[arn]
            for version in self._versions.get(arn.rpartition(":")[0], []):
                if version.arn == arn:
                    return version
        raise ServiceRefused("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")

    def all(self) -> list[StateMachine]:
        """Return all machines."""
        with self._lock:
            return list(self._machines.values())

    def publish(self, arn: str, description: str) -> StateMachine:
        """Publish a version of the machine; returns the newest one if nothing has changed since."""
        with self._lock:
            known = self._find(arn)
            versions = self._versions.setdefault(arn, [])
            if versions and versions[-1].revision == known.revision:
                return versions[-1]
            number = self._published.get(arn, 0) + 1
            self._published[arn] = number
            version = replace(
                known, arn=f"{arn}:{number}", source=arn, description=description, created=dt.datetime.now(dt.UTC)
            )
            versions.append(version)
            return version

    def versions(self, arn: str) -> list[StateMachine]:
        """Return the published versions of a machine, newest first."""
        with self._lock:
            self._find(arn)
            return list(reversed(self._versions.get(arn, [])))

    def delete_version(self, arn: str) -> None:
        """Delete a published version; running executions go on."""
        with self._lock:
            source = arn.rpartition(":")[0]
            self._versions[source] = [each for each in self._versions.get(source, []) if each.arn != arn]

    def start(self, arn: str, name: str | None, input_text: str) -> MachineExecution:
        """Start an execution. The service refuses an invalid name or input, and a name in use."""
        machine = self.describe(arn)
        name = check_name(name or str(uuid.uuid4()))
        _check_input(input_text)
        with self._lock:
            execution = self._start(machine, name, input_text)
            if machine.express and machine.name in self.twice:
                self._start(machine, name, input_text)
        return execution

    def _start(self, machine: StateMachine, name: str, input_text: str) -> MachineExecution:
        source = machine.source or machine.arn
        kind, suffix = ("express", f":{uuid.uuid4()}") if machine.express else ("execution", "")
        identity = ExecutionIdentity(
            f"{ARN}:{kind}:{machine.name}:{name}{suffix}", name, machine.role, source, machine.name, machine.express
        )
        known = self._executions.get(identity.arn)
        if known is not None:
            if known.status == "RUNNING" and known.input_text == input_text:
                return known
            raise ServiceRefused("ExecutionAlreadyExists", f"Execution Already Exists: '{identity.arn}'")
        execution = MachineExecution(
            identity,
            machine.parsed,
            input_text,
            services=self.services,
            tokens=self.tokens,
            sink=lambda event: self._record_event(execution, machine, event),
            pace=lambda: self.pace,
        )
        self._executions[identity.arn] = execution
        execution.start()
        return execution

    def _record_event(self, execution: MachineExecution, machine: StateMachine, event: HistoryEvent) -> None:
        self.ship(machine.logging, execution.identity, event)
        for watch in self.watchers:
            watch(execution, event)

    def execution(self, arn: str) -> MachineExecution:
        """Return a Standard execution; Express executions are visible only in their logs on AWS."""
        execution = self._executions.get(arn)
        if execution is None or execution.identity.express:
            raise ServiceRefused("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return execution

    def executions(self, machine_arn: str) -> list[MachineExecution]:
        """Return executions, newest first, without those of an earlier machine of the same name."""
        with self._lock:
            since = self._find(machine_arn).created
            found = [
                each
                for each in self._executions.values()
                if each.identity.machine_arn == machine_arn and each.started >= since
            ]
        return sorted(found, key=lambda each: each.started, reverse=True)

    def running(self) -> list[MachineExecution]:
        """Return running executions of every machine, of either type."""
        with self._lock:
            return [each for each in self._executions.values() if each.status == "RUNNING"]

    def _find(self, arn: str) -> StateMachine:
        if arn not in self._machines:
            raise ServiceRefused("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")
        return self._machines[arn]


def parse(definition: str, machine_type: str) -> MachineDefinition:
    """Return the parsed definition; ServiceRefused (InvalidDefinition) with all mistakes."""
    try:
        return parse_machine(definition, express=machine_type == "EXPRESS")
    except InvalidDefinition as error:
        raise ServiceRefused("InvalidDefinition", str(error)) from error


def _check_input(text: str) -> None:
    if len(text.encode()) > LARGEST_PAYLOAD:
        raise ServiceRefused("InvalidExecutionInput", f"The input is longer than {LARGEST_PAYLOAD} bytes")
    try:
        json.loads(text)
    except ValueError as error:
        raise ServiceRefused("InvalidExecutionInput", f"Invalid State Machine Execution Input: '{error}'") from error

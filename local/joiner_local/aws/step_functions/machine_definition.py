"""A state machine as a value, and all reasons for which AWS refuses to create one.

Only what is executed here is accepted: JSONata, inline Map, the integrations of `task_resources`. Anything else in a
definition fails at creation, as does what AWS refuses: unknown fields, missing or unreachable states, invalid
expressions, a task that waits for a token in an EXPRESS machine.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from joiner_local.aws.step_functions.jsonata_expressions import MOST_SECONDS, Json, is_expression, syntax_error
from joiner_local.aws.step_functions.task_resources import NotRecognized, TaskResource, parse_resource

LONGEST_STATE_NAME = 80
LARGEST_DEFINITION = 1_048_576  # bytes: quota of Step Functions

_COMMON = frozenset({"Type", "Comment", "QueryLanguage", "Next", "End", "Output", "Assign"})
_HANDLED = frozenset({"Retry", "Catch"})
_FIELDS: Mapping[str, frozenset[str]] = {
    "Task": _COMMON | _HANDLED | {"Resource", "Arguments", "TimeoutSeconds", "HeartbeatSeconds"},
    "Map": _COMMON | _HANDLED | {"Items", "ItemSelector", "ItemProcessor", "MaxConcurrency"},
    "Parallel": _COMMON | _HANDLED | {"Branches", "Arguments"},
    "Pass": _COMMON,
    "Wait": _COMMON | {"Seconds", "Timestamp"},
    "Choice": (_COMMON - {"Next", "End"}) | {"Choices", "Default"},
    "Succeed": _COMMON - {"Next", "End", "Assign"},
    "Fail": frozenset({"Type", "Comment", "QueryLanguage", "Error", "Cause"}),
}
_TOP = frozenset({"Comment", "QueryLanguage", "StartAt", "States", "TimeoutSeconds", "Version"})
_BRANCH = frozenset({"Comment", "StartAt", "States", "ProcessorConfig"})
_RETRY = frozenset(
    {"ErrorEquals", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "JitterStrategy", "Comment"}
)
RESERVED_ERRORS = frozenset(
    f"States.{name}"
    for name in (
        "ALL",
        "TaskFailed",
        "Timeout",
        "HeartbeatTimeout",
        "Permissions",
        "Runtime",
        "DataLimitExceeded",
        "QueryEvaluationError",
        "NoChoiceMatched",
        "BranchFailed",
        "ExceedToleratedFailureThreshold",
        "ItemReaderFailed",
        "ResultWriterFailed",
        "IntrinsicFailure",
        "ParameterPathFailure",
        "ResultPathMatchFailure",
    )
)
"""Names that Amazon States Language reserves ("Handling errors in Step Functions workflows")."""

_VARIABLE = re.compile(r"[^\W\d]\w{0,79}")


class InvalidDefinition(Exception):
    """The definition is refused. The message is that of CreateStateMachine, with every problem and its place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(f"Invalid State Machine Definition: '{', '.join(problems)}'")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Retrier:
    errors: tuple[str, ...]
    interval: float = 1.0
    max_attempts: int = 3
    backoff: float = 2.0
    max_delay: float | None = None
    jitter: bool = False

    def delay(self, attempt: int) -> float:
        """Return the seconds before an attempt; attempt 1 is the first retry."""
        seconds = float(self.interval * self.backoff ** (attempt - 1))
        return seconds if self.max_delay is None else min(seconds, self.max_delay)


@dataclass(frozen=True, slots=True)
class Catcher:
    errors: tuple[str, ...]
    next: str
    fields: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class StateDefinition:
    """`fields` are those of the state as written; the other attributes are parsed from them."""

    name: str
    type: str
    next: str | None
    fields: Mapping[str, Json]
    resource: TaskResource | None = None
    retriers: tuple[Retrier, ...] = ()
    catchers: tuple[Catcher, ...] = ()
    branches: "tuple[MachineDefinition, ...]" = ()


@dataclass(frozen=True, slots=True)
class MachineDefinition:
    start_at: str
    states: Mapping[str, StateDefinition]
    timeout: float | None = None


def parse_machine(text: str, *, express: bool = False) -> MachineDefinition:
    """Parse a definition. Raises `InvalidDefinition` with every problem."""
    if len(text.encode()) > LARGEST_DEFINITION:
        raise InvalidDefinition(["DEFINITION_TOO_LARGE: the definition is longer than 1 MB"])
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidDefinition([f"INVALID_JSON_DESCRIPTION: {error}"]) from error
    reader = _Reader(express)
    if not isinstance(document, Mapping):
        raise InvalidDefinition(["INVALID_JSON_DESCRIPTION: not an object"])
    reader.language = document.get("QueryLanguage", "JSONPath")
    machine = reader.machine(document, "", _TOP, frozenset())
    if reader.problems:
        raise InvalidDefinition(reader.problems)
    return machine


@dataclass(slots=True)
class _Reader:
    """Read a definition and collect its problems."""

    express: bool
    language: str = "JSONPath"
    problems: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def refuse(self, message: str, path: str, kind: str = "SCHEMA_VALIDATION_FAILED") -> None:
        self.problems.append(f"{kind}: {message} at {path or '/'}")

    def machine(
        self, document: Mapping[str, Json], path: str, known: frozenset[str], outer: frozenset[str]
    ) -> MachineDefinition:
        self._known_fields(document, known, path)
        states = document.get("States")
        start_at = document.get("StartAt")
        if not isinstance(states, Mapping) or not states:
            self.refuse("These fields are required: [States]", path)
            states = {}
        if start_at not in states:
            self.refuse(f"Missing 'Next' target: {start_at}", f"{path}/StartAt", "MISSING_TRANSITION_TARGET")
        assigned = frozenset(name for body in states.values() for name in _assigned(body))
        for name in sorted(assigned & outer):
            self.refuse(f"The variable '{name}' is assigned in an outer scope already", path)
        read = {
            name: self.state(name, body, f"{path}/States/{name}", outer | assigned) for name, body in states.items()
        }
        self._transitions(str(start_at), read, path)
        return MachineDefinition(str(start_at), read, self._seconds(document, "TimeoutSeconds", path))

    def state(self, name: str, body: Json, path: str, scope: frozenset[str]) -> StateDefinition:
        if not isinstance(body, Mapping) or body.get("Type") not in _FIELDS:
            self.refuse("The value of the field 'Type' is not a type of state", path)
            return StateDefinition(name, "Fail", None, {})
        kind = str(body["Type"])
        self._name(name, path)
        if body.get("QueryLanguage", self.language) != "JSONata":
            self.refuse("The local AWS executes JSONata only: set QueryLanguage to JSONata", path)
        self._known_fields(body, _FIELDS[kind], path)
        self._expressions(body, path)
        self._variables(body, path)
        if "Next" in _FIELDS[kind] and ("Next" in body) == bool(body.get("End")):
            self.refuse("A state must have either Next or End", path)
        return StateDefinition(
            name,
            kind,
            body.get("Next"),
            body,
            resource=self._resource(body, path) if kind == "Task" else None,
            retriers=tuple(self._retriers(body, path)),
            catchers=tuple(self._catchers(body, path)),
            branches=tuple(self._branches(kind, body, path, scope)),
        )

    def _name(self, name: str, path: str) -> None:
        if not 1 <= len(name) <= LONGEST_STATE_NAME:
            self.refuse(f"The name of a state has 1 to {LONGEST_STATE_NAME} characters", path)
        if name in self.names:
            self.refuse(f"DUPLICATE_STATE_NAME: '{name}' occurs twice in the state machine", path)
        self.names.add(name)

    def _known_fields(self, document: Mapping[str, Json], known: frozenset[str], path: str) -> None:
        for name in document:
            if name not in known:
                self.refuse(f"Field '{name}' is not supported", path)

    def _expressions(self, value: Json, path: str) -> None:
        if isinstance(value, str) and is_expression(value):
            problem = syntax_error(value[2:-2].strip())
            if problem is not None:
                self.refuse(f"The JSONata expression is not valid: {problem}", path)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                if key not in ("ItemProcessor", "Branches"):  # their states are read one by one
                    self._expressions(item, f"{path}/{key}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._expressions(item, f"{path}[{index}]")

    def _variables(self, body: Mapping[str, Json], path: str) -> None:
        for name in _assigned(body):
            if not _VARIABLE.fullmatch(name) or name == "states":
                self.refuse(f"'{name}' cannot be the name of a variable", f"{path}/Assign")

    def _resource(self, body: Mapping[str, Json], path: str) -> TaskResource | None:
        arn = str(body.get("Resource", ""))
        try:
            resource = parse_resource(arn)
        except NotRecognized:
            self.refuse(
                f"The resource provided {arn} is not recognized. The value is not a valid resource ARN, "
                "or the resource is not available in this region.",
                f"{path}/Resource",
            )
            return None
        if self.express and resource.waits:
            self.refuse(
                f"Express state machine does not support '.{resource.pattern}' service integration", f"{path}/Resource"
            )
        arguments = body.get("Arguments")
        if resource.kind != "function" and isinstance(arguments, Mapping):
            for name in resource.unknown_parameters(arguments):
                self.refuse(f'The field "{name}" is not supported by Step Functions', f"{path}/Arguments")
        return resource

    def _retriers(self, body: Mapping[str, Json], path: str) -> Iterator[Retrier]:
        for index, each in enumerate(body.get("Retry", [])):
            errors = self._errors(each, f"{path}/Retry[{index}]", last=index == len(body["Retry"]) - 1)
            self._known_fields(each, _RETRY, f"{path}/Retry[{index}]")
            for problem in retry_problems(each):
                self.refuse(problem, f"{path}/Retry[{index}]")
            yield Retrier(
                errors,
                float(each.get("IntervalSeconds", 1)),
                int(each.get("MaxAttempts", 3)),
                float(each.get("BackoffRate", 2.0)),
                float(each["MaxDelaySeconds"]) if "MaxDelaySeconds" in each else None,
                each.get("JitterStrategy") == "FULL",
            )

    def _catchers(self, body: Mapping[str, Json], path: str) -> Iterator[Catcher]:
        for index, each in enumerate(body.get("Catch", [])):
            errors = self._errors(each, f"{path}/Catch[{index}]", last=index == len(body["Catch"]) - 1)
            self._known_fields(
                each, frozenset({"ErrorEquals", "Next", "Assign", "Output", "Comment"}), f"{path}/Catch[{index}]"
            )
            yield Catcher(errors, str(each.get("Next")), each)

    def _errors(self, each: Mapping[str, Json], path: str, *, last: bool) -> tuple[str, ...]:
        errors = tuple(each.get("ErrorEquals") or ())
        if not errors:
            self.refuse("These fields are required: [ErrorEquals]", path)
        if "States.ALL" in errors and (len(errors) > 1 or not last):
            self.refuse("States.ALL must stand alone, in the last Retry or Catch", path)
        for unknown in (name for name in errors if name.startswith("States.") and name not in RESERVED_ERRORS):
            self.refuse(f"'{unknown}' is no error name: names that begin with 'States.' are reserved", path)
        return errors

    def _branches(
        self, kind: str, body: Mapping[str, Json], path: str, scope: frozenset[str]
    ) -> Iterator[MachineDefinition]:
        if kind == "Map":
            processor = body.get("ItemProcessor")
            if not isinstance(processor, Mapping):
                self.refuse("These fields are required: [ItemProcessor]", path)
                return
            if processor.get("ProcessorConfig", {}).get("Mode", "INLINE") != "INLINE":
                self.refuse("The local AWS executes inline Map states only", f"{path}/ItemProcessor/ProcessorConfig")
            yield self.machine(processor, f"{path}/ItemProcessor", _BRANCH, scope)
        for index, branch in enumerate(body.get("Branches", []) if kind == "Parallel" else []):
            yield self.machine(branch, f"{path}/Branches[{index}]", _BRANCH, scope)

    def _transitions(self, start_at: str, states: Mapping[str, StateDefinition], path: str) -> None:
        reached, ahead = set(), [start_at]
        while ahead:
            name = ahead.pop()
            if name in reached or name not in states:
                continue
            reached.add(name)
            state = states[name]
            targets = [state.next] if state.next is not None else []
            targets += [catcher.next for catcher in state.catchers]
            targets += [choice.get("Next") for choice in state.fields.get("Choices", [])]
            targets += [state.fields["Default"]] if "Default" in state.fields else []
            for target in targets:
                if target not in states:
                    self.refuse(
                        f"Missing 'Next' target: {target}", f"{path}/States/{name}", "MISSING_TRANSITION_TARGET"
                    )
            ahead += [str(target) for target in targets]
        for name in states.keys() - reached:
            self.refuse(f'State "{name}" is not reachable.', f"{path}/States/{name}", "MISSING_TRANSITION_TARGET")
        for name, state in states.items():
            self._shape(state, f"{path}/States/{name}")

    def _shape(self, state: StateDefinition, path: str) -> None:
        """Check what one type of state requires."""
        fields = state.fields
        if state.type == "Wait" and ("Seconds" in fields) == ("Timestamp" in fields):
            self.refuse("A Wait state must have exactly one of Seconds and Timestamp", path)
        if state.type == "Wait":
            self._seconds(fields, "Seconds", path, least=0)
        if state.type == "Choice" and not all(
            "Condition" in choice and "Next" in choice for choice in fields.get("Choices") or [{}]
        ):
            self.refuse("A Choice state needs Choices, each with Condition and Next", path)
        if state.type == "Task":
            timeout, heartbeat = (
                self._seconds(fields, "TimeoutSeconds", path),
                self._seconds(fields, "HeartbeatSeconds", path),
            )
            if heartbeat is not None and timeout is not None and heartbeat >= timeout:
                self.refuse("HeartbeatSeconds must be smaller than TimeoutSeconds", path)
        if state.type == "Parallel" and not state.branches:
            self.refuse("These fields are required: [Branches]", path)

    def _seconds(self, document: Mapping[str, Json], name: str, path: str, least: int = 1) -> float | None:
        value = document.get(name)
        if value is None or is_expression(value):
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_SECONDS:
            self.refuse(f"The field '{name}' must be a whole number from {least} to {MOST_SECONDS}", f"{path}/{name}")
            return None
        return float(value)


def retry_problems(retrier: Mapping[str, Json]) -> Iterator[str]:
    """Return what is invalid in the numbers of a Retry ("Handling errors in Step Functions workflows", "Retrying after
    an error").

    >>> list(retry_problems({"IntervalSeconds": 5, "MaxDelaySeconds": 5}))
    ['MaxDelaySeconds must be greater than IntervalSeconds']
    """
    interval, longest = retrier.get("IntervalSeconds", 1), retrier.get("MaxDelaySeconds")
    for name, least, most in (
        ("IntervalSeconds", 1, MOST_SECONDS),
        ("MaxAttempts", 0, MOST_SECONDS),
        ("MaxDelaySeconds", 1, 31_622_399),
    ):
        value = retrier.get(name, least)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            yield f"{name} must be a whole number from {least} to {most}"
    if isinstance(longest, int) and isinstance(interval, int) and longest <= interval:
        yield "MaxDelaySeconds must be greater than IntervalSeconds"
    if not isinstance(rate := retrier.get("BackoffRate", 2.0), (int, float)) or rate < 1:
        yield "BackoffRate must be at least 1"
    if retrier.get("JitterStrategy", "NONE") not in ("FULL", "NONE"):
        yield "JitterStrategy must be FULL or NONE"


def _assigned(body: Json) -> Iterator[str]:
    """Return the names of variables that a state assigns, in any of its transitions."""
    if not isinstance(body, Mapping):
        return
    for holder in (body, *body.get("Catch", []), *body.get("Choices", [])):
        if isinstance(holder, Mapping):
            yield from holder.get("Assign", {})

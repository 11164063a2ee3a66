"""The interpreter of states: it runs the states of a machine, or of a branch, from one to the next."""

import datetime as dt
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from joiner_local.aws.step_functions.execution_history import (
    NOT_TRUNCATED,
)
from joiner_local.aws.step_functions.jsonata_expressions import Json, QueryEvaluationError, expected, whole_number
from joiner_local.aws.step_functions.machine_definition import Catcher, MachineDefinition, Retrier, StateDefinition
from joiner_local.aws.step_functions.payload_sizes import check_arguments, check_result, check_variables
from joiner_local.aws.step_functions.running_tasks import TIMEOUTS, RunningTask
from joiner_local.aws.step_functions.state_runs import ExecutionThread, StateRun, timestamp, to_text
from joiner_local.aws.step_functions.task_calls import Services, TaskCall
from joiner_local.aws.step_functions.task_tokens import (
    Halted,
    Promise,
    PromiseScope,
    StateFailure,
    TaskTokens,
    in_background,
)

INLINE_CONCURRENCY = 40  # most iterations of an inline Map at a time


NEVER_CAUGHT = frozenset({"States.DataLimitExceeded", "States.Runtime"})


OF_THE_LANGUAGE = NEVER_CAUGHT | {"States.QueryEvaluationError", "States.NoChoiceMatched"}


def matches(errors: tuple[str, ...], error: str) -> bool:
    """Return whether one of the names in ErrorEquals matches this error."""
    return any(
        name == error
        or (name == "States.ALL" and error not in NEVER_CAUGHT)
        or (name == "States.TaskFailed" and error not in TIMEOUTS | OF_THE_LANGUAGE)
        or (name == "States.Timeout" and error in TIMEOUTS)
        for name in errors
    )


@dataclass(frozen=True, slots=True)
class ExecutionIdentity:
    """The names of an execution, and the role in whose name it acts."""

    arn: str
    name: str
    role: str
    machine_arn: str
    machine_name: str
    express: bool


@dataclass(slots=True)
class StateInterpreter:
    """Execute states. An instance holds no progress: that is in the `ExecutionThread`. `pace` is the factor applied to
    waits.
    """

    identity: ExecutionIdentity
    started: dt.datetime
    input: Json
    services: Services
    tokens: TaskTokens
    pace: Callable[[], float]
    _context: dict[str, Json] = field(init=False)
    _kinds: dict[str, Callable[[StateDefinition, Json, StateRun], Json]] = field(init=False)

    def __post_init__(self) -> None:
        self._context = {
            "Execution": {
                "Id": self.identity.arn,
                "Input": self.input,
                "Name": self.identity.name,
                "RoleArn": self.identity.role,
                "StartTime": timestamp(self.started),
                "RedriveCount": 0,
            },
            "StateMachine": {"Id": self.identity.machine_arn, "Name": self.identity.machine_name},
        }
        self._kinds = {
            "Task": self._task,
            "Map": self._map,
            "Parallel": self._parallel,
            "Wait": self._wait,
            "Pass": lambda _state, given, _visit: given,
            "Succeed": lambda _state, given, _visit: given,
            "Fail": self._fail,
        }

    def run(self, machine: MachineDefinition, given: Json, thread: ExecutionThread) -> Json:
        name: str | None = machine.start_at
        while name is not None:
            thread.scope.check()
            name, given = self._state(machine.states[name], given, thread)
        return given

    def _state(self, state: StateDefinition, given: Json, thread: ExecutionThread) -> tuple[str | None, Json]:
        visit = StateRun(self._context, state, given, thread, dt.datetime.now(dt.UTC))
        thread.track.add(f"{state.type}StateEntered", name=state.name, input=to_text(given), inputDetails=NOT_TRUNCATED)
        visit.entered_at_event = thread.track.last
        following, output, assigned = (
            self._choice(state, visit) if state.type == "Choice" else self._with_handlers(state, given, visit)
        )
        text, stored = to_text(output), {key: to_text(value) for key, value in assigned.items()}
        try:
            check_result(text, state.name)
            check_variables(stored, thread.variables, state.name)
        except StateFailure as failure:
            raise visit.of_the_language(failure) from None
        thread.variables.update(assigned)
        details: dict[str, Any] = {"name": state.name, "output": text, "outputDetails": NOT_TRUNCATED}
        if assigned:
            details["assignedVariables"] = stored
            details["assignedVariablesDetails"] = NOT_TRUNCATED
        thread.track.add(f"{state.type}StateExited", **details)
        return following, output

    def _with_handlers(
        self, state: StateDefinition, given: Json, visit: StateRun
    ) -> tuple[str | None, Json, dict[str, Json]]:
        """Run the state, and repeat it according to Retry; after the last failure Catch determines the next state."""
        attempts = [0] * len(state.retriers)
        while True:
            try:
                result = self._kinds[state.type](state, given, visit)
                output, assigned = visit.leave(state.fields, result)
                return state.next, output, assigned
            except QueryEvaluationError as error:
                failure = visit.evaluation_failed(error)
            except StateFailure as error:
                failure = error
            delay = self._delay(state.retriers, attempts, failure)
            if delay is None:
                return self._caught(state.catchers, failure, visit)
            visit.thread.scope.sleep(delay * self.pace())
            visit.retries += 1

    def _delay(self, retriers: tuple[Retrier, ...], attempts: list[int], failure: StateFailure) -> float | None:
        """Return the seconds until the next attempt, or None if there is none. Only the first Retry that names the
        error counts.
        """
        for index, retrier in enumerate(retriers):
            if matches(retrier.errors, failure.error):
                attempts[index] += 1
                if attempts[index] > retrier.max_attempts:
                    return None
                delay = retrier.delay(attempts[index])
                return random.uniform(0, delay) if retrier.jitter else delay  # noqa: S311 - jitter, no secret
        return None

    def _caught(
        self, catchers: tuple[Catcher, ...], failure: StateFailure, visit: StateRun
    ) -> tuple[str | None, Json, dict[str, Json]]:
        for catcher in catchers:
            if matches(catcher.errors, failure.error):
                answer = {"Error": failure.error, "Cause": failure.cause}
                try:
                    output, assigned = visit.leave(catcher.fields, answer, error_output=answer)
                except QueryEvaluationError as error:
                    raise visit.of_the_language(visit.evaluation_failed(error)) from error
                return catcher.next, output, assigned
        raise visit.of_the_language(failure) if failure.error in OF_THE_LANGUAGE else failure

    # One method for each type of state: its result, before Output and Assign.

    def _fail(self, state: StateDefinition, _given: Json, visit: StateRun) -> Json:
        raise StateFailure(
            *(expected(visit.evaluate(state.fields.get(name, ""), name), str, name) for name in ("Error", "Cause"))
        )

    def _wait(self, state: StateDefinition, given: Json, visit: StateRun) -> Json:
        if "Timestamp" in state.fields:
            until = dt.datetime.fromisoformat(visit.evaluate(state.fields["Timestamp"], "Timestamp"))
            seconds = (until - dt.datetime.now(dt.UTC)).total_seconds()
        else:
            seconds = whole_number(visit.evaluate(state.fields["Seconds"], "Seconds"), "Seconds", least=0)
        visit.thread.scope.sleep(seconds * self.pace())
        return given

    def _choice(self, state: StateDefinition, visit: StateRun) -> tuple[str | None, Json, dict[str, Json]]:
        try:
            for index, choice in enumerate(state.fields["Choices"]):
                where = f"Choices[{index}]/Condition"
                if expected(visit.evaluate(choice["Condition"], where), bool, where):
                    # Output and Assign of a rule replace those of the state.
                    return choice["Next"], *visit.leave({**state.fields, **choice}, visit.given)
            if "Default" in state.fields:
                return state.fields["Default"], *visit.leave(state.fields, visit.given)
        except QueryEvaluationError as error:
            raise visit.of_the_language(visit.evaluation_failed(error)) from error
        raise visit.of_the_language(
            StateFailure("States.NoChoiceMatched", "No choice rule matched and there is no Default.")
        )

    def _task(self, state: StateDefinition, given: Json, visit: StateRun) -> Json:
        assert state.resource is not None
        token = self.tokens.issue(self.identity.machine_arn) if state.resource.pattern == "waitForTaskToken" else None
        try:
            visit.token = token[0] if token is not None else None
            arguments = visit.evaluate(state.fields.get("Arguments", given), "Arguments")
            check_arguments(arguments, state.name)
            limits = {
                limit: float(whole_number(visit.evaluate(state.fields[name], name), name, least=1))
                for name, limit in (("TimeoutSeconds", "timeout"), ("HeartbeatSeconds", "heartbeat"))
                if name in state.fields
            }
            task = RunningTask(visit.thread.track, visit.thread.scope, state.resource, arguments, **limits)
            call = TaskCall(self.services, state.resource, arguments, self.identity.role, task.submitted)
            return task.perform(call, token[1:] if token is not None else None)
        finally:
            if token is not None:
                self.tokens.close(token[0])

    def _map(self, state: StateDefinition, given: Json, visit: StateRun) -> Json:
        items = visit.evaluate(state.fields.get("Items", given), "Items")
        if not isinstance(items, list):
            raise QueryEvaluationError("The field 'Items' must be an array", "Items")
        at_once = whole_number(
            visit.evaluate(state.fields.get("MaxConcurrency", 0), "MaxConcurrency"), "MaxConcurrency", least=0
        )
        at_once = at_once or INLINE_CONCURRENCY
        check_arguments(items, state.name)
        visit.thread.track.add("MapStateStarted", length=len(items))

        def iteration(index: int, thread: ExecutionThread) -> Json:
            about = {"name": state.name, "index": index}
            thread.item = {"Index": index, "Value": items[index]}
            thread.track.add("MapIterationStarted", **about)
            try:
                chosen = items[index]
                if "ItemSelector" in state.fields:
                    chosen = replace(visit, thread=thread).evaluate(state.fields["ItemSelector"], "ItemSelector")
                    check_arguments(chosen, state.name)
                result = self.run(state.branches[0], chosen, thread)
                thread.track.add("MapIterationSucceeded", **about)
                return result
            except (StateFailure, QueryEvaluationError):
                thread.track.add("MapIterationFailed", **about)
                raise
            except Halted:
                thread.track.add("MapIterationAborted", **about)
                raise

        return self._branches("Map", [iteration] * len(items), min(at_once, INLINE_CONCURRENCY), visit)

    def _parallel(self, state: StateDefinition, given: Json, visit: StateRun) -> Json:
        chosen = visit.evaluate(state.fields.get("Arguments", given), "Arguments")
        visit.thread.track.add("ParallelStateStarted")
        branches = [lambda index, thread: self.run(state.branches[index], chosen, thread)] * len(state.branches)
        return self._branches("Parallel", branches, len(branches), visit)

    def _branches(
        self, kind: str, branches: list[Callable[[int, ExecutionThread], Json]], at_once: int, visit: StateRun
    ) -> list[Json]:
        """Run branches in threads, up to a number at once; the first failure halts the others."""
        group = visit.thread.scope.child()
        results: list[Json] = [None] * len(branches)
        waiting = iter(range(len(branches)))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    index = next(waiting, None)
                if index is None:
                    return
                thread = ExecutionThread(
                    visit.thread.track.branch(), group, dict(visit.thread.variables), visit.thread.item
                )
                results[index] = branches[index](index, thread)

        workers = [
            in_background(work, f"{self.identity.name}-{number}") for number in range(min(at_once, len(branches)))
        ]
        try:
            _first_failure_or_all(workers, visit.thread.scope)
        except (StateFailure, QueryEvaluationError) as failed:
            visit.thread.track.add(f"{kind}StateFailed")
            raise failed if isinstance(failed, StateFailure) else visit.evaluation_failed(failed) from None
        finally:
            group.halt()
            group.leave()
        visit.thread.track.add(f"{kind}StateSucceeded")
        return results


def _first_failure_or_all(promises: list[Promise], scope: PromiseScope) -> None:
    """Wait for all branches, or for the first failure, which is raised."""
    decided = Promise()
    left = len(promises)
    lock = threading.Lock()

    def settled(promise: Promise) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = left == 0
        if promise.failed or last:
            decided.settle(promise)

    for promise in promises:
        promise.then(settled)
    if promises:
        scope.wait(decided)
        decided.result().result()

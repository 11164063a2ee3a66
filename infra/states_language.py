"""Typed builders for states of the Amazon States Language, with expressions in JSONata.

A state machine is a mapping from state names to states, in the order in which they are read. It is a plain value, which
tests can inspect. The CDK's own constructs for states hide this order.

Source: https://docs.aws.amazon.com/step-functions/latest/dg/concepts-amazon-states-language.html
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.names import FOREIGN_DEFINITIONS, KARPENTER_RUNS

State = Mapping[str, Any]
States = Mapping[str, State]
"""States by name, in order: the first is where a machine or an iteration of a Map starts."""

EVERY_ERROR: Final = "States.ALL"

LAMBDA_SERVICE_ERRORS: Final = (
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",  # missing in the CDK's default list
    "Lambda.ClientExecutionTimeoutException",
)

LAMBDA_WAKES: Final = (
    "Lambda.ResourceNotReadyException",
    "Lambda.ResourceConflictException",
    "Lambda.EC2ThrottledException",
)
"""A function in a VPC that was idle for weeks is inactive: the first invocation fails, and Lambda makes it a network
interface, which takes a minute or more. Source: Lambda, "Lambda function states"."""

CONDITION_FAILED: Final = ("DynamoDB.ConditionalCheckFailedException", "DynamoDb.ConditionalCheckFailedException")
"""The optimised integration and the SDK integration spell the name of the service differently."""

PARAMETER_NOT_FOUND: Final = ("Ssm.ParameterNotFoundException", "Ssm.ParameterNotFound")

EXECUTION_EXISTS: Final = (
    "StepFunctions.ExecutionAlreadyExistsException",
    "StepFunctions.ExecutionAlreadyExists",
    "Sfn.ExecutionAlreadyExistsException",
)


def jsonata(expression: str) -> str:
    """Return a JSONata expression in the form of a state's field.

    >>> jsonata("$round + 1")
    '{% $round + 1 %}'
    """
    return f"{{% {expression} %}}"


EXECUTION_NAME: Final = jsonata("$states.context.Execution.Name")
EXECUTION_ARN: Final = jsonata("$states.context.Execution.Id")
NOW_SECONDS: Final = "$floor($millis() / 1000)"
"""JSONata: whole seconds since the epoch."""
RESULT: Final = jsonata("$states.result")

CAUSE_LIMIT: Final = 500
"""Characters of an error's cause in a result of a Map. A cause may have 32,768; all results of a Map share 256 KiB."""

FAILURE: Final = f"""{{
  "Error": $states.input.Error,
  "Cause": $substring($exists($states.input.Cause) ? $states.input.Cause : "", 0, {CAUSE_LIMIT})
}}"""
"""JSONata: the error that a Catch passed on as its output, short enough for a result of a Map."""

REFUSED_BY_KARPENTER: Final = "Refused: Karpenter is running"
REFUSED_BY_FOREIGN_CRDS: Final = "Refused: the definitions are not Joiner's"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a task is retried. The interval doubles after each attempt, with full jitter.

    `attempts` of 0 means that these errors are not retried. `interval` and `longest` are seconds.
    """

    errors: Sequence[str]
    attempts: int
    interval: int = 1
    longest: int = 20

    def render(self) -> State:
        """Return the retrier as the Amazon States Language defines it."""
        if self.attempts == 0:
            return {"ErrorEquals": list(self.errors), "MaxAttempts": 0}
        return {
            "ErrorEquals": list(self.errors),
            "IntervalSeconds": self.interval,
            "MaxAttempts": self.attempts,
            "BackoffRate": 2,
            "MaxDelaySeconds": self.longest,
            "JitterStrategy": "FULL",
        }


@dataclass(frozen=True, slots=True)
class Catch:
    """The state to which an error leads.

    If `kept`, the error becomes `$failure`, which the final *Fail* state reports. It is not kept where it is expected,
    or where an earlier error is the one to report. The error is the output, unless `output` is another one.
    """

    errors: Sequence[str]
    next: str
    kept: bool = True
    output: Any = None
    assign: Mapping[str, Any] | None = None

    def render(self) -> State:
        """Return the catcher as the Amazon States Language defines it."""
        assigned = {**({"failure": jsonata("$states.errorOutput")} if self.kept else {}), **(self.assign or {})}
        return _without_none(
            {"ErrorEquals": list(self.errors), "Assign": assigned or None, "Output": self.output, "Next": self.next}
        )


@dataclass(frozen=True, slots=True)
class TaskState:
    """A call of another service; `timeout` is seconds, or an expression for them.

    Errors that a `catch` names are expected: they are caught at once, never retried.
    """

    resource: str
    arguments: Mapping[str, Any]
    timeout: int | str
    next: str | None = None
    assign: Mapping[str, Any] | None = None
    output: Any = RESULT
    # States.TaskFailed stands for every error but a timeout
    retry: Sequence[Retry] = (Retry(["States.TaskFailed", "States.Timeout"], attempts=3),)
    catch: Sequence[Catch] = ()

    def render(self) -> State:
        """Return the state as the Amazon States Language defines it."""
        expected = [error for catch in self.catch for error in catch.errors if error != EVERY_ERROR]
        retry = [Retry(expected, attempts=0)] if expected else []
        return _without_none(
            {
                "Type": "Task",
                "Resource": self.resource,
                "Arguments": self.arguments,
                "TimeoutSeconds": self.timeout,
                "Assign": self.assign,
                "Output": self.output,
                "Retry": [each.render() for each in (*retry, *self.retry)],
                "Catch": [each.render() for each in self.catch] or None,
                **_transition(self.next),
            }
        )


def wait_state(seconds: int | str, *, next: str, assign: Mapping[str, Any] | None = None) -> State:
    """Return a Wait state; `seconds` may be an expression."""
    return _without_none({"Type": "Wait", "Seconds": seconds, "Assign": assign, "Next": next})


def choice_state(branches: Mapping[str, str], *, otherwise: str, assign: Mapping[str, Any] | None = None) -> State:
    """Return a Choice state: the first condition (JSONata) that is true names the next state.

    The variables of `assign` are set in every branch.
    """
    assigned = {"Assign": assign} if assign is not None else {}
    return {
        "Type": "Choice",
        "Choices": [
            {"Condition": jsonata(condition), **assigned, "Next": next} for condition, next in branches.items()
        ],
        **assigned,  # for the default only: a rule that matches has its own
        "Default": otherwise,
    }


def pass_state(*, assign: Mapping[str, Any] | None = None, output: Any = None, next: str | None = None) -> State:
    """Return a Pass state, which sets variables or an output; without `next` it ends its machine or iteration."""
    return _without_none({"Type": "Pass", "Assign": assign, "Output": output, **_transition(next)})


def map_state(
    items: str,
    *,
    selector: Mapping[str, Any],
    concurrency: int,
    states: States,
    next: str,
    catch: Sequence[Catch],
    assign: Mapping[str, Any] | None = None,
) -> State:
    """Return an inline Map state: `states` run for each of `items` (JSONata), `concurrency` at a time.

    States inside read variables of the outer scope, but cannot set them.
    """
    return _without_none(
        {
            "Type": "Map",
            "Items": jsonata(items),
            "ItemSelector": selector,
            "MaxConcurrency": concurrency,
            "ItemProcessor": {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": first_state(states), "States": states},
            "Assign": assign,
            "Catch": [each.render() for each in catch],
            "Next": next,
        }
    )


def parallel_state(
    branches: Sequence[States], *, next: str, catch: Sequence[Catch], assign: Mapping[str, Any] | None = None
) -> State:
    """Return a Parallel state: each branch starts with its first state, and the outputs of all are the result.

    The first branch that fails stops the others. States inside read variables of the outer scope, but cannot set them.
    """
    return _without_none(
        {
            "Type": "Parallel",
            "Branches": [{"StartAt": first_state(states), "States": states} for states in branches],
            "Assign": assign,
            "Catch": [each.render() for each in catch],
            "Next": next,
        }
    )


def succeed_state(output: Any = None) -> State:
    """Return a Succeed state."""
    return _without_none({"Type": "Succeed", "Output": output})


def fail_state(failure: str = "$failure") -> State:
    """Return a Fail state that reports an error; a timeout has no cause.

    `failure` is JSONata for the error. The default is the one that the last Catch set.
    """
    cause = f'$exists({failure}.Cause) ? {failure}.Cause : ""'
    return {"Type": "Fail", "Error": jsonata(f"{failure}.Error"), "Cause": jsonata(cause)}


def refusal_branches(reason: str) -> Mapping[str, str]:
    """Return the branches of a choice that lead to `refusal_states`; `reason` is JSONata for the reason of the
    refusal."""
    return {
        f"{reason} = '{KARPENTER_RUNS}'": REFUSED_BY_KARPENTER,
        f"{reason} = '{FOREIGN_DEFINITIONS}'": REFUSED_BY_FOREIGN_CRDS,
    }


def refusal_states(reason: str) -> States:
    """Return the states in which a machine ends because another autoscaler manages the cluster."""
    return {
        name: succeed_state({"refused": jsonata(reason)}) for name in (REFUSED_BY_KARPENTER, REFUSED_BY_FOREIGN_CRDS)
    }


def state_machine(states: States, *, comment: str, timeout: int) -> State:
    """Return the definition of a state machine; an execution ends after `timeout` seconds."""
    return {
        "Comment": comment,
        "QueryLanguage": "JSONata",
        "StartAt": first_state(states),
        "TimeoutSeconds": timeout,
        "States": states,
    }


def first_state(states: States) -> str:
    """Return the name of the state in which a machine or an iteration starts."""
    return next(iter(states))


def _transition(next: str | None) -> State:
    return {"End": True} if next is None else {"Next": next}


def _without_none(state: State) -> State:
    return {key: value for key, value in state.items() if value is not None}

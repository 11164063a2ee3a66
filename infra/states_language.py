"""States of a state machine as small typed builders, in JSONata.

CDK's own constructs would do, but hide what the console shows: here a machine is a mapping of sentences to states, readable in order, and
a value that a test can walk. Names of states are what people read in the console, so they say what happens.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner.names import FOREIGN_DEFINITIONS, KARPENTER_RUNS, STOPS_EVERYTHING, STOPS_LAUNCHES, pause_parameter

State = Mapping[str, Any]

EVERY_ERROR: Final = "States.ALL"

LAMBDA_SERVICE_ERRORS: Final = (
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.TooManyRequestsException",  # CDK's default list forgets this one
    "Lambda.ClientExecutionTimeoutException",
)

CONDITION_FAILED: Final = ("DynamoDB.ConditionalCheckFailedException", "DynamoDb.ConditionalCheckFailedException")
"""The optimised integration and the SDK integration spell the service differently."""

PARAMETER_NOT_FOUND: Final = ("Ssm.ParameterNotFoundException", "Ssm.ParameterNotFound")

EXECUTION_EXISTS: Final = (
    "StepFunctions.ExecutionAlreadyExistsException",
    "StepFunctions.ExecutionAlreadyExists",
    "Sfn.ExecutionAlreadyExistsException",
)


def jsonata(expression: str) -> str:
    """
    >>> jsonata("$round + 1")
    '{% $round + 1 %}'
    """
    return f"{{% {expression} %}}"


EXECUTION_ARN: Final = jsonata("$states.context.Execution.Id")
NOW_SECONDS: Final = "$floor($millis() / 1000)"
RESULT: Final = jsonata("$states.result")

PAYLOAD: Final[Mapping[str, Any]] = {
    "schema": 1,
    "execution": {
        "name": jsonata("$states.context.Execution.Name"),
        "id": EXECUTION_ARN,
        "startTime": jsonata("$states.context.Execution.StartTime"),
    },
    "cluster": jsonata("$cluster"),
    "round": jsonata("$turn"),  # $round is a function of JSONata
}
"""What every function is told. The schema number lets a function tell an execution that began before an upgrade."""


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function as a state machine calls it: its published version, and how long it may take."""

    arn: str
    timeout: int


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how patiently, a task is tried again: the pause doubles, with jitter."""

    errors: Sequence[str]
    attempts: int
    interval: int = 1
    longest: int = 20

    def render(self) -> State:
        """As Amazon States Language has it."""
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
    """Where an error leads; the error itself is kept in `$failure`, unless an earlier one is what people should read. It is the output,
    too, unless another one is given."""

    errors: Sequence[str]
    next: str
    kept: bool = True
    output: Any = None
    assign: Mapping[str, Any] | None = None

    def render(self) -> State:
        """As Amazon States Language has it."""
        assigned = {**({"failure": jsonata("$states.errorOutput")} if self.kept else {}), **(self.assign or {})}
        return _without_none(
            {"ErrorEquals": list(self.errors), "Assign": assigned or None, "Output": self.output, "Next": self.next}
        )


@dataclass(frozen=True, slots=True)
class TaskState:
    """Something that is done by another service. Errors that are expected are not tried again, only caught."""

    resource: str
    arguments: Mapping[str, Any]
    timeout: int | str
    next: str | None = None
    assign: Mapping[str, Any] | None = None
    output: Any = RESULT
    retry: Sequence[Retry] = (Retry(["States.TaskFailed"], attempts=3),)
    catch: Sequence[Catch] = ()

    def render(self) -> State:
        """As Amazon States Language has it."""
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


RETRY_LAMBDA_SERVICE: Final = Retry(LAMBDA_SERVICE_ERRORS, attempts=6)
RETRY_FUNCTION_FAILURE: Final = Retry(["States.TaskFailed", "States.Timeout"], attempts=2, interval=2)
"""For whatever a function raises, or a sandbox that died: the world may have been broken for a moment."""


@dataclass(frozen=True, slots=True)
class ServiceIntegrations:
    """The services that states call, spelt for the partition (`aws`, `aws-cn`, ...)."""

    partition: str

    def service(self, action: str) -> str:
        """The resource of a service's action, such as `dynamodb:updateItem`."""
        return f"arn:{self.partition}:states:::{action}"

    def invoke(
        self,
        callee: CalledFunction,
        payload: Mapping[str, Any],
        *,
        next: str | None = None,
        assign: Mapping[str, Any] | None = None,
        retry: Sequence[Retry] = (),
        catch: Sequence[Catch] = (),
    ) -> State:
        """A function's turn; its answer is the state's output."""
        return TaskState(
            resource=self.service("lambda:invoke"),
            arguments={"FunctionName": callee.arn, "Payload": {**PAYLOAD, **payload}},
            timeout=callee.timeout + 10,  # the Lambda is dead by then: a timed-out task alone would not stop it
            next=next,
            assign=assign,
            output=jsonata("$states.result.Payload"),
            retry=(*retry, RETRY_LAMBDA_SERVICE, RETRY_FUNCTION_FAILURE),
            catch=catch,
        ).render()

    def describe_cluster(self, cluster: str, *, next: str, assign: Mapping[str, Any], catch: Sequence[Catch]) -> State:
        """The cluster's endpoint and CA, asked each time: EKS may rotate the CA."""
        return TaskState(
            resource=self.service("aws-sdk:eks:describeCluster"),
            arguments={"Name": cluster},
            timeout=10,
            next=next,
            assign={"cluster": jsonata(CLUSTER_FIELDS), **assign},
            catch=catch,
        ).render()

    def unless_paused(
        self, cluster: str, *, next: str, catch: Sequence[Catch], launching: bool = False
    ) -> Mapping[str, State]:
        """Three states before whatever acts: an execution that finds Joiner paused ends well, and has done nothing.

        The first is "Read the pause". A parameter that somebody deleted pauses nobody; one that cannot be read is an error. What launches
        is paused while all nodes are drained, too.
        """
        stops = STOPS_LAUNCHES if launching else STOPS_EVERYTHING
        return {
            "Read the pause": self._read_the_pause(
                cluster, stops, next="Is Joiner paused?", unknown=next, into="paused", catch=catch
            ),
            "Is Joiner paused?": choice_state({"$paused": "Joiner is paused"}, otherwise=next),
            "Joiner is paused": succeed_state({"paused": True}),
        }

    def unless_paused_meanwhile(self, cluster: str, *, next: str, paused: str, failed: str) -> Mapping[str, State]:
        """Two states before the next look of what goes on for long, in a Map: where it sets no variable of an outer scope."""
        catch = [Catch([EVERY_ERROR], failed, kept=False)]
        is_it = "Was Joiner paused meanwhile?"
        return {
            "Read the pause again": self._read_the_pause(
                cluster, STOPS_EVERYTHING, next=is_it, unknown=next, into="pausedMeanwhile", catch=catch
            ),
            is_it: choice_state({"$pausedMeanwhile": paused}, otherwise=next),
        }

    def _read_the_pause(
        self, cluster: str, stops: Sequence[str], *, next: str, unknown: str, into: str, catch: Sequence[Catch]
    ) -> State:
        return TaskState(
            resource=self.service("aws-sdk:ssm:getParameter"),
            arguments={"Name": pause_parameter(cluster)},
            timeout=10,
            next=next,
            assign={into: jsonata(f"$states.result.Parameter.Value in {json.dumps(stops)}")},
            catch=[Catch(PARAMETER_NOT_FOUND, unknown, kept=False), *catch],
        ).render()


CLUSTER_FIELDS: Final = """{
  "name": $states.result.Cluster.Name,
  "endpoint": $states.result.Cluster.Endpoint,
  "certificateAuthority": $states.result.Cluster.CertificateAuthority.Data,
  "version": $states.result.Cluster.Version,
  "serviceCidr": $states.result.Cluster.KubernetesNetworkConfig.($exists(ServiceIpv6Cidr) ? ServiceIpv6Cidr : ServiceIpv4Cidr),
  "ipFamily": $states.result.Cluster.KubernetesNetworkConfig.IpFamily,
  "subnets": $states.result.Cluster.ResourcesVpcConfig.SubnetIds,
  "securityGroup": $states.result.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId
}"""


def wait_state(seconds: int | str, *, next: str, assign: Mapping[str, Any] | None = None) -> State:
    """A pause; its length may be an expression. What is assigned is known after it."""
    return _without_none({"Type": "Wait", "Seconds": seconds, "Assign": assign, "Next": next})


def choice_state(branches: Mapping[str, str], *, otherwise: str, assign: Mapping[str, Any] | None = None) -> State:
    """The first condition that holds leads on; conditions are JSONata. What is assigned is so wherever it leads."""
    assigned = {"Assign": assign} if assign is not None else {}
    return {
        "Type": "Choice",
        "Choices": [
            {"Condition": jsonata(condition), **assigned, "Next": next} for condition, next in branches.items()
        ],
        **assigned,  # a rule that holds has its own only
        "Default": otherwise,
    }


def pass_state(*, assign: Mapping[str, Any] | None = None, output: Any = None, next: str | None = None) -> State:
    """A state that only remembers or says something."""
    return _without_none({"Type": "Pass", "Assign": assign, "Output": output, **_transition(next)})


def map_state(
    items: str,
    *,
    selector: Mapping[str, Any],
    at_once: int,
    states: Mapping[str, State],
    next: str,
    catch: Sequence[Catch],
) -> State:
    """The same states for each item, some at once."""
    return {
        "Type": "Map",
        "Items": jsonata(items),
        "ItemSelector": selector,
        "MaxConcurrency": at_once,
        "ItemProcessor": {"ProcessorConfig": {"Mode": "INLINE"}, "StartAt": first_state(states), "States": states},
        "Catch": [each.render() for each in catch],
        "Next": next,
    }


REFUSED_BY_KARPENTER: Final = "Refused: Karpenter is running"
REFUSED_BY_FOREIGN_CRDS: Final = "Refused: the definitions are not Joiner's"


def refusal_branches(guard: str) -> Mapping[str, str]:
    """Branches of a choice that lead where a machine ends beside another autoscaler; `guard` is JSONata for what the guards said."""
    return {
        f"{guard} = '{KARPENTER_RUNS}'": REFUSED_BY_KARPENTER,
        f"{guard} = '{FOREIGN_DEFINITIONS}'": REFUSED_BY_FOREIGN_CRDS,
    }


def refusal_states(guard: str) -> Mapping[str, State]:
    """The states to which `refusals` lead."""
    return {
        name: succeed_state({"refused": jsonata(guard)}) for name in (REFUSED_BY_KARPENTER, REFUSED_BY_FOREIGN_CRDS)
    }


def succeed_state(output: Any = None) -> State:
    """A good end."""
    return _without_none({"Type": "Succeed", "Output": output})


CAUSE_LIMIT: Final = 500
"""Characters of an error's cause in a result of a Map: a cause may have 32,768, and the results of all iterations 256 KiB together."""

FAILURE: Final = f"""{{
  "Error": $states.input.Error,
  "Cause": $substring($exists($states.input.Cause) ? $states.input.Cause : "", 0, {CAUSE_LIMIT})
}}"""
"""JSONata: the error that a Catch handed on as its output, short enough to be a result of a Map."""


def fail_state() -> State:
    """A bad end, for the reason that the last Catch kept; a timeout has no cause."""
    cause = '$exists($failure.Cause) ? $failure.Cause : ""'
    return {"Type": "Fail", "Error": jsonata("$failure.Error"), "Cause": jsonata(cause)}


def first_state(states: Mapping[str, State]) -> str:
    """The first state: machines are written in the order in which they are read."""
    return next(iter(states))


def state_machine(states: Mapping[str, State], *, comment: str, timeout: int) -> State:
    """A whole state machine."""
    return {
        "Comment": comment,
        "QueryLanguage": "JSONata",
        "StartAt": first_state(states),
        "TimeoutSeconds": timeout,
        "States": states,
    }


def _transition(next: str | None) -> State:
    return {"End": True} if next is None else {"Next": next}


def _without_none(state: State) -> State:
    return {key: value for key, value in state.items() if value is not None}

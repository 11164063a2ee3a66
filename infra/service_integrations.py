"""Task states that call AWS services: Lambda, DynamoDB, Step Functions, EKS and Systems Manager."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.states_language import (
    EVERY_ERROR,
    EXECUTION_ARN,
    EXECUTION_EXISTS,
    EXECUTION_NAME,
    LAMBDA_SERVICE_ERRORS,
    LAMBDA_WAKES,
    PARAMETER_NOT_FOUND,
    RESULT,
    Catch,
    Retry,
    State,
    States,
    TaskState,
    choice_state,
    jsonata,
    succeed_state,
)
from joiner.names import STOPS_EVERYTHING, STOPS_LAUNCHES, pause_parameter

CALL_SECONDS: Final = 10
"""Timeout of a call of an AWS service other than Lambda."""

FUNCTION_TIMEOUT_MARGIN: Final = 10
"""Seconds by which a task outlives its function. When the task times out, Lambda has stopped the function; a shorter
task would leave the function running."""

RETRY_LAMBDA_SERVICE: Final = Retry(LAMBDA_SERVICE_ERRORS, attempts=6)
RETRY_WAKING_FUNCTION: Final = Retry(LAMBDA_WAKES, attempts=12, interval=5)
"""For two minutes on average, because of the jitter."""
RETRY_API_SERVER: Final = Retry(["Unreachable", "TooManyRequests"], attempts=4, interval=2)
"""For a cluster's API server that does not answer, or is too busy (`joiner.adapters.kube_errors`). EKS replaces its
servers in upgrades and when they grow. Longer than for other errors: a quarter of a minute on average, because of the
jitter. After a longer outage the next sweep starts again."""
RETRY_FUNCTION_FAILURE: Final = Retry(["States.TaskFailed", "States.Timeout"], attempts=2, interval=2)
"""For errors that a function raises, and for a sandbox that crashed: the cause may be temporary."""

PAYLOAD: Final[Mapping[str, Any]] = {
    "schema": 1,
    "execution": {
        "name": EXECUTION_NAME,
        "id": EXECUTION_ARN,
        "startTime": jsonata("$states.context.Execution.StartTime"),
    },
    "cluster": jsonata("$cluster"),
    "round": jsonata("$turn"),  # $round is a function of JSONata
}
"""What the payload of every function contains. A function refuses another schema: that execution started before an
upgrade."""

CLUSTER_FIELDS: Final = """{
  "name": $states.result.Cluster.Name,
  "endpoint": $states.result.Cluster.Endpoint,
  "certificateAuthority": $states.result.Cluster.CertificateAuthority.Data,
  "version": $states.result.Cluster.Version,
  "serviceCidr": $states.result.Cluster.KubernetesNetworkConfig.\
($exists(ServiceIpv6Cidr) ? ServiceIpv6Cidr : ServiceIpv4Cidr),
  "ipFamily": $states.result.Cluster.KubernetesNetworkConfig.IpFamily,
  "subnets": $states.result.Cluster.ResourcesVpcConfig.SubnetIds,
  "securityGroup": $states.result.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId
}"""
"""JSONata: the cluster as `joiner.adapters.payload` reads it, from the answer of `eks:DescribeCluster`."""


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """A Lambda function as a state machine calls it: the ARN of its published version, and its timeout in seconds."""

    arn: str
    timeout: int


@dataclass(frozen=True, slots=True)
class ItemUpdate:
    """One conditional `dynamodb:UpdateItem` request, with the fields of its API."""

    key: Mapping[str, Any]
    expression: str
    values: Mapping[str, Any]
    condition: str | None = None
    names: Mapping[str, str] | None = None
    return_values: str | None = None

    def arguments(self, table: str) -> Mapping[str, Any]:
        """Return the arguments of the task for this table."""
        fields = {
            "TableName": table,
            "Key": self.key,
            "UpdateExpression": self.expression,
            "ConditionExpression": self.condition,
            "ExpressionAttributeNames": self.names,
            "ExpressionAttributeValues": self.values,
            "ReturnValues": self.return_values,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ServiceIntegrations:
    """Task states for one partition (`aws`, `aws-cn`, ...)."""

    partition: str

    def service(self, action: str) -> str:
        """Return the resource of a service's action, such as `dynamodb:updateItem`."""
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
        """Invoke a function; its result is the output of the state."""
        return TaskState(
            resource=self.service("lambda:invoke"),
            arguments={"FunctionName": callee.arn, "Payload": {**PAYLOAD, **payload}},
            timeout=callee.timeout + FUNCTION_TIMEOUT_MARGIN,
            next=next,
            assign=assign,
            output=jsonata("$states.result.Payload"),
            retry=(*retry, RETRY_LAMBDA_SERVICE, RETRY_WAKING_FUNCTION, RETRY_API_SERVER, RETRY_FUNCTION_FAILURE),
            catch=catch,
        ).render()

    def update_item(
        self,
        table: str,
        update: ItemUpdate,
        *,
        next: str | None = None,
        catch: Sequence[Catch],
        assign: Mapping[str, Any] | None = None,
        output: Any = RESULT,
    ) -> State:
        """Update one item of a table. A condition that is false is the error `CONDITION_FAILED`, which the caller
        catches."""
        return TaskState(
            resource=self.service("dynamodb:updateItem"),
            arguments=update.arguments(table),
            timeout=CALL_SECONDS,
            next=next,
            assign=assign,
            output=output,
            catch=catch,
        ).render()

    def start_execution(
        self,
        machine_arn: str,
        name: str,
        input: Mapping[str, Any],
        *,
        next: str,
        on_error: str,
        keep_error: bool = False,
    ) -> State:
        """Start an execution of another machine; an existing execution of this name also counts. `name` is JSONata."""
        return TaskState(
            resource=self.service("states:startExecution"),
            arguments={"StateMachineArn": machine_arn, "Name": jsonata(name), "Input": input},
            timeout=CALL_SECONDS,
            next=next,
            catch=[Catch(EXECUTION_EXISTS, next, kept=False), Catch([EVERY_ERROR], on_error, kept=keep_error)],
        ).render()

    def describe_cluster(self, cluster: str, *, next: str, assign: Mapping[str, Any], catch: Sequence[Catch]) -> State:
        """Read the endpoint and the CA of the cluster into `$cluster`. Every execution does: EKS may rotate the CA."""
        return TaskState(
            resource=self.service("aws-sdk:eks:describeCluster"),
            arguments={"Name": cluster},
            timeout=CALL_SECONDS,
            next=next,
            assign={"cluster": jsonata(CLUSTER_FIELDS), **assign},
            catch=catch,
        ).render()

    def unless_paused(self, cluster: str, *, next: str, catch: Sequence[Catch], launching: bool = False) -> States:
        """Return three states, from *Read the pause* to `next`: a machine that is paused succeeds without any action.

        A parameter that does not exist does not pause; one that cannot be read is an error. A machine that is
        `launching` is paused while all nodes are drained, too.
        """
        stops = STOPS_LAUNCHES if launching else STOPS_EVERYTHING
        return {
            "Read the pause": self._read_pause(
                cluster, stops, next="Is Joiner paused?", if_missing=next, variable="paused", catch=catch
            ),
            "Is Joiner paused?": choice_state({"$paused": "Joiner is paused"}, otherwise=next),
            "Joiner is paused": succeed_state({"paused": True}),
        }

    def read_pause(self, cluster: str, *, next: str, catch: Sequence[Catch], launching: bool = False) -> State:
        """Return a state that sets `$paused`: whether Joiner, or what is `launching`, is paused. It leads to `next` in
        both cases."""
        stops = STOPS_LAUNCHES if launching else STOPS_EVERYTHING
        return self._read_pause(cluster, stops, next=next, if_missing=next, variable="paused", catch=catch)

    def unless_paused_meanwhile(self, cluster: str, *, next: str, paused: str, failed: str) -> States:
        """Return two states of a long loop in a Map, where no variable of the outer scope can be set.

        They lead from *Read the pause again* to `next`, to `paused`, or, if the parameter cannot be read, to `failed`.
        """
        question = "Was Joiner paused meanwhile?"
        return {
            "Read the pause again": self._read_pause(
                cluster,
                STOPS_EVERYTHING,
                next=question,
                if_missing=next,
                variable="pausedMeanwhile",
                catch=[Catch([EVERY_ERROR], failed, kept=False)],
            ),
            question: choice_state({"$pausedMeanwhile": paused}, otherwise=next),
        }

    def _read_pause(
        self, cluster: str, stops: Sequence[str], *, next: str, if_missing: str, variable: str, catch: Sequence[Catch]
    ) -> State:
        return TaskState(
            resource=self.service("aws-sdk:ssm:getParameter"),
            arguments={"Name": pause_parameter(cluster)},
            timeout=CALL_SECONDS,
            next=next,
            assign={variable: jsonata(f"$states.result.Parameter.Value in {json.dumps(stops)}")},
            catch=[Catch(PARAMETER_NOT_FOUND, if_missing, kept=False), *catch],
        ).render()


def execution_name(prefix: str, suffix: str, *, milliseconds: bool = False) -> str:
    """Return JSONata for the name of an execution: prefix, time to the second or millisecond, suffix.

    Executions that are started within one second get one name, so that only the first of them starts. What gave the
    lease back needs milliseconds: the execution of that second may have ended before, because the lease was held.

    >>> execution_name("up", "sweep")
    "'up-' & $now('[Y0001][M01][D01]T[H01][m01][s01]') & '-sweep'"
    """
    fraction = "-[f001]" if milliseconds else ""
    return f"'{prefix}-' & $now('[Y0001][M01][D01]T[H01][m01][s01]{fraction}') & '-{suffix}'"

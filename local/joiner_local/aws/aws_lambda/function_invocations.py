"""Lambda: moto stores functions, versions, aliases and layers; this module runs them, and refuses what AWS refuses.

All callers in moto use `LambdaFunction.invoke`, so that method is replaced. Other modules of this process use
`FunctionInvoker.invoke`.
"""

import base64
import datetime as dt
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from joiner_local.aws.attribute_patches import add_items, replace_attribute, wrap_attribute
from joiner_local.aws.aws_lambda import dead_letters, function_settings
from joiner_local.aws.aws_lambda.cpu_shares import CpuShares
from joiner_local.aws.aws_lambda.function_packages import Archive, PackageStore
from joiner_local.aws.aws_lambda.runtime_api import failure
from joiner_local.aws.aws_lambda.runtime_interpreters import RuntimeInterpreters
from joiner_local.aws.aws_lambda.sandbox_pool import InvocationThrottled, SandboxPool
from joiner_local.aws.aws_lambda.sandboxes import FunctionSpec, InvocationResult, SandboxEnvironment
from joiner_local.aws.cloudwatch.log_shipping import LogShipper, put_metrics
from joiner_local.aws.iam.assumed_roles import assume
from joiner_local.aws.iam.service_calls import log_denial
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import read_texts

if TYPE_CHECKING:
    from moto.awslambda.models import LambdaFunction

log = logging.getLogger(__name__)

# Seconds before the second and third attempt of an asynchronous invocation; on AWS about one and two minutes.
RETRY_DELAYS = (1.0, 2.0)
LARGEST_REQUEST = 6_291_456  # bytes
LARGEST_EVENT = 1_048_576  # bytes of an asynchronous invocation's payload


class FunctionNotFound(Exception):
    """There is no function, version or alias of that name; the message is that of Lambda."""


def install(aws: LocalAws, logs: LogShipper) -> "FunctionInvoker":
    import moto.core.config as moto_config

    # moto's name for its full backend; Docker is not used
    add_items(moto_config, "default_user_config", {"lambda": {"use_docker": True}})
    functions = FunctionInvoker(aws, logs)
    aws.closing.append(functions.close)
    function_settings.install()
    aws.add_knobs(
        {
            "concurrency-quota": function_settings.set_account_concurrency,
            "cpu-shares": functions.cpu_shares.turn,
            "function-cpu": functions.report_cpu,
            "preload": functions.preload,
            "sandboxes/end": functions.end_idle,
        }
    )
    _replace_invoke(functions)
    _forget_deleted(functions)
    _deliver_subscriptions()
    return functions


class FunctionInvoker:
    """Invoke functions by name, partial or whole ARN, with or without a qualifier."""

    def __init__(self, aws: LocalAws, logs: LogShipper) -> None:
        self._aws = aws
        self._store = PackageStore(aws.data / "packages")
        self._metrics = ThreadPoolExecutor(1, "lambda-metrics")
        self._cpu_seconds: defaultdict[str, float] = defaultdict(float)
        self._cpu_lock = threading.Lock()

        def ship(spec: FunctionSpec, stream: str, line: str) -> None:
            if log_denial(spec.role, spec.name, spec.log_group, stream) is None:  # else the line is lost, as on AWS
                logs.ship(spec.log_group, stream, line)

        self._interpreters = RuntimeInterpreters(aws.python, aws.data)
        self.cpu_shares = CpuShares()
        self._pool = SandboxPool(
            SandboxEnvironment(self._interpreters, aws.data / "sandboxes", self._variables, ship, self.cpu_shares)
        )

    def find(self, name: str, qualifier: str | None = None) -> "LambdaFunction":
        from moto.awslambda.exceptions import LambdaClientError
        from moto.awslambda.models import lambda_backends

        try:
            return lambda_backends[ACCOUNT][REGION].get_function(name, qualifier)
        except LambdaClientError as error:
            raise FunctionNotFound(error.message) from error

    def invoke(self, name: str, qualifier: str | None, payload: bytes) -> InvocationResult:
        """Invoke and wait. Raises `FunctionNotFound` and `InvocationThrottled`; an error of the function itself is
        in the result.
        """
        return self.call(self.find(name, qualifier), payload)

    def invoke_later(self, name: str, qualifier: str | None, payload: bytes) -> str:
        """Invoke asynchronously, with up to two retries and then the dead-letter queue. Returns the request id."""
        return self.call_later(self.find(name, qualifier), payload)

    def call(
        self, function: "LambdaFunction", payload: bytes, request_id: str | None = None, context: str | None = None
    ) -> InvocationResult:
        result = self._pool.invoke(self._spec(function), payload, request_id, context)
        with self._cpu_lock:
            self._cpu_seconds[function.function_name] += result.cpu_seconds
        self._metrics.submit(_measure, function.function_name, result)
        return result

    def call_later(self, function: "LambdaFunction", payload: bytes) -> str:
        request_id = str(uuid.uuid4())
        threading.Thread(
            target=self._attempts, args=(function, payload, request_id), name="event-invocation", daemon=True
        ).start()
        return request_id

    def _attempts(self, function: "LambdaFunction", payload: bytes, request_id: str) -> None:
        for delay in (*RETRY_DELAYS[: dead_letters.most_retries(function)], None):
            try:
                result = self.call(function, payload, request_id)
                if result.error is None:
                    return
                answer = result.payload
            except InvocationThrottled:
                answer = failure("TooManyRequestsException", "Rate Exceeded.")
            if delay is not None:
                time.sleep(delay)
        dead_letters.send(function, payload, request_id, answer)

    def _spec(self, function: "LambdaFunction") -> FunctionSpec:
        from moto.awslambda.models import lambda_backends

        layers = [lambda_backends[ACCOUNT][REGION].layers_versions_by_arn(layer["Arn"]) for layer in function.layers]
        reserved = function.reserved_concurrency
        return FunctionSpec(
            arn=function.function_arn,
            name=function.function_name,
            version=str(function.version),
            handler=function.handler,
            runtime=function.run_time,
            timeout=float(function.timeout),
            memory_mb=int(function.memory_size),
            role=function.role,
            code=self._store.unpack(Archive(function.code_sha_256, function.code_bytes)),
            layers=self._store.unpack(*(Archive(each.code_sha_256, each.code_bytes) for each in layers))
            if layers
            else None,
            environment=tuple(sorted((key, str(value)) for key, value in (function.environment_vars or {}).items())),
            log_group=function.logs_group_name,
            concurrency=function_settings.account_concurrency() if reserved in (None, "") else int(reserved),
        )

    def _variables(self, spec: FunctionSpec) -> Mapping[str, str]:
        """Return credentials of the function's role, so that sts:GetCallerIdentity names it, and the local endpoint."""
        credentials = assume(spec.role, spec.name)
        return {
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret,
            "AWS_SESSION_TOKEN": credentials.session_token,
            "AWS_ENDPOINT_URL": self._aws.endpoint,
            "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
        }

    def report_cpu(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: return ``{"seconds": {FUNCTION: 1.5}}``, the CPU time of all sandboxes of each function so far."""
        with self._cpu_lock:
            return {"seconds": {name: round(seconds, 3) for name, seconds in sorted(self._cpu_seconds.items())}}

    def preload(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: set the packages of layers that sandboxes need not import, ``{"packages": ["joiner"]}``; none first.

        Cold starts then take less computing than on AWS.
        """
        packages = tuple(read_texts(asked, "packages"))
        self._interpreters.preload(packages)
        return {"packages": list(packages)}

    def end_idle(self, _asked: Mapping[str, Any]) -> dict[str, Any]:
        """Knob: end all idle sandboxes, as Lambda does after a quiet time; return their number, ``{"ended": 7}``."""
        return {"ended": self._pool.end_idle()}

    def forget(self, arn: str) -> None:
        self._pool.forget(arn)

    def close(self) -> None:
        self._pool.close()


def _measure(name: str, result: InvocationResult) -> None:
    now = dt.datetime.now(dt.UTC)
    values = (
        ("Invocations", 1.0, "Count"),
        ("Errors", 0.0 if result.error is None else 1.0, "Count"),
        ("Duration", result.duration_ms, "Milliseconds"),
    )
    put_metrics(
        "AWS/Lambda",
        [
            {
                "MetricName": metric,
                "Value": value,
                "Unit": unit,
                "Dimensions": [{"Name": "FunctionName", "Value": name}],
                "Timestamp": now,
            }
            for metric, value, unit in values
        ],
    )


def _replace_invoke(functions: FunctionInvoker) -> None:
    from moto.awslambda.exceptions import LambdaClientError
    from moto.awslambda.models import LambdaFunction

    def refuse(code: str, message: str, status: int) -> LambdaClientError:
        error = LambdaClientError(code, message)
        error.code = status
        return error

    def invoke(function: LambdaFunction, body: str | bytes | None, request: Any, response: dict[str, str]) -> bytes:
        payload = (body if isinstance(body, bytes) else (body or "").encode()) or b"{}"
        kind = request.get("X-Amz-Invocation-Type") or request.get("x-amz-invocation-type") or "RequestResponse"
        if len(payload) > (LARGEST_EVENT if kind == "Event" else LARGEST_REQUEST):
            limit = LARGEST_EVENT if kind == "Event" else LARGEST_REQUEST
            raise refuse(
                "RequestTooLargeException",
                f"Request must be smaller than {limit} bytes for the InvokeFunction operation",
                413,
            )
        response["x-amz-executed-version"] = str(function.version)
        if kind == "DryRun":
            return b""
        if kind == "Event":
            functions.call_later(function, payload)
            return b""
        try:
            context = request.get("X-Amz-Client-Context") or request.get("x-amz-client-context")
            result = functions.call(function, payload, context=context)
        except InvocationThrottled as error:
            raise refuse("TooManyRequestsException", "Rate Exceeded.", 429) from error
        if result.error is not None:
            response["x-amz-function-error"] = result.error
        response["x-amz-log-result"] = base64.b64encode(result.log[-4096:].encode()).decode()
        return result.payload

    replace_attribute(LambdaFunction, "invoke", invoke)


def _forget_deleted(functions: FunctionInvoker) -> None:
    from moto.awslambda.models import LambdaStorage

    delete = LambdaStorage.del_function

    def del_function(self: Any, name_or_arn: str, qualifier: str | None = None) -> None:
        gone = self.get_function_by_name_or_arn_with_qualifier(name_or_arn, qualifier).function_arn
        delete(self, name_or_arn, qualifier)
        functions.forget(gone)

    wrap_attribute(LambdaStorage, "del_function", del_function, delete)


def _deliver_subscriptions() -> None:
    """Deliver log subscriptions asynchronously and filtered. moto invokes the function within PutLogEvents, for every
    event.
    """
    from moto.awslambda.models import LambdaBackend
    from moto.logs.models import logs_backends
    from moto.logs.utils import EventMessageFilter

    send = LambdaBackend.send_log_event

    def send_log_event(backend: Any, function_arn: str, filter_name: str, log_group_name: str, *rest: Any) -> None:
        *stream, events = rest
        found = logs_backends[ACCOUNT][REGION].groups[log_group_name].subscription_filters[filter_name]
        wanted = [event for event in events if EventMessageFilter(found.filter_pattern or "").matches(event["message"])]
        if wanted:
            arguments = (backend, function_arn, filter_name, log_group_name, *stream, wanted)
            threading.Thread(target=send, args=arguments, name="log-subscription", daemon=True).start()

    wrap_attribute(LambdaBackend, "send_log_event", send_log_event, send)

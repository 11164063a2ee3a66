"""Keep settings of functions that moto drops, and refuse requests that AWS refuses and moto accepts.

Refused ("CreateFunction", "Lambda quotas", "Defined runtime environment variables"): a name in use, unknown runtimes,
timeouts and memory out of range, reserved or too many environment variables, more than five layers, packages of more
than 250 MB unzipped.
"""

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from joiner_local.aws.attribute_patches import replace_attribute, wrap_attribute
from joiner_local.aws.aws_lambda.function_packages import LARGEST_UNZIPPED, Archive
from joiner_local.aws.iam.assumed_roles import check_assumable
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.knob_requests import read_whole

RUNTIMES = frozenset({"python3.10", "python3.11", "python3.12", "python3.13", "python3.14"})
_OF_LAMBDA = (
    "FUNCTION_NAME",
    "FUNCTION_MEMORY_SIZE",
    "FUNCTION_VERSION",
    "INITIALIZATION_TYPE",
    "LOG_GROUP_NAME",
    "LOG_STREAM_NAME",
)
_OF_AWS = (
    "DEFAULT_REGION",
    "REGION",
    "EXECUTION_ENV",
    "ACCESS_KEY",
    "ACCESS_KEY_ID",
    "SECRET_ACCESS_KEY",
    "SESSION_TOKEN",
)
RESERVED = (
    frozenset({"_HANDLER", "_X_AMZN_TRACE_ID", "AWS_LAMBDA_RUNTIME_API", "LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR"})
    | {f"AWS_{name}" for name in _OF_AWS}
    | {f"AWS_LAMBDA_{name}" for name in _OF_LAMBDA}
)
LARGEST_ENVIRONMENT = 4096  # bytes
MOST_LAYERS = 5
_ENVIRONMENT = (
    "Lambda was unable to configure your environment variables because the environment variables you have provided"
)
LEFT_UNRESERVED = 100  # concurrency that an account cannot reserve
_QUOTA = {"concurrency": 1000}
_HANDLER = re.compile(r"[^\s.]+(\.[^\s.]+)+")


def install() -> None:
    from moto.awslambda import models

    _check_creation(models)
    _keep_settings(models)
    _number_versions(models)
    _check_concurrency(models)
    _check_permissions(models)


def problems(spec: Mapping[str, Any]) -> list[str]:
    """Return what AWS refuses in the settings of a request to create or change a function. Settings that are not in the
    request are valid.

    >>> problems({"Timeout": 1000, "Environment": {"Variables": {"AWS_REGION": "x"}}})  # doctest: +ELLIPSIS
    ['Timeout must be from 1 to 900, not 1000', '...Reserved keys used in this request: AWS_REGION']
    """
    found = []
    for name, least, most in (("Timeout", 1, 900), ("MemorySize", 128, 10240)):
        if name in spec and not least <= int(spec[name]) <= most:
            found.append(f"{name} must be from {least} to {most}, not {spec[name]}")
    if spec.get("Runtime", "python3.13") not in RUNTIMES:
        found.append(
            f"Value {spec['Runtime']} at 'runtime' failed to satisfy constraint: Member must be one of "
            f"{sorted(RUNTIMES)}"
        )
    if "Handler" in spec and not _HANDLER.fullmatch(spec["Handler"]):
        found.append(f"Value {spec['Handler']!r} at 'handler' is no MODULE.FUNCTION")
    variables = (spec.get("Environment") or {}).get("Variables") or {}
    reserved = sorted(RESERVED & variables.keys())
    if reserved:
        result = (
            "contains reserved keys that are currently not supported for modification. Reserved keys used in "
            "this request: "
        )
        found.append(f"{_ENVIRONMENT} {result}{', '.join(reserved)}")
    measured = json.dumps(variables, separators=(",", ":"))
    if len(measured.encode()) > LARGEST_ENVIRONMENT:
        found.append(f"{_ENVIRONMENT} exceeded the 4KB limit. String measured: {measured}")
    if len(spec.get("Layers") or ()) > MOST_LAYERS:
        found.append(f"Cannot reference more than {MOST_LAYERS} layers.")
    return found


def _check_settings(spec: Mapping[str, Any]) -> None:
    from moto.awslambda.exceptions import InvalidParameterValueException

    found = problems(spec)
    if "Role" in spec and (untrusted := check_assumable(spec["Role"], "lambda.amazonaws.com")) is not None:
        found.append(f"The role defined for the function cannot be assumed by Lambda. {untrusted}")
    if found:
        raise InvalidParameterValueException("; ".join(found))


def _check_size(function: Any) -> None:
    """Check the size of a function and its layers, unzipped."""
    from moto.awslambda.exceptions import InvalidParameterValueException
    from moto.awslambda.models import lambda_backends

    layers = [lambda_backends[ACCOUNT][REGION].layers_versions_by_arn(each["Arn"]) for each in function.layers]
    size = sum(Archive(each.code_sha_256, each.code_bytes).unzipped for each in (function, *layers))
    if size > LARGEST_UNZIPPED:
        raise InvalidParameterValueException(f"Unzipped size must be smaller than {LARGEST_UNZIPPED} bytes")


def _check_creation(models: Any) -> None:
    from moto.awslambda.exceptions import FunctionAlreadyExists, InvalidParameterValueException

    backend = models.LambdaBackend
    create: Callable[..., Any] = backend.create_function
    configure: Callable[..., Any] = backend.update_function_configuration
    change_code: Callable[..., Any] = backend.update_function_code

    def create_function(self: Any, spec: dict[str, Any]) -> Any:
        if spec.get("FunctionName") in self._lambdas._functions:
            raise FunctionAlreadyExists(spec["FunctionName"])
        if "Handler" not in spec or "Runtime" not in spec:
            raise InvalidParameterValueException(
                "Runtime and Handler are mandatory parameters for functions created with deployment packages."
            )
        _check_settings(spec)
        function = create(self, spec)
        try:
            _check_size(function)
        except InvalidParameterValueException:
            self.delete_function(spec["FunctionName"])
            raise
        return function

    def update_function_configuration(self: Any, name: str, qualifier: str, body: dict[str, Any]) -> Any:
        _check_settings(body)
        return configure(self, name, qualifier, body)

    def update_function_code(self: Any, name: str, qualifier: str, body: dict[str, Any]) -> Any:
        answer = change_code(self, name, qualifier, body)
        _check_size(self.get_function(name))
        return answer

    wrap_attribute(backend, "create_function", create_function, create)
    wrap_attribute(backend, "update_function_configuration", update_function_configuration, configure)
    wrap_attribute(backend, "update_function_code", update_function_code, change_code)


def account_concurrency() -> int:
    """Return the concurrent executions that the account may have: 1,000, or 10 in many new accounts."""
    return _QUOTA["concurrency"]


def set_account_concurrency(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Knob `concurrency-quota {"executions": 10}`: set the account's quota; answer the quota before."""
    before, _QUOTA["concurrency"] = _QUOTA["concurrency"], read_whole(asked, "executions")
    return {"before": before}


def _check_concurrency(models: Any) -> None:
    """Refuse PutFunctionConcurrency that leaves less than 100 to functions without a reservation ("Configuring reserved
    concurrency").
    """
    from moto.awslambda.exceptions import InvalidParameterValueException

    backend = models.LambdaBackend
    reserve: Callable[..., str] = backend.put_function_concurrency

    def put_function_concurrency(self: Any, function_name: str, reserved_concurrency: str) -> str:
        others = (
            each
            for each in self.list_functions("$LATEST")
            if each.function_name != self.get_function(function_name).function_name
        )
        taken = sum(int(each.reserved_concurrency) for each in others if each.reserved_concurrency not in (None, ""))
        if (
            int(reserved_concurrency) > 0
            and account_concurrency() - taken - int(reserved_concurrency) < LEFT_UNRESERVED
        ):
            least = min(LEFT_UNRESERVED, account_concurrency())
            raise InvalidParameterValueException(
                "Specified ReservedConcurrentExecutions for function decreases account's UnreservedConcurrentExecution "
                f"below its minimum value of [{least}]."
            )
        return reserve(self, function_name, reserved_concurrency)

    wrap_attribute(backend, "put_function_concurrency", put_function_concurrency, reserve)


def _check_permissions(models: Any) -> None:
    """Refuse AddPermission with a statement id that the policy has; moto adds the statement again."""
    from moto.awslambda.exceptions import FunctionAlreadyExists

    backend = models.LambdaBackend
    add: Callable[..., dict[str, Any]] = backend.add_permission

    def add_permission(self: Any, function_name: str, qualifier: str, raw: str) -> dict[str, Any]:
        wanted = json.loads(raw).get("StatementId")
        if any(each.get("Sid") == wanted for each in self.get_function(function_name, qualifier).policy.statements):
            conflict = FunctionAlreadyExists(function_name)
            conflict.message = (
                f"The statement id ({wanted}) provided already exists. Please provide a new statement "
                "id, or remove the existing statement."
            )
            raise conflict
        return add(self, function_name, qualifier, raw)

    wrap_attribute(backend, "add_permission", add_permission, add)


def _keep_settings(models: Any) -> None:
    """Keep LoggingConfig and DeadLetterConfig always, and the other settings on updates, where moto drops them."""
    function = models.LambdaFunction
    begin: Callable[..., None] = function.__init__
    update: Callable[..., dict[str, Any]] = function.update_configuration
    describe: Callable[..., dict[str, Any]] = function.get_configuration

    def keep(self: Any, spec: Mapping[str, Any]) -> None:
        if spec.get("LoggingConfig"):
            self.logging_config = {"LogFormat": "Text", **spec["LoggingConfig"]}
            self.logs_group_name = self.logging_config.setdefault("LogGroup", f"/aws/lambda/{self.function_name}")
        if "DeadLetterConfig" in spec:
            self.dead_letter_target = (spec["DeadLetterConfig"] or {}).get("TargetArn")
        if spec.get("EphemeralStorage"):
            self.ephemeral_storage = int(spec["EphemeralStorage"]["Size"])
        if spec.get("TracingConfig"):
            self.tracing_config = spec["TracingConfig"]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.logging_config = {"LogFormat": "Text", "LogGroup": self.logs_group_name}
        self.dead_letter_target = None
        keep(self, kwargs.get("spec") or args[1])

    def update_configuration(self: Any, changes: dict[str, Any]) -> dict[str, Any]:
        keep(self, changes)
        return update(self, changes)

    def get_configuration(self: Any, on_create: bool = False) -> dict[str, Any]:
        result = describe(self, on_create)
        result["LoggingConfig"] = self.logging_config
        if self.dead_letter_target:
            result["DeadLetterConfig"] = {"TargetArn": self.dead_letter_target}
        return result

    wrap_attribute(function, "__init__", __init__, begin)
    wrap_attribute(function, "update_configuration", update_configuration, update)
    wrap_attribute(function, "get_configuration", get_configuration, describe)


def _number_versions(models: Any) -> None:
    """Never use the number of a version again. moto counts the existing versions, so it reuses the number of a deleted
    one.
    """
    storage = models.LambdaStorage

    def publish_version(self: Any, name_or_arn: str, description: str = "") -> Any:
        function = self.get_function_by_name_or_arn_forbid_qualifier(name_or_arn)
        group = self._functions[function.function_name]
        if group["versions"] and not function.code_or_config_updated:
            return group["versions"][-1]
        function.code_or_config_updated = False
        group["published"] = group.get("published", 0) + 1
        version = copy.copy(function)
        version.set_version(group["published"])
        version.description = description or function.description
        group["versions"].append(version)
        self._arns[version.function_arn] = version
        return version

    replace_attribute(storage, "publish_version", publish_version)

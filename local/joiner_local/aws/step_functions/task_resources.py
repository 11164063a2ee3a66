"""The service and action of a Task, and whether AWS creates a machine of that type with it.

There are three forms ("Integrating services with Step Functions"): a Lambda function's ARN; an optimized integration,
``arn:aws:states:::dynamodb:updateItem``; any call of the SDK,
``arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken``. The last two spell errors of the same call
differently: ``DynamoDB.`` and ``DynamoDb.`` before ``ConditionalCheckFailedException``.

>>> resource = parse_resource("arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken")
>>> resource.service, resource.action, resource.pattern, resource.error_prefix
('dynamodb', 'updateItem', 'waitForTaskToken', 'DynamoDb')
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import botocore.session
from botocore import xform_name
from botocore.model import OperationModel, StructureShape
from botocore.session import Session

Kind = Literal["function", "optimized", "sdk"]

# Optimized integrations that are executed here, with the patterns that AWS offers for them.
OPTIMIZED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("lambda", "invoke"): ("", "waitForTaskToken"),
    ("dynamodb", "getItem"): ("",),
    ("dynamodb", "putItem"): ("",),
    ("dynamodb", "updateItem"): ("",),
    ("dynamodb", "deleteItem"): ("",),
    ("states", "startExecution"): ("", "waitForTaskToken", "sync", "sync:2"),
    ("sqs", "sendMessage"): ("", "waitForTaskToken"),
    ("events", "putEvents"): ("", "waitForTaskToken"),
}
# Parameters of the API that the optimized DynamoDB integration lacks.
UNKNOWN_TO_OPTIMIZED = frozenset({"ReturnValuesOnConditionCheckFailure"})
OPTIMIZED_ERRORS = {
    "lambda": "Lambda",
    "dynamodb": "DynamoDB",
    "states": "StepFunctions",
    "sqs": "SQS",
    "events": "EventBridge",
}

# The names of the AWS SDK for Java 2, where they are not the service id of botocore in one word.
SDK_TO_BOTO = {"sfn": "stepfunctions", "eventbridge": "events", "cloudwatchlogs": "logs"}
SDK_ERRORS = {
    "dynamodb": "DynamoDb",
    "sfn": "Sfn",
    "eks": "Eks",
    "ec2": "Ec2",
    "sqs": "Sqs",
    "eventbridge": "EventBridge",
    "cloudwatch": "CloudWatch",
    "cloudwatchlogs": "CloudWatchLogs",
}


class NotRecognized(Exception):
    """The resource is nothing that a state machine can call."""


@dataclass(frozen=True, slots=True)
class TaskResource:
    """`pattern`: empty for request and response, else ``waitForTaskToken``, ``sync``, ``sync:2``."""

    arn: str
    kind: Kind
    service: str
    action: str
    pattern: str = ""

    @property
    def boto_service(self) -> str:
        return {"states": "stepfunctions"}.get(self.service) or SDK_TO_BOTO.get(self.service, self.service)

    @property
    def error_prefix(self) -> str:
        if self.kind == "optimized":
            return OPTIMIZED_ERRORS[self.service]
        return SDK_ERRORS.get(self.service, self.service[:1].upper() + self.service[1:])

    @property
    def type_in_history(self) -> str:
        return f"aws-sdk:{self.service}" if self.kind == "sdk" else self.service

    @property
    def name_in_history(self) -> str:
        return f"{self.action}.{self.pattern}" if self.pattern else self.action

    @property
    def waits(self) -> bool:
        """Whether the task continues after the call: for a token, or for the end of what it started. Express machines
        cannot.
        """
        return bool(self.pattern)

    def operation(self) -> OperationModel:
        found = _operations(self.boto_service).get(self.action.lower())
        if found is None:
            raise NotRecognized(self.arn)
        return found

    def unknown_parameters(self, names: Mapping[str, object]) -> list[str]:
        """Return parameters that Step Functions does not support; its spelling is PascalCase throughout."""
        shape = self.operation().input_shape
        known = spellings(shape) if isinstance(shape, StructureShape) else {}
        refused = UNKNOWN_TO_OPTIMIZED if (self.kind, self.service) == ("optimized", "dynamodb") else frozenset()
        return [name for name in names if name not in known or name in refused]


def parse_resource(arn: str) -> TaskResource:
    parts = arn.split(":")
    if len(parts) >= 7 and parts[:3] == ["arn", "aws", "lambda"] and parts[5] == "function":
        return TaskResource(arn, "function", "lambda", "invoke")
    if len(parts) < 7 or parts[:5] != ["arn", "aws", "states", "", ""]:
        raise NotRecognized(arn)
    if parts[5] == "aws-sdk" and len(parts) == 8:
        action, _, pattern = parts[7].partition(".")
        resource = TaskResource(arn, "sdk", parts[6], action, pattern)
        resource.operation()
        if pattern not in ("", "waitForTaskToken") or action[:1].isupper():
            raise NotRecognized(arn)
        return resource
    action, _, pattern = ":".join(parts[6:]).partition(".")
    if pattern not in OPTIMIZED.get((parts[5], action), ()):
        raise NotRecognized(arn)
    return TaskResource(arn, "optimized", parts[5], action, pattern)


def pascal_case(name: str) -> str:
    """Return a name with an upper-case first letter, as task results have it.

    >>> pascal_case("resourcesVpcConfig"), pascal_case("MD5OfMessageBody")
    ('ResourcesVpcConfig', 'Md5OfMessageBody')
    """
    return "".join(word[:1].upper() + word[1:] for word in xform_name(name).split("_"))


def spellings(shape: StructureShape) -> dict[str, str]:
    """Return the names of a structure's members in state machines, mapped to the API's names."""
    return {pascal_case(name): name for name in shape.members} | {
        name: name for name in shape.members if name[:1].isupper()
    }


@cache
def _botocore() -> Session:
    return botocore.session.get_session()


@cache
def _operations(service: str) -> dict[str, OperationModel]:
    session = _botocore()
    if service not in session.get_available_services():
        return {}
    model = session.get_service_model(service)
    return {name.lower(): model.operation_model(name) for name in model.operation_names}

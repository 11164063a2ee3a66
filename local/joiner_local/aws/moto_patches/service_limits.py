"""Refuse what services refuse beyond their schema and moto accepts: sizes, counts, values that depend on each other.

Each check runs before the method of moto that does the work, so it applies to the API and to CloudFormation. Errors are
those of AWS; `tests/local/refusals` is the table of all refusals, with their sources and one test each.
"""

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moto.apigatewayv2.exceptions import APIGatewayV2Error
from moto.apigatewayv2.models import Api
from moto.cloudwatch.exceptions import ValidationError
from moto.cloudwatch.models import CloudWatchBackend
from moto.core.exceptions import JsonRESTError
from moto.dynamodb.exceptions import MockValidationException
from moto.dynamodb.models import DynamoDBBackend
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import InstanceBackend
from moto.ec2.responses import EC2Response
from moto.events.models import EventsBackend
from moto.iam.exceptions import LimitExceededException
from moto.iam.models import IAMBackend
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogsBackend
from moto.s3.exceptions import MalformedXML, S3ClientError
from moto.s3.models import S3Backend
from moto.sqs.exceptions import InvalidAttributeValue, InvalidParameterValue, QueueDoesNotExist
from moto.sqs.models import SQSBackend
from moto.ssm.exceptions import ValidationException
from moto.ssm.models import SimpleSystemManagerBackend

from joiner_local.aws.attribute_patches import wrap_attribute

Asked = Mapping[str, Any]
"""The arguments of the method, by name; `self` is the backend."""

LONGEST_SORT_KEY: Final = 1024  # bytes
LONGEST_PARTITION_KEY: Final = 2048  # bytes
LONGEST_EXPRESSION: Final = 4096  # bytes
LARGEST_TRANSACTION: Final = 4 * 1024 * 1024  # bytes
LONGEST_OBJECT_KEY: Final = 1024  # bytes
MOST_DELETED: Final = 1000
LARGEST_INLINE_POLICIES: Final = 10_240  # characters without white space, all of a role's together
LONGEST_PARAMETER: Final = 4096  # characters
DEEPEST_PARAMETER: Final = 15
LONGEST_PATTERN: Final = 2048
MOST_TARGETS: Final = 5
RETENTION_DAYS: Final = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
ATTRIBUTES: Final = {
    "VisibilityTimeout": (0, 43_200),
    "MessageRetentionPeriod": (60, 1_209_600),
    "DelaySeconds": (0, 900),
}
MOST_FILTER_VALUES: Final = 200
SMALLEST_PAGE: Final = 5
WITHOUT_TAGS: Final = ("DescribeInstanceStatus",)  # their results have no tags, so no filter reads tags
DESCRIBED: Final = (
    "describe_instances",
    "describe_instance_status",
    "describe_subnets",
    "describe_security_groups",
    "describe_images",
    "describe_volumes",
)


def install() -> None:
    """Wrap each method with its check."""
    for owner, method, check in (
        (DynamoDBBackend, "update_item", _item_update),
        (DynamoDBBackend, "transact_write_items", _transaction),
        (S3Backend, "put_object", _object_key),
        (S3Backend, "delete_objects", _deletion),
        (S3Backend, "put_bucket_lifecycle_configuration", _lifecycle),
        (SimpleSystemManagerBackend, "put_parameter", _parameter),
        (IAMBackend, "put_role_policy", _inline_policies),
        (SQSBackend, "create_queue", _queue),
        (EventsBackend, "put_rule", _rule),
        (EventsBackend, "put_targets", _targets),
        (LogsBackend, "create_log_group", _log_group),
        (LogsBackend, "put_retention_policy", _retention),
        (LogsBackend, "put_metric_filter", _metric_filter),
        (CloudWatchBackend, "put_metric_alarm", _alarm),
        (Api, "create_route", _route),
        (Api, "create_stage", _stage),
        (InstanceBackend, "terminate_instances", _termination),
    ):
        checked_before(owner, method, check)
    for method in DESCRIBED:
        original = getattr(EC2Response, method)
        wrap_attribute(EC2Response, method, _described(method, original), original)


def checked_before(owner: type, method: str, check: Callable[[Asked], None]) -> None:
    """Call `check` with the arguments of a method before it runs."""
    original = getattr(owner, method)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def checked(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs).arguments
        check({**bound, **bound.get("kwargs", {}), **bound.get("asked", {})})
        return original(*args, **kwargs)

    wrap_attribute(owner, method, checked, original)


# DynamoDB ("Quotas", "Expressions")


def _item_update(asked: Asked) -> None:
    _key(asked["self"].get_table(asked["table_name"]), asked["key"])
    for name in ("update_expression", "condition_expression"):
        if len((asked.get(name) or "").encode()) > LONGEST_EXPRESSION:
            kind = name.title().replace("_", "")
            raise MockValidationException(
                f"Invalid {kind}: Expression size has exceeded the maximum allowed size; expression size: "
                f"{len(asked[name].encode())}"
            )


def _key(table: Any, key: Mapping[str, Mapping[str, Any]]) -> None:
    names = [name for name in (table.hash_key_attr, table.range_key_attr) if name is not None]
    if set(key) != set(names):
        raise MockValidationException("The provided key element does not match the schema")
    for name, value in key.items():
        if next(iter(value.values())) == "":
            raise MockValidationException(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain "
                "an empty string value. "
                f"Key: {name}"
            )
    sizes = ((table.hash_key_attr, LONGEST_PARTITION_KEY, "hash"), (table.range_key_attr, LONGEST_SORT_KEY, "range"))
    for name, most, kind in sizes:
        if name is not None and len(str(next(iter(key[name].values()))).encode()) > most:
            raise MockValidationException(
                f"One or more parameter values were invalid: Aggregated size of all {kind} keys has exceeded the "
                f"size limit of {most} bytes"
            )


def _transaction(asked: Asked) -> None:
    if sum(len(json.dumps(each)) for each in asked["transact_items"]) > LARGEST_TRANSACTION:
        raise MockValidationException("Transaction request exceeds the maximum allowed size of 4 MB")


# S3 ("Naming S3 objects", DeleteObjects, PutBucketLifecycleConfiguration)


def _object_key(asked: Asked) -> None:
    if len(asked["key_name"].encode()) > LONGEST_OBJECT_KEY:
        raise S3ClientError("KeyTooLongError", "Your key is too long")


def _deletion(asked: Asked) -> None:
    if len(asked["objects"]) > MOST_DELETED:
        raise MalformedXML


def _lifecycle(asked: Asked) -> None:
    actions = (
        "Expiration",
        "Transition",
        "NoncurrentVersionExpiration",
        "NoncurrentVersionTransition",
        "AbortIncompleteMultipartUpload",
    )
    if any(not any(action in rule for action in actions) for rule in asked["rules"]):
        raise MalformedXML


# Systems Manager (PutParameter), IAM ("IAM and STS quotas")


def _parameter(asked: Asked) -> None:
    if asked["name"].count("/") > DEEPEST_PARAMETER:
        raise JsonRESTError(
            "HierarchyLevelLimitExceededException",
            f"A parameter name can have {DEEPEST_PARAMETER} levels at most: {asked['name']}",
        )
    if len(asked["value"]) > LONGEST_PARAMETER and asked.get("tier") != "Advanced":
        raise ValidationException(
            f"Standard tier parameters support a maximum parameter value of {LONGEST_PARAMETER} characters. To "
            "create a larger parameter "
            "value, upgrade the parameter to use the advanced-parameter tier."
        )


def _inline_policies(asked: Asked) -> None:
    role = asked["self"].get_role(asked["role_name"])
    policies = {**role.policies, asked["policy_name"]: asked["policy_json"]}
    if sum(len(re.sub(r"\s", "", text)) for text in policies.values()) > LARGEST_INLINE_POLICIES:
        raise LimitExceededException(
            f"Maximum policy size of {LARGEST_INLINE_POLICIES} bytes exceeded for role {asked['role_name']}"
        )


# SQS (CreateQueue), EventBridge ("Quotas"), CloudWatch and its logs


def _queue(asked: Asked) -> None:
    if re.fullmatch(r"[A-Za-z0-9_-]{1,75}(\.fifo|[A-Za-z0-9_-]{0,5})", asked["name"]) is None:
        raise InvalidParameterValue(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    for name, (least, most) in ATTRIBUTES.items():
        value = asked.get(name)
        if value is not None and not (str(value).isdecimal() and least <= int(value) <= most):
            raise InvalidAttributeValue(name)
    redrive = asked.get("RedrivePolicy")
    policy = json.loads(redrive) if isinstance(redrive, str) and redrive else redrive or {}
    if target := policy.get("deadLetterTargetArn"):
        try:
            asked["self"].get_queue(target.rpartition(":")[2])
        except QueueDoesNotExist:
            raise InvalidParameterValue(
                f"Value {json.dumps(policy)} for parameter RedrivePolicy is invalid. Reason: Dead letter target does "
                "not exist."
            ) from None


def _rule(asked: Asked) -> None:
    if len(asked.get("event_pattern") or "") > LONGEST_PATTERN:
        raise JsonRESTError(
            "InvalidEventPatternException",
            f"Event pattern is not valid. Reason: it is longer than {LONGEST_PATTERN} characters",
        )


def _targets(asked: Asked) -> None:
    bus = asked["self"]._get_event_bus(asked["self"]._normalize_event_bus_arn(asked["event_bus_arn"]))
    known = {target["Id"] for target in bus.rules[asked["name"]].targets} if asked["name"] in bus.rules else set()
    if len(known | {target["Id"] for target in asked["targets"]}) > MOST_TARGETS:
        raise JsonRESTError("LimitExceededException", "The requested resource exceeds the maximum number allowed.")
    for target in asked["targets"]:
        if target["Arn"].split(":")[2] == "states" and not target.get("RoleArn"):
            raise JsonRESTError("ValidationException", f"RoleArn is required for target {target['Arn']}.")


def _log_group(asked: Asked) -> None:
    if re.fullmatch(r"[\.\-_/#A-Za-z0-9]{1,512}", asked["log_group_name"]) is None:
        pattern = "Member must satisfy regular expression pattern: [\\.\\-_/#A-Za-z0-9]+"
        raise InvalidParameterException(constraint=pattern, parameter="logGroupName", value=asked["log_group_name"])


def _metric_filter(asked: Asked) -> None:
    if asked["log_group_name"] not in asked["self"].groups:
        raise ResourceNotFoundException
    for transformation in asked["metric_transformations"]:
        if "defaultValue" in transformation and transformation.get("dimensions"):
            raise InvalidParameterException(
                "Invalid metric transformation: dimensions and default value are mutually exclusive."
            )


def _retention(asked: Asked) -> None:
    if int(asked["retention_in_days"]) not in RETENTION_DAYS:
        days = ", ".join(map(str, RETENTION_DAYS))
        raise InvalidParameterException(
            constraint=f"Member must satisfy enum value set: [{days}]",
            parameter="retentionInDays",
            value=asked["retention_in_days"],
        )


def _alarm(asked: Asked) -> None:
    period, periods = asked.get("period"), int(asked.get("evaluation_periods") or 1)
    if period is not None:
        if int(period) not in (10, 20, 30) and int(period) % 60:
            raise ValidationError("Period must be 10, 20, 30 or a multiple of 60")
        if int(period) * periods > 7 * 86_400 or (int(period) < 3600 and int(period) * periods > 86_400):
            raise ValidationError(
                "Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= 86400), "
                "or a week if Period is an hour or more"
            )
    if int(asked.get("datapoints_to_alarm") or 0) > periods:
        raise ValidationError("DatapointsToAlarm must be less than or equal to EvaluationPeriods")


# API Gateway: routes of an HTTP API, and the settings of a stage for them


def _route(asked: Asked) -> None:
    if any(route.route_key == asked["route_key"] for route in list(asked["self"].routes.values())):
        raise _conflict(f"Route with key {asked['route_key']} already exists for this API")


def _conflict(message: str) -> APIGatewayV2Error:
    conflict = APIGatewayV2Error("ConflictException", message)
    conflict.code = 409
    return conflict


def _stage(asked: Asked) -> None:
    routes = {route.route_key for route in list(asked["self"].routes.values())}
    for key in asked["config"].get("routeSettings") or {}:
        if key not in routes:
            missing = APIGatewayV2Error(
                "NotFoundException", f"Unable to find Route by key {key} within the provided RouteSettings"
            )
            missing.code = 404
            raise missing


# EC2: requests about instances ("Filter", "Error codes")


def _termination(asked: Asked) -> None:
    _check_ids(asked["ids"])


def _check_ids(ids: Sequence[str]) -> None:
    for each in ids:
        if re.fullmatch(r"i-([0-9a-f]{8}|[0-9a-f]{17})", each) is None:
            raise EC2ClientError("InvalidInstanceID.Malformed", f'Invalid id: "{each}"')


def _described(method: str, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a Describe call that refuses unknown filters, too many values, and pages that are too small."""
    operation = "".join(word.title() for word in method.split("_"))
    names = filter_names(operation)

    @functools.wraps(original)
    def describe(self: Any) -> Any:
        filters = self._filters_from_querystring()
        for name in filters:
            if not (name.startswith("tag:") and "tag-key" in names) and name not in names:
                raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if sum(map(len, filters.values())) > MOST_FILTER_VALUES:
            raise EC2ClientError(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {MOST_FILTER_VALUES}",
            )
        page = self._get_param("MaxResults")
        if page is not None and int(page) < SMALLEST_PAGE:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"Value ( {page} ) for parameter maxResults is invalid. Expecting a value greater than 5.",
            )
        if method in ("describe_instances", "describe_instance_status"):
            _check_ids(self._get_param("InstanceIds", []))
        return original(self)

    return describe


@functools.cache
def filter_names(operation: str) -> frozenset[str]:
    """Return the filters of an operation, as the documentation in the service's model lists them."""
    from botocore.session import get_session

    shape = get_session().get_service_model("ec2").operation_model(operation).input_shape
    assert shape is not None
    names = re.findall(r"<li>\s*<p>\s*<code>([a-z0-9.:<>-]+)</code>", shape.members["Filters"].documentation)
    return frozenset(names) | (frozenset() if operation in WITHOUT_TAGS else {"tag-key"})

"""The permissions that a call needs: the actions, their resources, and the condition keys.

Source: Service Authorization Reference. Each service has one function, which returns the permissions of an operation,
or None for an operation that it does not know; such a call is an `UnmappedCall`. Calls that need no permission
(`sts:GetCallerIdentity`) have an empty list. What depends on the account is read by `account_lookups`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from joiner_local.aws.iam import account_lookups, ec2_required_permissions
from joiner_local.aws.iam.api_call_parsing import ApiCall
from joiner_local.aws.iam.policy_evaluation import RequiredPermission
from joiner_local.aws.local_aws import ACCOUNT, REGION


class UnmappedCall(LookupError):
    """A call whose permissions are in no table."""


def required_permissions(asked: ApiCall) -> list[RequiredPermission]:
    """Return everything that must be allowed for this call; `UnmappedCall` for a call, or parameters, that are in no
    table."""
    table = TABLES.get(asked.service)
    try:
        found = None if table is None else table(asked.operation, asked.params)
        if found is not None:
            return list(found)
    except (
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        RuntimeError,
    ) as error:  # generators turn StopIteration into RuntimeError
        raise UnmappedCall(f"{asked.service}:{asked.operation} with these parameters ({error!r})") from error
    raise UnmappedCall(f"{asked.service}:{asked.operation}")


def arn(service: str, resource: str, *, region: str = REGION, account: str = ACCOUNT) -> str:
    return f"arn:aws:{service}:{region}:{account}:{resource}"


def _dynamodb(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    if operation in ("TransactWriteItems", "TransactGetItems"):
        return _transaction(params["TransactItems"])
    if operation in ("BatchGetItem", "BatchWriteItem"):
        return _batch(operation, params["RequestItems"])
    match operation:
        case "ListTables":
            found = RequiredPermission("dynamodb:ListTables", "*")
        case "DescribeTable" | "Scan":
            found = _item(operation, params["TableName"], [])
        case "GetItem" | "UpdateItem" | "DeleteItem":
            found = _item(operation, params["TableName"], [params["Key"]])
        case "PutItem":
            found = _item(operation, params["TableName"], [params["Item"]])
        case "Query":
            found = _query(params)
        case _:
            return None
    return iter([found])


def _query(params: Mapping[str, Any]) -> RequiredPermission:
    key, found = account_lookups.partition_key(params["TableName"]), _queried(params)
    if key and not found:  # a condition on all values of an empty list would be true
        raise UnmappedCall(f"dynamodb:Query of {params.get('KeyConditionExpression')}")
    return _item("Query", params["TableName"], [{key: {"S": value}} for value in found])


def _transaction(items: Sequence[Mapping[str, Any]]) -> Iterator[RequiredPermission]:
    """Return the permission of each item by its kind; the transaction itself needs none."""
    actions = {
        "Put": "PutItem",
        "Update": "UpdateItem",
        "Delete": "DeleteItem",
        "ConditionCheck": "ConditionCheckItem",
        "Get": "GetItem",
    }
    for each in items:
        for kind, what in each.items():
            yield _item(actions[kind], what["TableName"], [what.get("Key") or what["Item"]])


def _batch(operation: str, tables: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    for table, what in tables.items():
        if operation == "BatchGetItem":
            yield _item(operation, table, what["Keys"])
        else:
            yield _item(
                operation, table, [next(iter(each.values())).get("Key") or each["PutRequest"]["Item"] for each in what]
            )


def _item(action: str, table: str, keys: Sequence[Mapping[str, Any]]) -> RequiredPermission:
    name, key = table.rpartition("/")[2], account_lookups.partition_key(table)
    leading = tuple(dict.fromkeys(str(next(iter(each[key].values()))) for each in keys if key in each))
    return RequiredPermission(f"dynamodb:{action}", arn("dynamodb", f"table/{name}"), {"dynamodb:leadingkeys": leading})


def _queried(params: Mapping[str, Any]) -> list[str]:
    """Return the partition of a Query: its expression compares the key for equality; name and value may be
    placeholders."""
    key, names = account_lookups.partition_key(params["TableName"]), params.get("ExpressionAttributeNames") or {}
    values = params.get("ExpressionAttributeValues") or {}
    found = re.findall(r"([#\w]+)\s*=\s*(:\w+)", params.get("KeyConditionExpression", ""))
    return [
        str(next(iter(values[value].values())))
        for name, value in found
        if names.get(name, name) == key and value in values
    ]


def _s3(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    bucket = f"arn:aws:s3:::{params['Bucket']}"
    listing = RequiredPermission(
        "s3:ListBucket", bucket, {"s3:prefix": (params["Prefix"],)} if "Prefix" in params else {}
    )
    match operation:
        case "GetObject" | "HeadObject":
            found = [RequiredPermission("s3:GetObject", f"{bucket}/{params['Key']}")]
            # Without this permission S3 answers "access denied" for a missing object.
            return iter(found if account_lookups.has_object(params["Bucket"], params["Key"]) else [*found, listing])
        case "PutObject" | "DeleteObject":
            return iter([RequiredPermission(f"s3:{operation}", f"{bucket}/{params['Key']}")])
        case "DeleteObjects":
            return iter([RequiredPermission("s3:DeleteObject", f"{bucket}/{key}") for key in params["Keys"]])
        case "ListObjectsV2" | "HeadBucket":
            return iter([listing])
    return None


def _states(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    match operation:
        case "SendTaskSuccess" | "SendTaskFailure" | "SendTaskHeartbeat":
            machine = account_lookups.machine_of_token(str(params.get("taskToken", "")))
            return iter([RequiredPermission(f"states:{operation}", machine)] if machine else [])
        case "StartExecution" | "StartSyncExecution" | "ListExecutions" | "DescribeStateMachine":
            return iter([RequiredPermission(f"states:{operation}", params["stateMachineArn"])])
        case "DescribeExecution" | "GetExecutionHistory" | "StopExecution" | "DescribeStateMachineForExecution":
            return iter([RequiredPermission(f"states:{operation}", params["executionArn"])])
    return None


def _lambda(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    if operation not in ("Invoke", "InvokeAsync"):
        return None
    return iter([invoke_permission(params["FunctionName"], params.get("Qualifier"))])


def invoke_permission(function: str, qualifier: str | None) -> RequiredPermission:
    """Return the permission to invoke a function by its name or ARN, with or without a version.

    >>> invoke_permission("arn:aws:lambda:us-east-1:123456789012:function:f:3", None).resource
    'arn:aws:lambda:us-east-1:123456789012:function:f:3'
    >>> invoke_permission("f", "live").resource
    'arn:aws:lambda:us-east-1:123456789012:function:f:live'
    """
    name = function.partition(":function:")[2] or function
    return RequiredPermission(
        "lambda:InvokeFunction",
        arn("lambda", f"function:{name}{f':{qualifier}' if qualifier and ':' not in name else ''}"),
    )


def _eks(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    name = str(params.get("clusterName") or params.get("name") or "")
    cluster = arn("eks", f"cluster/{name}")
    match operation:
        case "DescribeCluster" | "ListAccessEntries" | "ListPodIdentityAssociations" | "ListAddons":
            return iter([RequiredPermission(f"eks:{operation}", cluster)])
        case "CreateAccessEntry":
            return _new_entry(cluster, name, params)
    if "principalArn" not in params:
        return None
    entry, kind, tags = account_lookups.access_entry(name, params["principalArn"])
    context: dict[str, Sequence[str]] = {
        "eks:principalarn": (params["principalArn"],),
        "eks:accessentrytype": (kind,),
        **_tags("aws:resourcetag", tags),
    }
    if "policyArn" in params:
        context["eks:policyarn"] = (params["policyArn"],)
    if scope := params.get("accessScope"):
        context["eks:accessscope"] = (scope.get("type", ""),)
        context["eks:namespaces"] = tuple(scope.get("namespaces") or ())
    return iter([RequiredPermission(f"eks:{operation}", entry, context)])


def _new_entry(cluster: str, name: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    """Return the permissions of CreateAccessEntry: for the cluster, and with tags TagResource for the new entry."""
    tags = params.get("tags") or {}
    tagged = {**_tags("aws:requesttag", tags), **({"aws:tagkeys": tuple(tags)} if tags else {})}
    entry, kind = account_lookups.new_access_entry(name, params["principalArn"]), params.get("type") or "STANDARD"
    keys = {"eks:principalarn": (params["principalArn"],), "eks:accessentrytype": (kind,)}
    yield RequiredPermission("eks:CreateAccessEntry", cluster, {**tagged, **keys})
    if tags:
        yield RequiredPermission("eks:TagResource", entry, tagged)


def _iam(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    prefix = "arn:aws:iam::" + ACCOUNT
    context = {"iam:policyarn": (params["PolicyArn"],)} if "PolicyArn" in params else {}
    if operation == "ListInstanceProfiles":
        return iter(
            [
                RequiredPermission(
                    "iam:ListInstanceProfiles", f"{prefix}:instance-profile{params.get('PathPrefix') or '/'}"
                )
            ]
        )
    if "InstanceProfileName" in params:
        return iter(
            [
                RequiredPermission(
                    f"iam:{operation}", account_lookups.instance_profile(params["InstanceProfileName"]), context
                )
            ]
        )
    if "RoleName" in params:
        return iter([RequiredPermission(f"iam:{operation}", account_lookups.role(params["RoleName"]), context)])
    return None


def _ssm(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    names = params.get("Names") or ([params["Name"]] if "Name" in params else [])
    if operation not in ("GetParameter", "GetParameters", "PutParameter", "DeleteParameter"):
        return None
    return iter([RequiredPermission(f"ssm:{operation}", _parameter(name)) for name in names])


def _parameter(name: str) -> str:
    """Return the ARN of a parameter; public parameters of AWS belong to no account."""
    if name.startswith("arn:"):
        return name
    return arn("ssm", f"parameter/{name.lstrip('/')}", account="" if name.startswith("/aws/service/") else ACCOUNT)


def _kms(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    return (
        iter([RequiredPermission(f"kms:{operation}", account_lookups.key(params["KeyId"]))])
        if "KeyId" in params
        else None
    )


def _logs(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    if operation not in ("CreateLogGroup", "CreateLogStream", "PutLogEvents") or "logGroupName" not in params:
        return None
    stream = (
        f":log-stream:{params['logStreamName']}" if "logStreamName" in params and operation == "PutLogEvents" else ""
    )
    return iter(
        [RequiredPermission(f"logs:{operation}", arn("logs", f"log-group:{params['logGroupName']}{stream or ':*'}"))]
    )


def _sqs(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    return (
        iter([RequiredPermission(f"sqs:{operation}", arn("sqs", params["QueueUrl"].rpartition("/")[2]))])
        if "QueueUrl" in params
        else None
    )


def _sts(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    if operation == "GetCallerIdentity":
        return iter([])
    return iter([RequiredPermission(f"sts:{operation}", params["RoleArn"])]) if "RoleArn" in params else None


def _without_resources(service: str) -> Callable[[str, Mapping[str, Any]], Iterator[RequiredPermission]]:
    return lambda operation, _: iter([RequiredPermission(f"{service}:{operation}", "*")])


def _tags(kind: str, tags: Mapping[str, str]) -> dict[str, Sequence[str]]:
    return {f"{kind}/{key}".lower(): (value,) for key, value in tags.items()}


TABLES: Final[Mapping[str, Callable[[str, Mapping[str, Any]], Iterator[RequiredPermission] | None]]] = {
    "dynamodb": _dynamodb,
    "ec2": ec2_required_permissions.ec2_required_permissions,
    "eks": _eks,
    "iam": _iam,
    "kms": _kms,
    "lambda": _lambda,
    "logs": _logs,
    "monitoring": _without_resources("cloudwatch"),
    "pricing": _without_resources("pricing"),
    "cloudtrail": _without_resources("cloudtrail"),
    "s3": _s3,
    "savingsplans": _without_resources("savingsplans"),
    "sqs": _sqs,
    "ssm": _ssm,
    "states": _states,
    "sts": _sts,
}

"""Custom resource: empty the decision bucket when the stack is deleted, because CloudFormation deletes only empty
buckets.
"""

from collections.abc import Mapping
from typing import Any

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve


class NotEmptied(Exception):
    """S3 did not delete some objects; the message names the first."""


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, empty)


def empty(request: Request) -> Answer:
    """Delete every object of the bucket, on Delete only, and only if the settings of the last deployment do not retain
    data.
    """
    bucket = request.properties["Bucket"]
    empties = request.properties.get("Empty", "true")  # a deployment of an earlier version has no such property
    if request.kind == "Delete" and empties == "true":
        from joiner.adapters.environment import client

        delete_objects(client("s3"), bucket)
    return Answer(bucket)


def delete_objects(s3: Any, bucket: str) -> None:
    """Delete every object of a bucket, page by page; NotEmptied if S3 refuses."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        keys = [{"Key": each["Key"]} for each in page.get("Contents", ())]
        if keys:
            kept = s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True}).get("Errors", ())
            if kept:
                raise NotEmptied(
                    f"{len(kept)} objects of {bucket} stay, the first is {kept[0]['Key']}: {kept[0].get('Message')}"
                )

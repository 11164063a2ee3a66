"""Custom resource: the parameter that pauses Joiner, created once and never written again.

A resource of CloudFormation's own type would be: CloudFormation writes the value of the template at each change of
another property, and tags of the stack are one. A pause, or a drain, would end with it.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve
from joiner.names import ACTING, pause_parameter


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, create)


def create(request: Request) -> Answer:
    """Create the parameter unless it exists; on Delete, delete it."""
    cluster = request.properties["Cluster"]
    name = pause_parameter(cluster)
    from joiner.adapters.environment import client

    ssm = client("ssm")
    if request.kind == "Delete":
        with suppress(ssm.exceptions.ParameterNotFound):
            ssm.delete_parameter(Name=name)
        return Answer(name)
    meaning = f"true: Joiner does nothing in the cluster {cluster}"
    with suppress(ssm.exceptions.ParameterAlreadyExists):
        ssm.put_parameter(Name=name, Value=ACTING, Type="String", Description=meaning)
    return Answer(name)

"""Custom resource: what the installer must know of the cluster, asked from outside the VPC that the installer may sit in."""

from collections.abc import Mapping
from typing import Any

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, describe)


def describe(request: Request) -> Answer:
    """The cluster's endpoint and CA, and the CA of the doorbell's door if a parameter holds one."""
    name = request.properties["Cluster"]
    physical_id = f"cluster-{name}"
    if request.kind == "Delete":  # nothing was made
        return Answer(request.physical_id or physical_id)
    from joiner.adapters.environment import client

    cluster = client("eks").describe_cluster(name=name)["cluster"]
    parameter = request.properties.get("CaParameter")
    ca = client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"] if parameter else ""
    return Answer(
        physical_id,
        {
            "Endpoint": cluster["endpoint"],
            "CertificateAuthority": cluster["certificateAuthority"]["data"],
            "Version": cluster.get("version", ""),
            "DoorbellCa": ca,
        },
    )

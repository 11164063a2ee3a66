"""Custom resource: read the facts of the cluster that the installer needs, from outside the installer's VPC.

It refuses a cluster that does not read the roles of the nodes where they are written, and reports whether the control
plane reaches the doorbell.

It also records the endpoint and the CA. The other functions send their tokens only to the recorded endpoint
(`joiner.adapters.known_cluster`). A schedule records them again every few minutes, because EKS may replace the CA.
"""

import time
from collections.abc import Mapping
from typing import Any

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve
from joiner.lifecycle.supported_clusters import describe_egress, find_mode_conflict


class ClusterNotSupported(Exception):
    """Nodes that Joiner launches could not join this cluster."""


class AnotherCluster(Exception):
    """The request names another cluster than this function's."""


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any] | None:
    """Answer CloudFormation; handle any other event as the schedule's."""
    if "RequestType" in event:
        serve(event, context, describe)
        return None
    return {"endpoint": describe_and_record()["endpoint"]}


def describe(request: Request) -> Answer:
    """Return the cluster's endpoint, CA and network, and the doorbell's CA if a parameter holds one.

    Raises AnotherCluster if the request names another cluster than this function's, and ClusterNotSupported if nodes
    could not join it.
    """
    name = request.properties["Cluster"]
    physical_id = f"cluster-{name}"
    if request.kind == "Delete":  # nothing was created
        return Answer(request.physical_id or physical_id)
    from joiner.adapters.environment import client, setting

    if name != setting("JOINER_CLUSTER"):
        raise AnotherCluster(
            f"the request names the cluster {name!r}; this function serves {setting('JOINER_CLUSTER')!r}"
        )
    cluster = describe_and_record()
    # A deployment of an earlier version has no such property: it writes access entries
    refuse_other_mode(cluster, request.properties.get("AuthenticationMode", "API"))
    parameter = request.properties.get("CaParameter")
    ca = client("ssm").get_parameter(Name=parameter)["Parameter"]["Value"] if parameter else ""
    return Answer(
        physical_id,
        {
            "Endpoint": cluster["endpoint"],
            "CertificateAuthority": cluster["certificateAuthority"]["data"],
            "Version": cluster.get("version", ""),
            "DoorbellCa": ca,
            **network_of(cluster),
        },
    )


def refuse_other_mode(cluster: Mapping[str, Any], setting: str) -> None:
    """Raise ClusterNotSupported if the roles of functions and nodes would be written where the cluster does not read
    them.
    """
    mode = (cluster.get("accessConfig") or {}).get("authenticationMode") or "CONFIG_MAP"
    if why := find_mode_conflict(cluster["name"], mode, setting):
        raise ClusterNotSupported(why)


def network_of(cluster: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of the cluster's own subnets (joined by commas) and security group, and the effect of its egress
    mode on the doorbell.
    """
    config = cluster.get("resourcesVpcConfig") or {}
    mode = config.get("controlPlaneEgressMode") or "AWS_MANAGED"
    return {
        # A policy condition needs a value: ids that cannot exist are used where the cluster has none
        "SubnetIds": ",".join(config.get("subnetIds") or ["subnet-none"]),
        "SecurityGroupId": config.get("clusterSecurityGroupId") or "sg-none",
        "ControlPlaneEgress": describe_egress(mode),
    }


def describe_and_record() -> dict[str, Any]:
    """Record and return this deployment's cluster as EKS describes it. The functions that call Kubernetes trust only
    this record.
    """
    from joiner.adapters import known_cluster
    from joiner.adapters.environment import client, setting

    cluster: dict[str, Any] = client("eks").describe_cluster(name=setting("JOINER_CLUSTER"))["cluster"]
    network = cluster.get("kubernetesNetworkConfig") or {}
    cidr = network.get("serviceIpv6Cidr") or network.get("serviceIpv4Cidr") or ""
    known = known_cluster.KnownCluster(cluster["endpoint"], cluster["certificateAuthority"]["data"], cidr)
    known_cluster.record_known_cluster(client("dynamodb"), setting("JOINER_TABLE"), known, at=int(time.time()))
    return cluster

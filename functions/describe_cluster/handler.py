"""Custom resource: what the installer must know of the cluster, asked from outside the VPC that the installer may sit in.

It also refuses a cluster whose nodes could not join, and says whether the control plane reaches the doorbell by itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve

EGRESS: Final = {
    "AWS_MANAGED": "AWS_MANAGED: the control plane reaches the doorbell without any setting of yours",
    "CUSTOMER_ROUTED": (
        "CUSTOMER_ROUTED: webhook calls leave through the cluster's VPC: give the cluster's subnets a route to the internet (NAT gateway) "
        "or to the doorbell's address, or no ring arrives, and pods wait for the sweep's minute (docs/control-plane-egress.md)"
    ),
    "CUSTOMER_ISOLATED": (
        "CUSTOMER_ISOLATED: the control plane reaches nothing outside its VPC, and so no doorbell: pods wait for the sweep's minute "
        "(docs/control-plane-egress.md)"
    ),
}
"""What `resourcesVpcConfig.controlPlaneEgressMode` means for the doorbell. Source: EKS user guide, "control plane egress routing"."""


class ClusterNotSupported(Exception):
    """Nodes that Joiner launches could not join this cluster."""


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, describe)


def describe(request: Request) -> Answer:
    """The cluster's endpoint, CA and network, and the CA of the doorbell's door if a parameter holds one."""
    name = request.properties["Cluster"]
    physical_id = f"cluster-{name}"
    if request.kind == "Delete":  # nothing was made
        return Answer(request.physical_id or physical_id)
    from joiner.adapters.environment import client

    cluster = client("eks").describe_cluster(name=name)["cluster"]
    refuse_unsupported(cluster)
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


def refuse_unsupported(cluster: Mapping[str, Any]) -> None:
    """Raise ClusterNotSupported for a cluster whose nodes need IPv6 interfaces: launch templates do not make them yet."""
    if (cluster.get("kubernetesNetworkConfig") or {}).get("ipFamily") == "ipv6":
        remedy = "deploy to a cluster of ipFamily ipv4"
        raise ClusterNotSupported(f"{cluster['name']}: ipFamily is ipv6, and nodes with IPv6 interfaces are not supported yet: {remedy}")


def network_of(cluster: Mapping[str, Any]) -> dict[str, str]:
    """Ids of the cluster's own subnets (joined by commas) and security group, and what its egress mode means for the doorbell."""
    config = cluster.get("resourcesVpcConfig") or {}
    mode = config.get("controlPlaneEgressMode") or "AWS_MANAGED"
    return {
        # A condition of a policy must have a value: ids that cannot exist stand for none
        "SubnetIds": ",".join(config.get("subnetIds") or ["subnet-none"]),
        "SecurityGroupId": config.get("clusterSecurityGroupId") or "sg-none",
        "ControlPlaneEgress": EGRESS.get(mode, f"{mode}: this mode is not known: see that the control plane reaches the doorbell"),
    }

"""EKS clusters: DescribeCluster returns the address of the control plane on this machine.

Knob: `POST /_local/eks {"name": "joiner-demo", "endpoint": "https://127.0.0.1:6443", "ca": "<base64 of the PEM>",
"version": "1.36", "serviceCidr": "10.100.0.0/16", "ipFamily": "ipv6", "controlPlaneEgressMode": "CUSTOMER_ROUTED",
"authenticationMode": "CONFIG_MAP"}`
changes a cluster that CreateCluster has created. Fields that are left out stay. A cluster of `ipFamily` ipv6 has a
service range of IPv6 only.
"""

from typing import Any, Final

from moto.core.responses import ActionResult
from moto.eks import urls
from moto.eks.models import Cluster, eks_backends
from moto.eks.responses import EKSResponse

from joiner_local.aws.attribute_patches import add_items, replace_attribute
from joiner_local.aws.eks import access_entry_actions
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import check_fields, read_text

VERSIONS: Final = ("1.36", "1.35", "1.34", "1.33", "1.32", "1.31", "1.30", "1.29")
AUTHENTICATION_MODES: Final = ("API", "API_AND_CONFIG_MAP", "CONFIG_MAP")
EGRESS_MODES: Final = ("AWS_MANAGED", "CUSTOMER_ROUTED", "CUSTOMER_ISOLATED")
FIELDS: Final = {
    "name",
    "endpoint",
    "ca",
    "version",
    "serviceCidr",
    "ipFamily",
    "controlPlaneEgressMode",
    "authenticationMode",
}
STANDARD_SUPPORT: Final = 4  # the number of newest versions


def find_cluster(name: str) -> Cluster:
    """Return a cluster. Raises ValueError if there is none with this name."""
    cluster: Cluster | None = eks_backends[ACCOUNT][REGION].clusters.get(name)
    if cluster is None:
        raise ValueError(f"there is no cluster {name}: create it first")
    return cluster


def set_cluster(asked: dict[str, Any]) -> dict[str, Any]:
    """Change what EKS reports of a cluster."""
    check_fields(asked, FIELDS, "eks")
    cluster = find_cluster(read_text(asked, "name"))
    cluster.endpoint = asked.get("endpoint", cluster.endpoint)
    cluster.version = asked.get("version", cluster.version)
    if "ca" in asked:
        cluster.certificate_authority = {"data": asked["ca"]}
    if "serviceCidr" in asked:
        family = asked.get("ipFamily", "ipv4")
        range_of = {"ipv4": "serviceIpv4Cidr", "ipv6": "serviceIpv6Cidr"}.get(str(family))
        if range_of is None:
            raise ValueError(f"eks: ipFamily is {family}: there are ipv4, ipv6")
        cluster.kubernetes_network_config = {range_of: asked["serviceCidr"], "ipFamily": family}
    if "controlPlaneEgressMode" in asked:
        _set_egress(cluster, asked["controlPlaneEgressMode"])
    if "authenticationMode" in asked:
        _set_authentication(cluster, asked["authenticationMode"])
    return {}


def _set_egress(cluster: Cluster, mode: str) -> None:
    """Change the egress mode. UpdateClusterConfig changes AWS_MANAGED once and never back; the knob may."""
    if mode not in EGRESS_MODES:
        raise ValueError(f"eks: controlPlaneEgressMode is {mode}: there are {', '.join(EGRESS_MODES)}")
    cluster.resources_vpc_config = {**cluster.resources_vpc_config, "controlPlaneEgressMode": mode}


def _set_authentication(cluster: Cluster, mode: str) -> None:
    """Change the authentication mode. UpdateClusterConfig changes it towards API only; the knob may in both ways."""
    if mode not in AUTHENTICATION_MODES:
        raise ValueError(f"eks: authenticationMode is {mode}: there are {', '.join(AUTHENTICATION_MODES)}")
    cluster.access_config = {"authenticationMode": mode}


def list_addons(response: Any) -> ActionResult:
    """Return no add-ons. EKS refuses an unknown cluster."""
    _must_exist(response)
    return ActionResult({"addons": []})


def list_pod_identity_associations(response: Any) -> ActionResult:
    """Return no associations. EKS refuses an unknown cluster."""
    _must_exist(response)
    return ActionResult({"associations": []})


def _must_exist(response: Any) -> None:
    response.eks_backend.describe_cluster(response.path.split("/")[2])


def describe_cluster_versions(_response: Any) -> ActionResult:
    """Return the versions of Kubernetes, with their support."""
    found = [
        {
            "clusterVersion": version,
            "clusterType": "eks",
            "defaultVersion": version == VERSIONS[0],
            "versionStatus": "STANDARD_SUPPORT" if index < STANDARD_SUPPORT else "EXTENDED_SUPPORT",
        }
        for index, version in enumerate(VERSIONS)
    ]
    return ActionResult({"clusterVersions": found})


def install(aws: LocalAws) -> None:
    """Install the actions in moto, and the knob."""
    access_entry_actions.install()
    paths = (
        *access_entry_actions.PATHS,
        "{0}/cluster-versions$",
        "{0}/clusters/(?P<name>[^/]+)/addons$",
        "{0}/clusters/(?P<name>[^/]+)/pod-identity-associations$",
    )
    add_items(urls, "url_paths", dict.fromkeys(paths, EKSResponse.dispatch))
    replace_attribute(Cluster, "access_config", {"authenticationMode": "API"})  # until a knob changes it
    replace_attribute(EKSResponse, "describe_cluster_versions", describe_cluster_versions)
    replace_attribute(EKSResponse, "list_addons", list_addons)
    replace_attribute(EKSResponse, "list_pod_identity_associations", list_pod_identity_associations)
    aws.add_knobs({"eks": set_cluster})

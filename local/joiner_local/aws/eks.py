"""EKS of the local AWS: the cluster is the control plane on this machine, and DescribeCluster tells where it is.

Knob: `POST /_local/eks {"name": "joiner-demo", "endpoint": "https://127.0.0.1:6443", "ca": "<base64 of the PEM>", "version": "1.36",
"serviceCidr": "10.100.0.0/16"}`, for a cluster that CreateCluster has made before. What it does not name stays.
"""

from typing import Any, Final

from moto.core.responses import ActionResult
from moto.eks import urls
from moto.eks.models import Cluster, eks_backends
from moto.eks.responses import EKSResponse

from joiner_local.aws import access_entries
from joiner_local.aws.seams import ACCOUNT, REGION, LocalAws

VERSIONS: Final = ("1.36", "1.35", "1.34", "1.33", "1.32", "1.31", "1.30", "1.29")
STANDARD_SUPPORT: Final = 4  # the newest so many


def set_cluster(asked: dict[str, Any]) -> dict[str, Any]:
    if unknown := asked.keys() - {"name", "endpoint", "ca", "version", "serviceCidr"}:
        raise ValueError(f"eks: {sorted(unknown)} is not known")
    cluster = eks_backends[ACCOUNT][REGION].clusters.get(asked["name"])
    if cluster is None:
        raise ValueError(f"there is no cluster {asked['name']}: create it first")
    cluster.endpoint = asked.get("endpoint", cluster.endpoint)
    cluster.version = asked.get("version", cluster.version)
    if "ca" in asked:
        cluster.certificate_authority = {"data": asked["ca"]}
    if "serviceCidr" in asked:
        cluster.kubernetes_network_config = {"serviceIpv4Cidr": asked["serviceCidr"], "ipFamily": "ipv4"}
    return {}


def list_addons(response: Any) -> ActionResult:
    _must_exist(response)
    return ActionResult({"addons": []})


def list_pod_identity_associations(response: Any) -> ActionResult:
    _must_exist(response)
    return ActionResult({"associations": []})


def _must_exist(response: Any) -> None:
    response.eks_backend.describe_cluster(response.path.split("/")[2])


def describe_cluster_versions(_response: Any) -> ActionResult:
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
    access_entries.install()
    for path in (
        *access_entries.PATHS,
        "{0}/cluster-versions$",
        "{0}/clusters/(?P<name>[^/]+)/addons$",
        "{0}/clusters/(?P<name>[^/]+)/pod-identity-associations$",
    ):
        urls.url_paths[path] = EKSResponse.dispatch
    Cluster.access_config = {"authenticationMode": "API"}  # clusters that know access entries only
    EKSResponse.describe_cluster_versions = describe_cluster_versions
    EKSResponse.list_addons = list_addons
    EKSResponse.list_pod_identity_associations = list_pod_identity_associations
    aws.knobs["eks"] = set_cluster

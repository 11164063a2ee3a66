"""The kinds of objects that Joiner reads or writes, and their paths at the API server.

A table instead of discovery: discovery would cost two requests in every cold start, and these paths are stable API.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object at one version, with the path of its collection."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """The API version as manifests write it.

        >>> NODES.api_version, NODECLAIMS.api_version
        ('v1', 'karpenter.sh/v1')
        """
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", *, namespace: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of one object, or of a part of one object.

        >>> PODS.path("web-1", namespace="shop", subresource="binding")
        '/api/v1/namespaces/shop/pods/web-1/binding'
        >>> NODEPOOLS.path()
        '/apis/karpenter.sh/v1/nodepools'
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)


PODS: Final = Kind("", "v1", "Pod", "pods", namespaced=True)
NODES: Final = Kind("", "v1", "Node", "nodes")
NAMESPACES: Final = Kind("", "v1", "Namespace", "namespaces")
PERSISTENT_VOLUMES: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes")
PERSISTENT_VOLUME_CLAIMS: Final = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
SERVICES: Final = Kind("", "v1", "Service", "services", namespaced=True)
CONFIG_MAPS: Final = Kind("", "v1", "ConfigMap", "configmaps", namespaced=True)
DAEMON_SETS: Final = Kind("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
DEPLOYMENTS: Final = Kind("apps", "v1", "Deployment", "deployments", namespaced=True)
REPLICA_SETS: Final = Kind("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)
STATEFUL_SETS: Final = Kind("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)
JOBS: Final = Kind("batch", "v1", "Job", "jobs", namespaced=True)
REPLICATION_CONTROLLERS: Final = Kind("", "v1", "ReplicationController", "replicationcontrollers", namespaced=True)
POD_DISRUPTION_BUDGETS: Final = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)
STORAGE_CLASSES: Final = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses")
VOLUME_ATTACHMENTS: Final = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments")
CSI_NODES: Final = Kind("storage.k8s.io", "v1", "CSINode", "csinodes")
NODE_OVERLAYS: Final = Kind("karpenter.sh", "v1alpha1", "NodeOverlay", "nodeoverlays")
CAPACITY_BUFFERS: Final = Kind("autoscaling.x-k8s.io", "v1beta1", "CapacityBuffer", "capacitybuffers", namespaced=True)
ALPHA_CAPACITY_BUFFERS: Final = Kind(
    "autoscaling.x-k8s.io", "v1alpha1", "CapacityBuffer", "capacitybuffers", namespaced=True
)
POD_TEMPLATES: Final = Kind("", "v1", "PodTemplate", "podtemplates", namespaced=True)
RUNTIME_CLASSES: Final = Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses")
PRIORITY_CLASSES: Final = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
LEASES: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
EVENTS: Final = Kind("events.k8s.io", "v1", "Event", "events", namespaced=True)
CORE_EVENTS: Final = Kind("", "v1", "Event", "events", namespaced=True)
"""The same events in the older API, which lets a writer set ``lastTimestamp``."""

NODEPOOLS: Final = Kind("karpenter.sh", "v1", "NodePool", "nodepools")
NODECLAIMS: Final = Kind("karpenter.sh", "v1", "NodeClaim", "nodeclaims")
EC2NODECLASSES: Final = Kind("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses")
PROVISIONERS: Final = Kind("karpenter.sh", "v1alpha5", "Provisioner", "provisioners")
MACHINES: Final = Kind("karpenter.sh", "v1alpha5", "Machine", "machines")
AWSNODETEMPLATES: Final = Kind("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate", "awsnodetemplates")

# The kinds of both generations of Karpenter's API
POOLS: Final = (NODEPOOLS, PROVISIONERS)
NODE_CLASSES: Final = (EC2NODECLASSES, AWSNODETEMPLATES)
CLAIMS: Final = (NODECLAIMS, MACHINES)

CUSTOM_RESOURCE_DEFINITIONS: Final = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
CLUSTER_ROLES: Final = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDINGS: Final = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings")
ROLES: Final = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles", namespaced=True)
ROLE_BINDINGS: Final = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", namespaced=True)
VALIDATING_WEBHOOKS: Final = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
)
ADMISSION_POLICIES: Final = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"
)
ADMISSION_POLICY_BINDINGS: Final = Kind(
    "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"
)

KINDS: Final = {(each.api_version, each.kind): each for each in list(vars().values()) if isinstance(each, Kind)}

"""EKS access policies in the cluster: groups that the authenticator assigns, bound to ClusterRoles by manifests of
the local stack.

Source: EKS user guide, "Review access policy permissions". On EKS these bindings are inside the API server; here they
are visible.
"""

from typing import Any, Final

RBAC: Final = "rbac.authorization.k8s.io"

# Policy -> ClusterRole. All but the last are Kubernetes' own user-facing roles, which the guide names.
ROLES: Final = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
    "AmazonEKSAdminViewPolicy": "eks:admin-view",
}


def group(policy_arn: str) -> str | None:
    """Return the group of a policy; None for a policy that is not simulated.

    >>> group("arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy")
    'eks:access-policy:AmazonEKSViewPolicy'
    >>> group("arn:aws:eks::aws:cluster-access-policy/AmazonEKSHybridPolicy")
    """
    name = policy_arn.rpartition("/")[2]
    return f"eks:access-policy:{name}" if name in ROLES else None


def bindings() -> list[dict[str, Any]]:
    """Return the manifests: one role of our own, and one binding for each policy."""
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "eks:admin-view"},
        "rules": everything,
    }
    return [role, *(_binding(policy, role_name) for policy, role_name in ROLES.items())]


def _binding(policy: str, role: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"eks:access-policy:{policy}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": f"eks:access-policy:{policy}"}],
    }

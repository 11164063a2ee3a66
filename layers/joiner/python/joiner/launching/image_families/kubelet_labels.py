"""The labels of Kubernetes' own domains with which a kubelet registers its node. With another one it does not start.

Source: Kubernetes, `kubelet --node-labels` and `k8s.io/kubelet/pkg/apis/well_known_labels.go`.
"""

from typing import Final

from joiner.pools.label_rules import OF_KUBERNETES, in_domain

LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")


def find_refused_label(key: str) -> str:
    """Return why the kubelet does not start with a label; empty if it does.

    >>> [find_refused_label(each) for each in ("team", "kubelet.kubernetes.io/x", "topology.kubernetes.io/zone")]
    ['', '', '']
    >>> find_refused_label("node-role.kubernetes.io/worker")
    'the kubelet does not start with such a label of Kubernetes: remove it'
    """
    if not in_domain(key, OF_KUBERNETES) or key in LABELS or in_domain(key, DOMAINS):
        return ""
    return "the kubelet does not start with such a label of Kubernetes: remove it"

"""Rules for label keys and values: their syntax, and which keys users may set on nodes.

Source: Kubernetes, "Labels and Selectors" (syntax and character set); Karpenter, "NodePools" (restricted labels).
"""

import re
from collections.abc import Sequence

from joiner import names
from joiner.cluster.requirements import RENAMED
from joiner.pools.suggestions import suggest_nearest

PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

AWS_LABELS = frozenset(
    {
        "karpenter.k8s.aws/instance-category",
        "karpenter.k8s.aws/instance-family",
        "karpenter.k8s.aws/instance-generation",
        "karpenter.k8s.aws/instance-size",
        "karpenter.k8s.aws/instance-cpu",
        "karpenter.k8s.aws/instance-cpu-manufacturer",
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
        "karpenter.k8s.aws/instance-memory",
        "karpenter.k8s.aws/instance-ebs-bandwidth",
        "karpenter.k8s.aws/instance-network-bandwidth",
        "karpenter.k8s.aws/instance-hypervisor",
        "karpenter.k8s.aws/instance-encryption-in-transit-supported",
        "karpenter.k8s.aws/nitro-sandbox",
        "karpenter.k8s.aws/instance-capability-flex",
        "karpenter.k8s.aws/instance-local-nvme",
        "karpenter.k8s.aws/instance-gpu-name",
        "karpenter.k8s.aws/instance-gpu-manufacturer",
        "karpenter.k8s.aws/instance-gpu-count",
        "karpenter.k8s.aws/instance-gpu-memory",
        "karpenter.k8s.aws/instance-accelerator-name",
        "karpenter.k8s.aws/instance-accelerator-manufacturer",
        "karpenter.k8s.aws/instance-accelerator-count",
        "karpenter.k8s.aws/instance-tenancy",
        "karpenter.k8s.aws/capacity-reservation-id",
        "karpenter.k8s.aws/capacity-reservation-type",
        "karpenter.k8s.aws/capacity-reservation-interruptible",
        names.PLACEMENT_GROUP,
        names.PLACEMENT_PARTITION,
    }
)
WELL_KNOWN = AWS_LABELS | {
    names.ARCH,
    names.OS,
    names.INSTANCE_TYPE,
    names.ZONE,
    names.REGION,
    names.ZONE_ID,
    names.CAPACITY_TYPE,
    "node.kubernetes.io/windows-build",
}
OURS = ("karpenter.sh", "karpenter.k8s.aws", "joiner.dev")
OF_KUBERNETES = ("kubernetes.io", "k8s.io")
FREE_OF_KUBERNETES = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")


def is_well_known(key: str) -> bool:
    """Return whether the instance decides a label, under its present name or its former one.

    >>> [is_well_known(key) for key in ("kubernetes.io/arch", "beta.kubernetes.io/arch", "team")]
    [True, True, False]
    """
    return RENAMED.get(key, key) in WELL_KNOWN


def in_domain(key: str, domains: Sequence[str]) -> bool:
    """Return whether the prefix of the key is one of the domains or a subdomain.

    >>> in_domain("karpenter.sh/x", OURS), in_domain("a.karpenter.sh/x", OURS), in_domain("notkarpenter.sh/x", OURS)
    (True, True, False)
    """
    prefix, slash, _ = key.rpartition("/")
    return bool(slash) and any(prefix == domain or prefix.endswith(f".{domain}") for domain in domains)


def key_fault(key: str, *, legacy: bool) -> str:
    """Return the remedy for a label key that users may not set; empty if the key is valid.

    >>> key_fault(" karpenter.sh/capacity-type", legacy=True)
    'remove the blank at the beginning or end of the key'
    >>> key_fault("karpenter.k8s.aws/instance-categry", legacy=False)
    'this domain belongs to Joiner and Karpenter; did you mean "karpenter.k8s.aws/instance-category"?'
    """
    if key.strip() != key:
        return "remove the blank at the beginning or end of the key"
    prefix, slash, name = key.rpartition("/")
    if not NAME.fullmatch(name) or (slash and (not PREFIX.fullmatch(prefix) or len(prefix) > 253)):
        return "use a label key: an optional DNS prefix and /, then up to 63 letters, digits, - _ ."
    if key in (names.NODEPOOL, names.PROVISIONER, names.HOSTNAME):
        return "Joiner sets this label itself; remove it"
    owner = "" if key in WELL_KNOWN or key in RENAMED else owner_of(key, legacy=legacy)
    return (
        f"this domain belongs to {owner}{suggest_nearest(key, sorted(WELL_KNOWN)) or '; use a domain of your own'}"
        if owner
        else ""
    )


def owner_of(key: str, *, legacy: bool) -> str:
    """Return the only owner of keys in this domain; empty if every user may set them."""
    if in_domain(key, OURS):
        return "Joiner and Karpenter"
    if legacy and in_domain(key, OF_KUBERNETES) and not in_domain(key, FREE_OF_KUBERNETES):
        return "Kubernetes"
    return ""

"""The words that Kubernetes, Karpenter, EC2 and Joiner share: label, annotation, taint, finalizer, tag and group names.

Nothing but names: `infra/` reads them too, so that IAM conditions and the code that they bind never drift apart.
Karpenter's names are kept to the letter (its documentation, "Well-Known Labels"), so that workloads and dashboards
carry over.
"""

import re
from typing import Final

# Labels of Kubernetes
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
ZONE_ID: Final = "topology.k8s.aws/zone-id"
EXCLUDE_FROM_LOAD_BALANCERS: Final = "node.kubernetes.io/exclude-from-external-load-balancers"

# Labels of Karpenter
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
NODEPOOL: Final = "karpenter.sh/nodepool"
PROVISIONER: Final = "karpenter.sh/provisioner-name"
REGISTERED: Final = "karpenter.sh/registered"
INITIALIZED: Final = "karpenter.sh/initialized"
NODECLASS: Final = "karpenter.k8s.aws/ec2nodeclass"
NODECLAIM: Final = "karpenter.sh/nodeclaim"
INSTANCE_PREFIX: Final = "karpenter.k8s.aws/instance-"
TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
RESERVATION: Final = "karpenter.k8s.aws/capacity-reservation-id"

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
RESERVED: Final = "reserved"
CAPACITY_TYPES: Final = (ON_DEMAND, SPOT, RESERVED)

# Annotations
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DO_NOT_EVICT: Final = "karpenter.sh/do-not-evict"  # as Karpenter called it before v1beta1
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"  # until when a claim's node may drain
NODEPOOL_HASH: Final = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
NODECLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
NODECLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
PROVISIONER_HASH: Final = "karpenter.sh/provisioner-hash"
PROVISIONER_HASH_VERSION: Final = "karpenter.sh/provisioner-hash-version"
PLACING: Final = "joiner.dev/placing"
LEASE: Final = "joiner.dev/lease"
EXECUTION: Final = "joiner.dev/execution"
LAUNCH: Final = "joiner.dev/launch"
PRICE: Final = "joiner.dev/price-per-hour"  # $/h of the offering that was launched

NODE_OF_POD: Final = "joiner.dev/node"  # on an Eviction: the node from which the pod shall go

# What admission policies ask of our own requests (manifests/policies)
PLACED: Final = "joiner.dev/placed"  # label of a Binding; since Kubernetes 1.35 the API server copies it to the pod
LEAVING: Final = "joiner.dev/disrupted"  # label of an Eviction, and of a pod before we delete it

# Taints
FILLING: Final = "joiner.dev/filling"
UNREGISTERED: Final = "karpenter.sh/unregistered"
DISRUPTED: Final = "karpenter.sh/disrupted"

TERMINATION_FINALIZER: Final = "karpenter.sh/termination"

# EC2 tags (LAUNCH, EXECUTION, NODEPOOL, PROVISIONER, NODECLASS and NODECLAIM are used as tags, too)
CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
NAME_TAG: Final = "Name"
DISCOVERY_TAG: Final = "karpenter.sh/discovery"  # how Karpenter's documentation marks what a cluster's nodes may use


def cluster_tag(cluster: str) -> str:
    """The tag key by which EKS and its controllers know what belongs to a cluster; its value is ``owned``.

    >>> cluster_tag("prod")
    'kubernetes.io/cluster/prod'
    """
    return f"kubernetes.io/cluster/{cluster}"


def region_of(zone: str) -> str:
    """The region that a zone's name begins with; empty for what is no zone's name.

    >>> region_of("eu-west-1a"), region_of("us-west-2-lax-1a"), region_of("here")
    ('eu-west-1', 'us-west-2', '')
    """
    found = re.match(r"[a-z]+(-[a-z]+)+-\d+", zone)
    return found.group() if found else ""


def stack_name(cluster: str) -> str:
    """The CloudFormation stack of a cluster's Joiner; such names hold no underscores.

    >>> stack_name("my_cluster")
    'joiner-my-cluster'
    """
    return "joiner-" + re.sub(r"[^A-Za-z0-9-]", "-", cluster)


def pause_parameter(cluster: str) -> str:
    """The SSM parameter that stops Joiner while its value is ``true``.

    >>> pause_parameter("prod")
    '/joiner/prod/pause'
    """
    return f"/joiner/{cluster}/pause"


# Values of that parameter
ACTING: Final = "false"
PAUSED: Final = "true"
DRAINING: Final = "drain"  # nothing is launched, and every node is retired: `joiner uninstall --nodes drain`
KEEPING: Final = "keep"  # nothing acts, and the stack may be deleted while nodes run: `joiner uninstall --nodes keep`
DELETING: Final = "deleting"  # as true; written by the deletion of the stack while it looks whether nodes run
STOPS_EVERYTHING: Final = (PAUSED, KEEPING, DELETING)
STOPS_LAUNCHES: Final = (PAUSED, KEEPING, DELETING, DRAINING)


def profile_path(cluster: str, region: str) -> str:
    """The IAM path of the instance profiles that a deployment makes: what is below it is the deployment's, and nobody
    else's.

    >>> profile_path("prod", "eu-west-1")
    '/joiner/eu-west-1/prod/'
    """
    return f"/joiner/{region}/{cluster}/"


CLUSTER_TAG: Final = "joiner.dev/cluster"  # on access entries and roles that a deployment made: its cluster


# Who we are in the cluster: one Kubernetes group a duty
VIEWERS: Final = "joiner:viewer"
RECORDERS: Final = "joiner:recorder"
BINDERS: Final = "joiner:binder"
DRAINERS: Final = "joiner:drainer"
TELLERS: Final = "joiner:teller"

# Why Joiner does not act: reasons of events, and what a state machine ends by
KARPENTER_RUNS: Final = "KarpenterRuns"
FOREIGN_DEFINITIONS: Final = "ForeignDefinitions"
CLUSTER_AUTOSCALER_RUNS: Final = "ClusterAutoscalerRuns"
FIELD_MANAGER: Final = "joiner"
CONTROLLER: Final = "joiner.dev/joiner"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"

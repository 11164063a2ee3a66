"""The names that Kubernetes, Karpenter, EC2 and Joiner share: labels, annotations, taints, finalizers, tags and groups.

This module has only names. `infra/` also imports them, so that IAM conditions and the code always use the same names.
Karpenter's names are unchanged (its documentation, "Well-Known Labels"), so that existing workloads and dashboards
work.
"""

import re
from collections.abc import Collection
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
OURS: Final = (NODEPOOL, PROVISIONER, NODECLASS)
COMPUTE_TYPE: Final = "eks.amazonaws.com/compute-type"
"""A label of the nodes that EKS runs itself (Fargate, Auto Mode) or that are outside of AWS (hybrid)."""
"""Labels of Joiner's nodes: each node has at least one. The node of a claim that a user created may have no pool."""
NODECLAIM: Final = "karpenter.sh/nodeclaim"
INSTANCE_PREFIX: Final = "karpenter.k8s.aws/instance-"
TENANCY: Final = "karpenter.k8s.aws/instance-tenancy"
DEFAULT_TENANCY: Final = "default"
DEDICATED_TENANCY: Final = "dedicated"
TENANCIES: Final = (DEFAULT_TENANCY, DEDICATED_TENANCY)
RESERVATION: Final = "karpenter.k8s.aws/capacity-reservation-id"
PLACEMENT_GROUP: Final = "karpenter.k8s.aws/placement-group-id"
PLACEMENT_PARTITION: Final = "karpenter.k8s.aws/placement-group-partition"
RESERVATION_TYPE: Final = "karpenter.k8s.aws/capacity-reservation-type"
RESERVATION_INTERRUPTIBLE: Final = "karpenter.k8s.aws/capacity-reservation-interruptible"

ON_DEMAND: Final = "on-demand"
SPOT: Final = "spot"
RESERVED: Final = "reserved"
CAPACITY_TYPES: Final = (ON_DEMAND, SPOT, RESERVED)

# Annotations
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DO_NOT_CONSOLIDATE: Final = "karpenter.sh/do-not-consolidate"  # of nodes, before v1beta1
DO_NOT_SYNC_TAINTS: Final = "karpenter.sh/do-not-sync-taints"  # of nodes: the kubelet has set all taints already
PREFIX: Final = "joiner.dev/"
DRAIN: Final = "joiner.dev/drain"
BY_ROLLOUT: Final = "rollout"  # its value: a drain restarts the pod's Deployment instead of evicting the pod
DO_NOT_EVICT: Final = "karpenter.sh/do-not-evict"  # the name in Karpenter before v1beta1
TERMINATION_TIMESTAMP: Final = "karpenter.sh/nodeclaim-termination-timestamp"  # deadline of the drain of a node
MIN_VALUES_RELAXED: Final = "karpenter.sh/nodeclaim-min-values-relaxed"  # its launch has fewer than minValues
NODEPOOL_HASH: Final = "karpenter.sh/nodepool-hash"
NODEPOOL_HASH_VERSION: Final = "karpenter.sh/nodepool-hash-version"
NODECLASS_HASH: Final = "karpenter.k8s.aws/ec2nodeclass-hash"
NODECLASS_HASH_VERSION: Final = "karpenter.k8s.aws/ec2nodeclass-hash-version"
PROVISIONER_HASH: Final = "karpenter.sh/provisioner-hash"
PROVISIONER_HASH_VERSION: Final = "karpenter.sh/provisioner-hash-version"
PLACING: Final = "joiner.dev/placing"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

# Annotations of a pool that limit consolidation beyond Karpenter's fields (pools/consolidation_limits.py)
LEAST_SAVING: Final = "joiner.dev/consolidation-least-saving-per-hour"
LEAST_SAVING_PERCENT: Final = "joiner.dev/consolidation-least-saving-percent"
LEAST_NODE_AGE: Final = "joiner.dev/consolidation-least-node-age"
MOST_EVICTIONS: Final = "joiner.dev/consolidation-evictions-per-day"
WORKLOAD_COOL_DOWN: Final = "joiner.dev/consolidation-workload-cool-down"
SPOT_TO_SPOT: Final = "joiner.dev/spot-to-spot-consolidation"
SPOT_TO_SPOT_TYPES: Final = "joiner.dev/spot-to-spot-least-types"
BUDGET_TIME_ZONE: Final = "joiner.dev/budget-time-zone"
DRIFT: Final = "joiner.dev/drift"
DRIFT_CANARY: Final = "joiner.dev/drift-canary"
DRIFT_CANARY_TIME: Final = "joiner.dev/drift-canary-time"
EXPIRATION: Final = "joiner.dev/expiration"
EXPIRATION_SPREAD: Final = "joiner.dev/expiration-spread"
NODE_REPAIR: Final = "joiner.dev/node-repair"
NODE_REPAIR_TOLERANCES: Final = "joiner.dev/node-repair-tolerances"
REBALANCE: Final = "joiner.dev/rebalance"
NODE_OVERHEAD_PRICE: Final = "joiner.dev/node-overhead-price"
BURSTABLE: Final = "joiner.dev/burstable"
BLAST_RADIUS: Final = "joiner.dev/blast-radius"
CAPACITY_MIX: Final = "joiner.dev/capacity-mix"
SCHEDULE: Final = "joiner.dev/schedule"
POOL_ANNOTATIONS: Final = (
    BLAST_RADIUS,
    BUDGET_TIME_ZONE,
    BURSTABLE,
    CAPACITY_MIX,
    DRIFT,
    DRIFT_CANARY,
    DRIFT_CANARY_TIME,
    EXPIRATION,
    EXPIRATION_SPREAD,
    LEAST_NODE_AGE,
    LEAST_SAVING,
    LEAST_SAVING_PERCENT,
    MOST_EVICTIONS,
    NODE_OVERHEAD_PRICE,
    NODE_REPAIR,
    NODE_REPAIR_TOLERANCES,
    PLACING,
    REBALANCE,
    SCHEDULE,
    SPOT_TO_SPOT,
    SPOT_TO_SPOT_TYPES,
    WORKLOAD_COOL_DOWN,
)
"""All annotations of a pool; others with Joiner's prefix are reported as unknown."""

LEASE: Final = "joiner.dev/lease"
EXECUTION: Final = "joiner.dev/execution"
GENERATIONS: Final = "joiner.dev/generations"  # of the pool and of the class that a claim was made from, such as 3/1
LAUNCH: Final = "joiner.dev/launch"
PRICE: Final = "joiner.dev/price-per-hour"  # $/h of the whole node: its launched offering and the costs beside it

NODE_OF_POD: Final = "joiner.dev/node"  # on an Eviction: the node that the pod must leave

# Labels that admission policies require in Joiner's own requests (manifests/policies)
# Label of a Binding, with the shard of its node; since Kubernetes 1.35 the API server copies it to the pod
PLACED: Final = "joiner.dev/placed"
SHARD: Final = "joiner.dev/shard"  # label of our nodes: their group in the policies on bindings
LEAVING: Final = "joiner.dev/disrupted"  # label of an Eviction, of a pod before its deletion, and of a claim at its end

# Taints
FILLING: Final = "joiner.dev/filling"
UNREGISTERED: Final = "karpenter.sh/unregistered"
DISRUPTED: Final = "karpenter.sh/disrupted"
POD_TEMPLATE_HASH: Final = "pod-template-hash"  # of the ReplicaSet, on the pods of a Deployment
READINESS_PREFIX: Final = "readiness.k8s.io/"  # of node readiness gates, which are removed while a node starts

TERMINATION_FINALIZER: Final = "karpenter.sh/termination"
CLASS_FINALIZER: Final = "karpenter.k8s.aws/termination"  # on node classes, while NodeClaims use them

# Names of Kubernetes resources of both generations of Karpenter's API
POOL_RESOURCES: Final = ("nodepools", "provisioners")
NODE_CLASS_RESOURCES: Final = ("ec2nodeclasses", "awsnodetemplates")
CLAIM_RESOURCES: Final = ("nodeclaims", "machines")
DECLARED_RESOURCES: Final = (*POOL_RESOURCES, *NODE_CLASS_RESOURCES, "daemonsets", "nodeoverlays")
"""Kinds that users write, and that plans depend on: a new generation is a change. Their status is none."""

# EC2 tags (LAUNCH, EXECUTION, NODEPOOL, PROVISIONER, NODECLASS and NODECLAIM are also tags)
CLUSTER_NAME_TAG: Final = "eks:eks-cluster-name"
NAME_TAG: Final = "Name"
DISCOVERY_TAG: Final = "karpenter.sh/discovery"  # marks the resources of a cluster's nodes in Karpenter's documentation


def claim_tags(claim: str, tags: Collection[str] = ()) -> dict[str, str]:
    """Return the tags of an instance that name its claim; a `Name` among its `tags`, which the class sets, is kept.

    >>> claim_tags("default-7f3ka")
    {'karpenter.sh/nodeclaim': 'default-7f3ka', 'Name': 'default-7f3ka'}
    >>> claim_tags("default-7f3ka", {"Name": "web"})
    {'karpenter.sh/nodeclaim': 'default-7f3ka'}
    """
    return {NODECLAIM: claim} if NAME_TAG in tags else {NODECLAIM: claim, NAME_TAG: claim}


def template_prefix(cluster: str) -> str:
    """Return the beginning of the names of a cluster's launch templates.

    >>> template_prefix("prod")
    'joiner/prod/'
    """
    return f"joiner/{cluster}/"


def cluster_tag(cluster: str) -> str:
    """Return the tag key by which EKS and its controllers identify resources of a cluster; its value is ``owned``.

    >>> cluster_tag("prod")
    'kubernetes.io/cluster/prod'
    """
    return f"kubernetes.io/cluster/{cluster}"


def region_of(zone: str) -> str:
    """Return the region of a zone; empty if the text is not the name of a zone.

    >>> region_of("eu-west-1a"), region_of("us-west-2-lax-1a"), region_of("here")
    ('eu-west-1', 'us-west-2', '')
    """
    found = re.match(r"[a-z]+(-[a-z]+)+-\d+", zone)
    return found.group() if found else ""


def zone_location(zone: str) -> str:
    """Return the location of a zone in price lists: the region of an availability zone, the group of a Local Zone.

    >>> zone_location("eu-west-1a"), zone_location("us-west-2-lax-1a"), zone_location("us-east-1-wl1-bos-wlz-1")
    ('eu-west-1', 'us-west-2-lax-1', 'us-east-1-wl1')
    """
    wavelength = re.match(r"(.*-wl\d+)-", zone)
    return wavelength[1] if wavelength else zone.rstrip("abcdefghijklmnopqrstuvwxyz")


def stack_name(cluster: str) -> str:
    """Return the name of the CloudFormation stack for a cluster; such names have no underscores.

    >>> stack_name("my_cluster")
    'joiner-my-cluster'
    """
    return "joiner-" + re.sub(r"[^A-Za-z0-9-]", "-", cluster)


def pause_parameter(cluster: str) -> str:
    """Return the name of the SSM parameter that stops Joiner while its value is ``true``.

    >>> pause_parameter("prod")
    '/joiner/prod/pause'
    """
    return f"/joiner/{cluster}/pause"


# Values of that parameter
ACTING: Final = "false"
PAUSED: Final = "true"
DRAINING: Final = "drain"  # no launches, and every node is retired: `joiner uninstall --nodes drain`
KEEPING: Final = "keep"  # no actions; the stack may be deleted while nodes run: `joiner uninstall --nodes keep`
DELETING: Final = "deleting"  # same as true; the deletion of the stack writes it while it checks for nodes
STOPS_EVERYTHING: Final = (PAUSED, KEEPING, DELETING)
STOPS_LAUNCHES: Final = (PAUSED, KEEPING, DELETING, DRAINING)


def installer_role_name(cluster: str, region: str) -> str:
    """Return the name of the installer's role in a cluster of the authentication mode CONFIG_MAP, whose administrator
    maps the role before the deployment.

    >>> installer_role_name("prod", "eu-west-1")
    'joiner-installer-prod-eu-west-1'
    """
    return f"joiner-installer-{cluster}-{region}"


def profile_path(cluster: str, region: str) -> str:
    """Return the IAM path of the instance profiles that a deployment creates.

    Everything below it belongs to that deployment.

    >>> profile_path("prod", "eu-west-1")
    '/joiner/eu-west-1/prod/'
    """
    return f"/joiner/{region}/{cluster}/"


MAPPED_ROLES: Final = "joiner.dev/mapped-roles"  # annotation of the ConfigMap aws-auth
CLUSTER_TAG: Final = "joiner.dev/cluster"  # on access entries and roles of a deployment: its cluster


# Joiner's Kubernetes groups, one for each duty
VIEWERS: Final = "joiner:viewer"
RECORDERS: Final = "joiner:recorder"
BINDERS: Final = "joiner:binder"
DRAINERS: Final = "joiner:drainer"
EVICTORS: Final = "joiner:evictor"
CLAIM_LABELLERS: Final = "joiner:claim-labeller"
CLASS_REPORTERS: Final = "joiner:class-reporter"
STATUS_WRITERS: Final = "joiner:status-writer"
POOL_REPORTERS: Final = "joiner:pool-reporter"
TAINTERS: Final = "joiner:tainter"
NODE_REMOVERS: Final = "joiner:node-remover"
EVENT_WRITERS: Final = "joiner:event-writer"
DOORBELL_VIEWERS: Final = "joiner:doorbell-viewer"
LISTED_POD_WRITERS: Final = "joiner:listed-pod-writer"

# The webhooks of the ValidatingWebhookConfiguration that call the doorbell
DOORBELL_WEBHOOK: Final = "joiner-doorbell"
DOORBELL_WEBHOOKS: Final = tuple(
    f"{kind}.doorbell.joiner.dev" for kind in ("pods", "nodes", "deletions", "pools", "replicas")
)

# The Role that names the pods whose events do not ring, by their uids
LISTED_PODS_ROLE: Final = "joiner:listed-pods"
LISTED_PODS_NAMESPACE: Final = "kube-system"
API_GROUP: Final = "joiner.dev"
SKIPPED_PODS: Final = "unschedulablepods"  # no API serves this resource: only rules and conditions name it

# Reasons why Joiner does not act, for events and for the end of a state machine
KARPENTER_RUNS: Final = "KarpenterRuns"
FOREIGN_DEFINITIONS: Final = "ForeignDefinitions"
CLUSTER_AUTOSCALER_RUNS: Final = "ClusterAutoscalerRuns"
FIELD_MANAGER: Final = "joiner"
CONTROLLER: Final = "joiner.dev/joiner"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
WARM_UP: Final = "warmUp"  # key of the event of an invocation that only keeps a function warm

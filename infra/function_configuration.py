"""Size and permissions of every function, in one table. A kind of item is a value of the partition key of the table in
DynamoDB; a kind of document is the first part of a key in the bucket.

A function calls either the Kubernetes API or AWS APIs, never both. Functions that call the Kubernetes API may run in
the cluster's VPC. From there they reach no other AWS API than S3 and DynamoDB, through the gateway endpoints, which are
free. Functions that call EC2 and other AWS services run outside any VPC.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Final

from joiner.names import (
    BINDERS,
    CLAIM_LABELLERS,
    CLASS_REPORTERS,
    DOORBELL_VIEWERS,
    DRAINERS,
    EVENT_WRITERS,
    EVICTORS,
    LISTED_POD_WRITERS,
    NODE_REMOVERS,
    POOL_REPORTERS,
    RECORDERS,
    STATUS_WRITERS,
    TAINTERS,
    VIEWERS,
)


class CalledApi(Enum):
    """Which API a function calls."""

    KUBERNETES = "kubernetes"
    AWS = "aws"


@dataclass(frozen=True, slots=True)
class FunctionConfiguration:
    """The configuration of one function."""

    description: str
    calls: CalledApi
    timeout_seconds: int
    """Under the lease less than the lease, which each function renews for its own timeout and 30 seconds."""
    _: KW_ONLY
    needs_planner: bool = False
    """Whether the function needs the layer with numpy and HiGHS."""
    memory_mb: int = 256
    """CPU is proportional to memory: 1,769 MB is one core."""
    gets_items: tuple[str, ...] = ()
    """Kinds for `dynamodb:GetItem`. Functions in Kubernetes also get CLUSTER: the only endpoint for their tokens."""
    gets_items_in_batches: tuple[str, ...] = ()
    """Kinds for `dynamodb:BatchGetItem`."""
    queries_items: tuple[str, ...] = ()
    """Kinds for `dynamodb:Query`."""
    updates_items: tuple[str, ...] = ()
    """Kinds for `dynamodb:UpdateItem`, which also creates an item that does not exist."""
    puts_items: tuple[str, ...] = ()
    """Kinds for `dynamodb:PutItem`."""
    checks_items: tuple[str, ...] = ()
    """Kinds for condition checks in transactions."""
    deletes_items: tuple[str, ...] = ()
    reads_documents: tuple[str, ...] = ()
    writes_documents: tuple[str, ...] = ()
    reads_pause: bool = False
    """Whether the function reads the pause parameter immediately before it acts."""
    groups: tuple[str, ...] = ()
    """Kubernetes groups of the function's access entry."""

    @property
    def all_gets_items(self) -> tuple[str, ...]:
        """All kinds for `dynamodb:GetItem`."""
        return (*self.gets_items, "CLUSTER") if self.calls is CalledApi.KUBERNETES else self.gets_items


CONFIGURATIONS: Final[Mapping[str, FunctionConfiguration]] = {
    # The doorbell
    "ring_doorbell": FunctionConfiguration(
        "Counts a ring, then starts a scale-up or a sweep, or wakes what waits for nodes",
        CalledApi.AWS,
        timeout_seconds=5,
        gets_items=("DOORBELL",),
        queries_items=("WAVE",),
        updates_items=("LEASE", "WAVE"),
    ),
    # The sweep
    "survey_cluster": FunctionConfiguration(
        "Finds pending pods, claims that no execution waits for, and nodes to retire",
        CalledApi.KUBERNETES,
        timeout_seconds=30,
        memory_mb=1024,
        gets_items=("ANSWERED", "DRIFT", "LEASE", "PROPOSED"),
        queries_items=(
            "ASSIGNMENT",
            "AWAITED",
            "DISRUPTION",
            "EMPTY",
            "HELD",
            "IMPAIRED",
            "LAUNCH",
            "RECOMMENDED",
            "RETIREMENT",
            "UNAVAILABLE",
            "WAVE",
        ),
        updates_items=("EMPTY", "RECOMMENDED"),
        deletes_items=("EMPTY",),
        reads_documents=("free-addresses", "observed-memory", "pod-events", "spot-hours"),
        writes_documents=("observed-memory", "pod-events", "snapshots", "spot-hours", "surveys"),
        groups=(VIEWERS, EVENT_WRITERS, DOORBELL_VIEWERS, LISTED_POD_WRITERS),
    ),
    "survey_instances": FunctionConfiguration(
        "Reads the instances, and the executions that hold the lease, retire claims or wait for nodes",
        CalledApi.AWS,
        timeout_seconds=30,
        memory_mb=512,
        gets_items=("BACKOFF", "INSTANCE", "LEASE"),
        gets_items_in_batches=("INSTANCE",),
        queries_items=("ABSENT", "IMPAIRED", "LAUNCH", "RETIREMENT", "WAVE"),
        updates_items=("ABSENT", "BACKOFF", "IMPAIRED", "INSTANCE", "LEASE", "RETIREMENT", "UNAVAILABLE"),
        deletes_items=("ABSENT", "AWAITED", "IMPAIRED", "LAUNCH", "WAVE"),
        reads_documents=("surveys",),
        writes_documents=("consoles", "instances"),
        reads_pause=True,
    ),
    "collect_garbage": FunctionConfiguration(
        "Terminates instances that have neither claim nor node",
        CalledApi.AWS,
        timeout_seconds=30,
        queries_items=("LAUNCH",),
        deletes_items=("INSTANCE",),
        reads_pause=True,
    ),
    "rebuild_claims": FunctionConfiguration(
        "Recreates lost claims of nodes",
        CalledApi.KUBERNETES,
        timeout_seconds=30,
        memory_mb=512,
        groups=(VIEWERS, RECORDERS),
    ),
    "detect_drift": FunctionConfiguration(
        "Compares claims with what would be launched now; writes the condition Drifted, and the status of classes",
        CalledApi.KUBERNETES,
        timeout_seconds=30,
        memory_mb=512,
        updates_items=("DRIFT",),
        reads_documents=("catalogue", "instances", "node-classes"),
        groups=(VIEWERS, STATUS_WRITERS, CLASS_REPORTERS, CLAIM_LABELLERS),
    ),
    # The scale-up, in order
    "find_pending_pods": FunctionConfiguration(
        "Takes the snapshot: pods, nodes, pools, claims",
        CalledApi.KUBERNETES,
        timeout_seconds=45,
        memory_mb=1769,
        gets_items=("ANSWERED",),
        queries_items=("ASSIGNMENT", "AWAITED", "HELD", "LAUNCH", "UNAVAILABLE", "WAVE"),
        updates_items=("LEASE",),
        writes_documents=("snapshots",),
        groups=(VIEWERS, EVENT_WRITERS, LISTED_POD_WRITERS),
    ),
    "resolve_node_classes": FunctionConfiguration(
        "Finds the subnets, security groups, images and the instance profile of each node class",
        CalledApi.AWS,
        timeout_seconds=30,
        memory_mb=512,
        queries_items=("BACKOFF",),
        updates_items=("LEASE",),
        reads_documents=("catalogue", "free-addresses", "snapshots"),
        writes_documents=("free-addresses", "node-classes", "validations"),
    ),
    "plan_capacity": FunctionConfiguration(
        "Decides what to launch",
        CalledApi.AWS,
        needs_planner=True,
        timeout_seconds=60,
        memory_mb=1769,
        gets_items=("ANSWERED",),
        queries_items=("HELD", "UNAVAILABLE"),
        updates_items=("ANSWERED", "LEASE"),
        reads_documents=("catalogue", "node-classes", "snapshots"),
        writes_documents=("plans",),
    ),
    "record_node_claims": FunctionConfiguration(
        "Creates the NodeClaims of the plan, and records the pods for which they are",
        CalledApi.KUBERNETES,
        timeout_seconds=60,
        memory_mb=512,
        gets_items=("ANSWERED",),
        queries_items=("ASSIGNMENT", "LAUNCH"),
        updates_items=("ANSWERED", "ASSIGNMENT", "LEASE"),
        deletes_items=("ASSIGNMENT",),
        reads_documents=("catalogue", "node-classes", "plans", "snapshots"),
        writes_documents=("events", "launches"),
        groups=(VIEWERS, RECORDERS),
    ),
    "launch_instances": FunctionConfiguration(
        "Launches instances for groups of similar claims",
        CalledApi.AWS,
        timeout_seconds=60,
        memory_mb=512,
        gets_items=("INSTANCE", "LAUNCH"),
        gets_items_in_batches=("INSTANCE",),
        updates_items=("BACKOFF", "INSTANCE", "LAUNCH", "LEASE", "UNAVAILABLE"),
        puts_items=("LAUNCH",),
        checks_items=("LEASE",),
        reads_documents=("launches", "validations"),
        reads_pause=True,
    ),
    "record_launches": FunctionConfiguration(
        "Writes the results of the launches to the claims",
        CalledApi.KUBERNETES,
        timeout_seconds=45,
        memory_mb=512,
        gets_items=("ANSWERED",),
        queries_items=("ASSIGNMENT", "AWAITED", "LAUNCH", "WAVE"),
        updates_items=("ANSWERED", "AWAITED", "LAUNCH", "LEASE", "WAVE"),
        deletes_items=("ASSIGNMENT",),
        reads_documents=("catalogue", "snapshots"),
        writes_documents=("events",),
        groups=(VIEWERS, RECORDERS),
    ),
    "check_registration": FunctionConfiguration(
        "Registers nodes with their claims and binds the planned pods",
        CalledApi.KUBERNETES,
        timeout_seconds=45,
        memory_mb=1024,  # parsing and binding 1,000 pods is bound by the CPU
        gets_items=("AWAITED", "WAVE"),
        queries_items=("ASSIGNMENT", "HELD"),
        updates_items=("HELD", "WAVE"),
        deletes_items=("ASSIGNMENT", "AWAITED", "BACKOFF", "HELD", "WAVE"),
        reads_documents=("events",),
        groups=(VIEWERS, STATUS_WRITERS, POOL_REPORTERS, BINDERS),
    ),
    # The retirement, in order
    "begin_retirement": FunctionConfiguration(
        "Taints nodes to retire, and deletes their claims",
        CalledApi.KUBERNETES,
        timeout_seconds=60,
        memory_mb=512,
        gets_items=("LEASE", "RETIREMENT"),
        queries_items=("ASSIGNMENT", "DISRUPTION", "HELD", "LAUNCH", "RETIREMENT"),
        updates_items=("DISRUPTION", "HELD", "LEASE", "RETIREMENT"),
        groups=(VIEWERS, RECORDERS, TAINTERS),
    ),
    "evict_pods": FunctionConfiguration(
        "Evicts the pods of retiring nodes",
        CalledApi.KUBERNETES,
        timeout_seconds=60,
        memory_mb=512,
        queries_items=("RETIREMENT",),
        updates_items=("RETIREMENT",),
        groups=(VIEWERS, STATUS_WRITERS, TAINTERS, EVICTORS, DRAINERS),
    ),
    "terminate_instances": FunctionConfiguration(
        "Terminates the instances of drained nodes",
        CalledApi.AWS,
        timeout_seconds=60,
        updates_items=("RETIREMENT",),
        reads_pause=True,
    ),
    "confirm_termination": FunctionConfiguration(
        "Checks whether instances are terminated", CalledApi.AWS, timeout_seconds=30, updates_items=("RETIREMENT",)
    ),
    "forget_nodes": FunctionConfiguration(
        "Deletes nodes and claims whose instances are terminated",
        CalledApi.KUBERNETES,
        timeout_seconds=60,
        memory_mb=512,
        updates_items=("RETIREMENT",),
        deletes_items=("ASSIGNMENT", "INSTANCE", "RETIREMENT"),
        groups=(VIEWERS, RECORDERS, TAINTERS, NODE_REMOVERS, DRAINERS),
    ),
    # The disruption, in order; replacements are launched by the functions of scale-ups
    "find_candidates": FunctionConfiguration(
        "Takes the snapshot for a proposal of nodes to disrupt",
        CalledApi.KUBERNETES,
        timeout_seconds=45,
        memory_mb=1769,
        gets_items=("LEASE",),
        queries_items=("ASSIGNMENT", "LAUNCH"),
        updates_items=("LEASE",),
        writes_documents=("snapshots",),
        groups=(VIEWERS,),
    ),
    "propose_disruption": FunctionConfiguration(
        "Decides which nodes to remove or to replace",
        CalledApi.AWS,
        needs_planner=True,
        timeout_seconds=60,
        memory_mb=1769,
        gets_items=("PROPOSED",),
        queries_items=("BACKOFF", "DISRUPTION", "HELD", "MOVED", "RECOMMENDED", "UNAVAILABLE"),
        updates_items=("LEASE", "PROPOSED"),
        reads_documents=("catalogue", "decisions", "node-classes", "pod-events", "snapshots"),
        writes_documents=("decisions",),
    ),
    "report_candidates": FunctionConfiguration(
        "Reports which nodes may be consolidated, and why others stay",
        CalledApi.KUBERNETES,
        timeout_seconds=45,
        memory_mb=1769,
        reads_documents=("decisions", "pod-events", "snapshots"),
        groups=(VIEWERS, STATUS_WRITERS),
    ),
    "mark_nodes": FunctionConfiguration(
        "Taints the nodes that were chosen, and writes the plan of their replacements",
        CalledApi.KUBERNETES,
        timeout_seconds=60,
        memory_mb=512,
        queries_items=("DISRUPTION", "EMPTY"),
        updates_items=("DISRUPTION", "LEASE"),
        deletes_items=("DISRUPTION",),
        reads_documents=("decisions",),
        writes_documents=("plans",),
        groups=(VIEWERS, STATUS_WRITERS, TAINTERS),
    ),
    "settle_disruptions": FunctionConfiguration(
        "Finds which marked nodes may be retired, and opens those whose replacements fail",
        CalledApi.KUBERNETES,
        timeout_seconds=60,
        memory_mb=512,
        gets_items=("BACKOFF", "LEASE"),
        queries_items=("DISRUPTION", "LAUNCH", "RETIREMENT"),
        updates_items=("BACKOFF", "DISRUPTION", "MOVED"),
        deletes_items=("DISRUPTION",),
        groups=(VIEWERS, STATUS_WRITERS, TAINTERS),
    ),
    # Beside
    "handle_interruption": FunctionConfiguration(
        "Handles notices of EC2 and AWS Health, and starts the retirement of interrupted instances",
        CalledApi.AWS,
        timeout_seconds=15,
        gets_items=("BACKOFF", "RETIREMENT"),
        gets_items_in_batches=("INSTANCE",),
        updates_items=("BACKOFF", "INTERRUPTED", "LEASE", "RECOMMENDED", "RETIREMENT", "UNAVAILABLE"),
        reads_pause=True,
    ),
    "refresh_catalogue": FunctionConfiguration(
        "Reads instance types, offerings and prices",
        CalledApi.AWS,
        timeout_seconds=300,
        memory_mb=1024,
        queries_items=("INTERRUPTED",),
        reads_documents=("catalogue", "observed-memory", "spot-hours"),
        writes_documents=("catalogue",),
    ),
    "collect_launch_templates": FunctionConfiguration(
        "Custom resource and schedule: deletes launch templates that nothing uses",
        CalledApi.AWS,
        timeout_seconds=300,
        queries_items=("LAUNCH",),
    ),
    # Deployment only
    "describe_cluster": FunctionConfiguration(
        "Custom resource: the cluster's endpoint and CA, which it records, and the doorbell's CA",
        CalledApi.AWS,
        timeout_seconds=60,
        updates_items=("CLUSTER",),
    ),
    "elevate_installer": FunctionConfiguration(
        "Custom resource: makes the installer an administrator of the cluster while it runs",
        CalledApi.AWS,
        timeout_seconds=60,
    ),
    "install_manifests": FunctionConfiguration(
        "Custom resource: CRDs, RBAC and the doorbell's webhook",
        CalledApi.KUBERNETES,
        timeout_seconds=300,
        memory_mb=512,
        updates_items=("DOORBELL",),
    ),
    "keep_node_access": FunctionConfiguration(
        "Custom resource and schedule: access entries of node roles; removes those that no node uses",
        CalledApi.AWS,
        timeout_seconds=120,
        queries_items=("UNUSED",),
        updates_items=("UNUSED",),
        deletes_items=("UNUSED",),
    ),
    "guard_deletion": FunctionConfiguration(
        "Custom resource: refuses the deletion of the stack while nodes run",
        CalledApi.AWS,
        timeout_seconds=180,
        gets_items=("LEASE",),
        reads_pause=True,
    ),
    "create_pause_parameter": FunctionConfiguration(
        "Custom resource: creates the parameter that pauses Joiner", CalledApi.AWS, timeout_seconds=60
    ),
    "await_catalogue": FunctionConfiguration(
        "Custom resource: runs the first refresh of the catalogue", CalledApi.AWS, timeout_seconds=330
    ),
    "empty_bucket": FunctionConfiguration(
        "Custom resource: empties the bucket before the stack deletes it", CalledApi.AWS, timeout_seconds=600
    ),
}
"""By the name of the function, which is the name of its folder, too."""

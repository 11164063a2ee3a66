"""Who does what: every function with its side, its size, and all that it may touch. One table, to be read as a whole.

Two kinds of functions, never mixed: those that talk to Kubernetes (they may sit in the cluster's VPC, and reach nothing else there but
S3 and DynamoDB through the free gateway endpoints), and those that talk to EC2 and other AWS services (they sit in no VPC).
The kinds of items are those of the table's partition key; the kinds of documents are the first part of a key in the bucket.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from joiner.names import BINDERS, DRAINERS, RECORDERS, TELLERS, VIEWERS


class Side(Enum):
    """Whom a function talks to."""

    KUBERNETES = "kubernetes"
    AWS = "aws"


@dataclass(frozen=True, slots=True)
class Duty:
    """What one function is, and may do."""

    does: str
    side: Side
    timeout: int
    """Seconds. Under the lease it is shorter than the lease, which each function renews for its own timeout and half a minute."""
    plans: bool = False
    """Does it look for plans, so that numpy and HiGHS come along?"""
    memory: int = 256
    """MB. CPU comes with it: 1,769 MB is one core."""
    reads_items: tuple[str, ...] = ()
    """Every function that talks to Kubernetes reads CLUSTER, too: the one endpoint to which it may send its token."""
    writes_items: tuple[str, ...] = ()
    """Those it updates; whoever updates an item that is not there makes it."""
    stores_items: tuple[str, ...] = ()
    """Those it puts whole."""
    checks_items: tuple[str, ...] = ()
    """Those on which a transaction of its hangs."""
    deletes_items: tuple[str, ...] = ()
    reads_documents: tuple[str, ...] = ()
    writes_documents: tuple[str, ...] = ()
    heeds_pause: bool = False
    """Reads the pause parameter right before it acts."""
    groups: tuple[str, ...] = ()
    """Groups in the cluster that its access entry gives it."""

    @property
    def readable_items(self) -> tuple[str, ...]:
        """All kinds of items that it may read."""
        return (*self.reads_items, "CLUSTER") if self.side is Side.KUBERNETES else self.reads_items


DUTIES: Final[Mapping[str, Duty]] = {
    # The doorbell
    "ring_doorbell": Duty(
        "Counts a ring, then starts a scale-up or a sweep, or wakes what waits for nodes",
        Side.AWS,
        timeout=5,
        reads_items=("DOORBELL", "WAVE"),
        writes_items=("LEASE", "WAVE"),
    ),
    # The sweep
    "survey_cluster": Duty(
        "Looks for pending pods, for claims that nobody watches, and for nodes that have to go",
        Side.KUBERNETES,
        timeout=30,
        memory=1024,
        reads_items=("ANSWERED", "ASSIGNMENT", "EMPTY", "LAUNCH", "LEASE", "RETIREMENT", "UNAVAILABLE", "WAVE"),
        writes_items=("EMPTY",),
        deletes_items=("EMPTY",),
        writes_documents=("surveys",),
        groups=(VIEWERS, TELLERS),
    ),
    "survey_instances": Duty(
        "Looks at the instances, and at the executions that hold the lease, retire claims or wait for nodes",
        Side.AWS,
        timeout=30,
        memory=512,
        reads_items=("ABSENT", "BACKOFF", "INSTANCE", "LAUNCH", "LEASE", "RETIREMENT", "WAVE"),
        writes_items=("ABSENT", "BACKOFF", "LEASE", "RETIREMENT", "UNAVAILABLE"),
        deletes_items=("ABSENT", "WAVE"),
        reads_documents=("surveys",),
        heeds_pause=True,
    ),
    "collect_garbage": Duty(
        "Ends instances that have neither claim nor node",
        Side.AWS,
        timeout=30,
        reads_items=("LAUNCH",),
        deletes_items=("INSTANCE",),
        heeds_pause=True,
    ),
    "rebuild_claims": Duty(
        "Writes the claims of nodes that have lost them",
        Side.KUBERNETES,
        timeout=30,
        memory=512,
        groups=(VIEWERS, RECORDERS),
    ),
    # The scale-up, in order
    "find_pending_pods": Duty(
        "Takes the snapshot: pods, nodes, pools, claims",
        Side.KUBERNETES,
        timeout=45,
        memory=1769,
        reads_items=("ANSWERED", "ASSIGNMENT", "LAUNCH", "UNAVAILABLE", "WAVE"),
        writes_items=("LEASE",),
        writes_documents=("snapshots",),
        groups=(VIEWERS, TELLERS),
    ),
    "resolve_node_classes": Duty(
        "Finds the subnets, groups, images and the profile of each node class",
        Side.AWS,
        timeout=30,
        memory=512,
        reads_items=("BACKOFF",),
        writes_items=("LEASE",),
        reads_documents=("snapshots",),
        writes_documents=("node-classes",),
    ),
    "plan_capacity": Duty(
        "Decides what to launch",
        Side.AWS,
        plans=True,
        timeout=60,
        memory=1769,
        reads_items=("ANSWERED", "UNAVAILABLE"),
        writes_items=("ANSWERED", "LEASE"),
        reads_documents=("catalogue", "node-classes", "snapshots"),
        writes_documents=("plans",),
    ),
    "record_node_claims": Duty(
        "Writes the claims of the plan, and to whom they belong",
        Side.KUBERNETES,
        timeout=60,
        memory=512,
        reads_items=("ANSWERED", "ASSIGNMENT", "LAUNCH"),
        writes_items=("ANSWERED", "ASSIGNMENT", "LEASE"),
        deletes_items=("ASSIGNMENT",),
        reads_documents=("catalogue", "node-classes", "plans", "snapshots"),
        writes_documents=("events", "launches"),
        groups=(VIEWERS, RECORDERS),
    ),
    "launch_instances": Duty(
        "Asks EC2 for one group of like claims",
        Side.AWS,
        timeout=60,
        memory=512,
        reads_items=("INSTANCE", "LAUNCH"),
        writes_items=("INSTANCE", "LAUNCH", "LEASE", "UNAVAILABLE"),
        stores_items=("LAUNCH",),
        checks_items=("LEASE",),
        reads_documents=("launches",),
        heeds_pause=True,
    ),
    "record_launches": Duty(
        "Writes to the claims what became of their launches",
        Side.KUBERNETES,
        timeout=45,
        memory=512,
        reads_items=("ANSWERED", "ASSIGNMENT", "LAUNCH", "WAVE"),
        writes_items=("ANSWERED", "LAUNCH", "LEASE", "WAVE"),
        deletes_items=("ASSIGNMENT",),
        reads_documents=("catalogue", "snapshots"),
        writes_documents=("events",),
        groups=(VIEWERS, RECORDERS),
    ),
    "check_registration": Duty(
        "Joins nodes to their claims and places the planned pods",
        Side.KUBERNETES,
        timeout=45,
        memory=512,
        reads_items=("ASSIGNMENT", "WAVE"),
        writes_items=("WAVE",),
        deletes_items=("ASSIGNMENT", "WAVE"),
        reads_documents=("events",),
        groups=(VIEWERS, RECORDERS, BINDERS),
    ),
    # The retirement, in order
    "begin_retirement": Duty(
        "Closes nodes that have to go to pods, and deletes their claims",
        Side.KUBERNETES,
        timeout=60,
        memory=512,
        reads_items=("ASSIGNMENT", "LAUNCH", "LEASE", "RETIREMENT"),
        writes_items=("LEASE", "RETIREMENT"),
        groups=(VIEWERS, RECORDERS, DRAINERS),
    ),
    "evict_pods": Duty(
        "Asks the pods of retiring nodes to leave",
        Side.KUBERNETES,
        timeout=60,
        memory=512,
        reads_items=("RETIREMENT",),
        writes_items=("RETIREMENT",),
        groups=(VIEWERS, RECORDERS, DRAINERS),
    ),
    "terminate_instances": Duty(
        "Ends the instances of drained nodes", Side.AWS, timeout=60, writes_items=("RETIREMENT",), heeds_pause=True
    ),
    "confirm_termination": Duty("Looks whether instances are gone", Side.AWS, timeout=30, writes_items=("RETIREMENT",)),
    "forget_nodes": Duty(
        "Lets go of nodes and claims whose instances are gone",
        Side.KUBERNETES,
        timeout=60,
        memory=512,
        writes_items=("RETIREMENT",),
        deletes_items=("ASSIGNMENT", "INSTANCE", "RETIREMENT"),
        groups=(VIEWERS, RECORDERS, DRAINERS),
    ),
    # Beside
    "handle_interruption": Duty(
        "Judges what EC2 and AWS Health say about our instances, and has those retired that are lost",
        Side.AWS,
        timeout=15,
        reads_items=("BACKOFF", "INSTANCE", "RETIREMENT"),
        writes_items=("BACKOFF", "LEASE", "RETIREMENT", "UNAVAILABLE"),
        heeds_pause=True,
    ),
    "refresh_catalogue": Duty(
        "Reads instance types, offerings and prices",
        Side.AWS,
        timeout=300,
        memory=1024,
        writes_documents=("catalogue",),
    ),
    # Deployment only
    "describe_cluster": Duty(
        "Custom resource: the cluster's endpoint and CA, which it records, and the doorbell's CA",
        Side.AWS,
        timeout=60,
        writes_items=("CLUSTER",),
    ),
    "elevate_installer": Duty("Custom resource: makes the installer an administrator of the cluster while it runs", Side.AWS, timeout=60),
    "install_manifests": Duty(
        "Custom resource: CRDs, RBAC and the doorbell's webhook",
        Side.KUBERNETES,
        timeout=300,
        memory=512,
        writes_items=("DOORBELL",),
    ),
    "keep_node_access": Duty(
        "Custom resource and schedule: access entries of node roles; removes what no node uses any more",
        Side.AWS,
        timeout=120,
        reads_items=("UNUSED",),
        writes_items=("UNUSED",),
        deletes_items=("UNUSED",),
    ),
    "guard_deletion": Duty(
        "Custom resource: refuses the deletion of the stack while nodes run",
        Side.AWS,
        timeout=180,
        reads_items=("LEASE",),
        heeds_pause=True,
    ),
    "await_catalogue": Duty("Custom resource: runs the first refresh of the catalogue", Side.AWS, timeout=330),
    "empty_bucket": Duty("Custom resource: empties the bucket before the stack deletes it", Side.AWS, timeout=600),
}
"""By name of the function, which is also its folder's."""

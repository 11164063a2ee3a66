"""The registry of the checks of a sweep, in their order."""

from joiner.lifecycle.checks.claims_of_ended_leases import STALE_CLAIMS
from joiner.lifecycle.checks.claims_to_rebalance import RECOMMENDED
from joiner.lifecycle.checks.closed_nodes import CLOSED_NODES
from joiner.lifecycle.checks.deleted_claims import DELETED
from joiner.lifecycle.checks.empty_claims import EMPTY
from joiner.lifecycle.checks.expired_claims import EXPIRED
from joiner.lifecycle.checks.held_classes import UNSETTLED_CLASSES
from joiner.lifecycle.checks.lost_instances import LOST_INSTANCES
from joiner.lifecycle.checks.missing_replicas import MISSING_REPLICAS
from joiner.lifecycle.checks.orphan_claims import ORPHAN_CLAIMS
from joiner.lifecycle.checks.orphan_instances import ORPHAN_INSTANCES
from joiner.lifecycle.checks.orphan_nodes import ORPHAN_NODES
from joiner.lifecycle.checks.surplus_claims import SURPLUS
from joiner.lifecycle.checks.unfinished_retirements import HALF_BEGUN
from joiner.lifecycle.checks.unhealthy_nodes import UNHEALTHY
from joiner.lifecycle.checks.unlaunched_standalone_claims import UNLAUNCHED_CLAIMS
from joiner.lifecycle.checks.unplanned_buffers import BUFFERS_TO_PLAN, CHANGED_BUFFERS
from joiner.lifecycle.checks.unplanned_pods import PENDING_PODS
from joiner.lifecycle.checks.unregistered_claims import NEVER_JOINED
from joiner.lifecycle.checks.unwatched_claims import UNWATCHED_CLAIMS

CHECKS = (
    PENDING_PODS,
    CHANGED_BUFFERS,
    BUFFERS_TO_PLAN,
    MISSING_REPLICAS,
    UNLAUNCHED_CLAIMS,
    UNWATCHED_CLAIMS,
    STALE_CLAIMS,
    CLOSED_NODES,
    UNSETTLED_CLASSES,
)

RETIREMENTS = (DELETED, NEVER_JOINED, UNHEALTHY, RECOMMENDED, EXPIRED, SURPLUS, EMPTY, HALF_BEGUN)
"""The first check that finds a claim determines its reason."""

INSTANCE_CHECKS = (LOST_INSTANCES, ORPHAN_CLAIMS, ORPHAN_INSTANCES, ORPHAN_NODES)

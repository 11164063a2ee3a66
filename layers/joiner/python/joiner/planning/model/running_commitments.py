"""The instances of a cluster that use the commitments of the account, and what they use of them.

Every on-demand node counts, also those that others launched, and every claim that is in flight. A node in a capacity
reservation counts, too: AWS applies commitments to it like to any other on-demand instance. Fargate pods and Spot
Instances do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from joiner import names
from joiner.catalogue.commitments import (
    NOTHING_COVERED,
    Commitment,
    Coverage,
    Machine,
    apply_commitments,
    runs_linux,
)
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims

MANAGED_CAPACITY_TYPE: Final = "eks.amazonaws.com/capacityType"
"""The label with the capacity type of a node in a managed node group: ON_DEMAND, SPOT or CAPACITY_BLOCK."""


def cover_running_nodes(snapshot: Snapshot, commitments: Sequence[Commitment]) -> Coverage:
    """Return which share of each node's price is committed, by the name of the node or the key of its claim."""
    return apply_commitments(commitments, find_machines(snapshot)) if commitments else NOTHING_COVERED


def find_machines(snapshot: Snapshot) -> Iterator[Machine]:
    """Yield the on-demand instances of the cluster that run or are being launched."""
    joined = nodes_of_claims(snapshot)
    for node in snapshot.nodes:
        if _may_be_covered(node.labels):
            yield _machine(node.name, node.labels)
    for claim in snapshot.claims:
        launched = claim.launched or claim.deleting or claim.name in snapshot.entering
        if claim.key not in joined and launched and _may_be_covered(claim.labels):
            yield _machine(claim.key, claim.labels)


def _machine(identifier: str, labels: Mapping[str, str]) -> Machine:
    return Machine(identifier, labels[names.INSTANCE_TYPE], labels.get(names.ZONE, ""))


def _may_be_covered(labels: Mapping[str, str]) -> bool:
    managed = {"SPOT": names.SPOT, "CAPACITY_BLOCK": "capacity-block"}.get(labels.get(MANAGED_CAPACITY_TYPE, ""))
    capacity_type = labels.get(names.CAPACITY_TYPE) or managed or names.ON_DEMAND
    if labels.get(names.TENANCY, names.DEFAULT_TENANCY) != names.DEFAULT_TENANCY:
        return False  # the commitments that Joiner reads are for shared hardware
    return names.INSTANCE_TYPE in labels and runs_linux(labels) and capacity_type in (names.ON_DEMAND, names.RESERVED)

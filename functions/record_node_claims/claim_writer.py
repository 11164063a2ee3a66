"""Derive claims from planned nodes, and write them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from aws_lambda_powertools import Logger

from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import create_claim, kind_of, write_adoption
from joiner.adapters.kube_errors import AlreadyExists, KubeError, Unreachable
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft, call_each_in_time
from joiner.adapters.payload import Task
from joiner.launching import LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, RefusedClaim
from joiner.names import EXECUTION, GENERATIONS, LEASE
from joiner.planning import Plan, PlannedNode, Snapshot
from joiner.planning.model.node_labels import INSTANCE_LABELS
from joiner.pools import NodeClaim, NodeClaimTemplate, ResolvedNodeClass, build_node_claim, read_node_claim
from joiner.pools.drift_hashes import build_hash_annotations
from joiner.pools.registration_health import format_generations
from joiner.pools.standalone_claims import DECIDED, adopt_claim

logger = Logger(child=True)


@dataclass(frozen=True, slots=True)
class ClaimIntent:
    """One planned node and its future claim."""

    node: PlannedNode
    wanted: ClaimToLaunch

    @property
    def claim(self) -> NodeClaim:
        """Return the claim to write."""
        return self.wanted.claim


def _is_decided(label: str) -> bool:
    """Return whether the plan decides a label, and not the instance: a launch has one capacity reservation, and one
    tenancy."""
    return label in DECIDED or not INSTANCE_LABELS.fullmatch(label)


def list_intents(
    plan: Plan, world: Snapshot, classes: Mapping[str, ResolvedNodeClass], task: Task
) -> list[ClaimIntent]:
    """Return what to write for each planned node, in the plan's order.

    Raises LookupError if the plan needs a node class that was not resolved.
    """
    pools, standing = {pool.key: pool for pool in world.pools}, {claim.key: claim for claim in world.claims}
    found = []
    for index, node in enumerate(plan.nodes):
        pool = pools[node.pool]
        node_class = world.node_class(pool)
        resolved = classes.get(pool.class_ref.key)
        if node_class is None or resolved is None:
            raise LookupError(f"the plan has a node of {pool.key}, whose class {pool.class_ref.key} was not resolved")
        # The instance decides the other labels; EC2 chooses it among the alternatives
        labels = {key: value for key, value in node.labels.items() if _is_decided(key)}
        if pool.claim:
            claim = adopt_claim(standing[pool.claim], labels)
        else:
            claim = build_node_claim(
                pool,
                NodeClaimTemplate(
                    requirements=node.requirements,
                    requests=node.requests + node.daemon_overhead,
                    labels=labels,
                    annotations={
                        **build_hash_annotations(pool, node_class),
                        GENERATIONS: format_generations(pool.generation, resolved.generation),
                    },
                    capacity=node.capacity,
                    allocatable=node.allocatable,
                    min_values_relaxed=node.min_values_relaxed,
                ),
                suffix=task.claim_suffix(index),
                lease=task.lease_number,
                execution=task.execution.name,
            )
        alike = [offer for offer in (node.offer, *node.alternatives) if offer.capacity_type == node.capacity_type]
        offers = dict.fromkeys(LaunchOffering(offer.price_per_hour, offer.instance_type, offer.zone) for offer in alike)
        overlaid = any(offer.overlaid for offer in alike)
        wanted = ClaimToLaunch(claim, pool, node_class, resolved, node.capacity_type, tuple(offers), overlaid)
        found.append(ClaimIntent(node, wanted))
    return found


class ClaimWriter:
    """Writes assignments and claims.

    `refused` are the claims that the API server refused, with its reason. `left` are those for which no time was left.
    `copied` are claims of users that had the annotations of another claim's scale-up.
    """

    def __init__(self, kube: Kube, ledger: Ledger, task: Task, time_left: TimeLeft = UNBOUNDED) -> None:
        self._time_left = time_left
        self.left: list[ClaimIntent] = []
        self._kube = kube
        self._ledger = ledger
        self._task = task
        self.refused: list[tuple[ClaimIntent, RefusedClaim]] = []
        self.copied: list[NodeClaim] = []

    def write(self, wanted: Sequence[ClaimIntent]) -> list[ClaimIntent]:
        """Write all; return those whose claims exist. A refused claim does not stop the others."""
        # Claims of users before their assignments: with one, a copied claim is taken for a claim of a scale-up
        adopted = self._write_each([each for each in wanted if not each.claim.lease], self._adopt)
        new = [each for each in wanted if each.claim.lease]
        # New claims after their assignments: a claim that exists has its assignment
        assigned = {each.claim.name: each.node.classes for each in (*adopted, *new)}
        self._ledger.assign_all(assigned, self._task.lease_number)
        return [*adopted, *self._write_each(new, self._create)]

    def _write_each(self, wanted: Sequence[ClaimIntent], write: Callable[[ClaimIntent], None]) -> list[ClaimIntent]:
        written: list[ClaimIntent] = []
        answers, left = call_each_in_time(wanted, write, KubeError, self._time_left)
        self.left += left
        for intent, answer in answers:
            if isinstance(answer, KubeError):
                # Without an answer the claim may exist: without its assignment it would be taken for one of a user
                if not isinstance(answer, Unreachable):
                    self._ledger.unassign(intent.claim.name, self._task.lease_number)
                self.refused.append((intent, RefusedClaim(intent.claim.name, "ClaimNotWritten", str(answer))))
                continue
            written.append(intent)
            planned = f"{intent.node.instance_type} in {intent.node.zone}, {intent.node.capacity_type}"
            logger.info(f"created node claim for {planned}", nodeclaim=intent.claim.name, nodepool=intent.claim.pool)
        return written

    def _adopt(self, intent: ClaimIntent) -> None:
        if write_adoption(self._kube, intent.claim):
            self.copied.append(intent.claim)

    def _create(self, intent: ClaimIntent) -> None:
        claim = intent.claim
        try:
            create_claim(self._kube, claim)
        except AlreadyExists:
            standing = read_node_claim(self._kube.get(kind_of(claim), claim.name))
            mine = (standing.annotations.get(EXECUTION), standing.annotations.get(LEASE))
            if mine != (claim.annotations[EXECUTION], claim.annotations[LEASE]):
                raise

    def assign_in_flight(
        self, plan: Plan, assigned: Mapping[str, Mapping[str, int]], *, on_their_way: Collection[str]
    ) -> None:
        """Add the pods that the plan puts on in-flight claims to the assignments of those claims.

        The assignments of the snapshot are the base, not the present ones: a second try adds nothing twice.
        """
        for node in plan.existing:
            if node.claim in on_their_way:
                before = assigned.get(node.claim, {})
                together = {key: before.get(key, 0) + node.classes.get(key, 0) for key in {*before, *node.classes}}
                self._ledger.assign(node.claim, together, self._task.lease_number)

"""Which requested retirements may begin, decided from the claims, their nodes, and the pods on and assigned to them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Self

from joiner.cluster import InvalidField, Node, Pod
from joiner.lifecycle.draining import DrainingPod, must_move
from joiner.lifecycle.emptiness import keeps_empty_node, may_empty_nodes_go
from joiner.lifecycle.kept_empty_nodes import assign_kept_nodes, find_recently_draining
from joiner.lifecycle.replica_counts import find_replicas
from joiner.lifecycle.retirement import (
    DISRUPTION_REASON,
    RetirementContext,
    RetirementReason,
    RetirementRequest,
    RetiringClaim,
    drain_deadline,
    find_objection,
    first_stage,
    is_marked,
    is_voluntary,
)
from joiner.names import DO_NOT_CONSOLIDATE
from joiner.pools import NodeClaim, NodePool
from joiner.pools.disruption_budgets import find_over_budget
from joiner.pools.retiring_nodes import find_marked_nodes, find_retiring_nodes
from joiner.pools.standalone_claims import may_be_launched_by_holder

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RetirementCandidate:
    """One claim to retire, with its node if there is one. `unreadable` names an existing node that cannot be read."""

    request: RetirementRequest
    claim: NodeClaim | None
    node: Node | None
    unreadable: str = ""

    @property
    def voluntary(self) -> bool:
        """Return whether the retirement can be undone; a claim that is already deleted cannot be restored."""
        return is_voluntary(self.request.reason, self.claim) and not (self.claim is not None and self.claim.deleting)

    @property
    def instance(self) -> str:
        """Return the instance of the claim, else of the node, else of the request; empty if there is none."""
        of_claim, of_node = self.claim.instance_id if self.claim else "", self.node.instance_id if self.node else ""
        return of_claim or of_node or self.request.instance

    def begin(self, claim: NodeClaim | None, tainted: Node | None, since: int) -> RetiringClaim:
        """Return the claim with the first stage of its retirement, which began at `since` (epoch seconds).

        `claim` is the claim after its deletion, `tainted` the node if it is tainted.
        """
        instance = replace(self, claim=claim).instance
        return RetiringClaim(
            claim=self.request.claim,
            reason=self.request.reason,
            kind=claim.kind if claim else "",
            uid=claim.uid if claim else "",
            instance=instance,
            node=tainted.name if tainted else "",
            since=since,
            launched=_launched_at(claim),
            stage=first_stage(self.request.reason, instance, tainted),
        )


@dataclass(frozen=True, slots=True)
class NodeListing:
    """The claims and the readable nodes of one listing, both by name.

    `owned` gives the name of each node by the claim that owns it, and `instances` by its instance. Both include nodes
    that cannot be read.
    """

    claims: Mapping[str, NodeClaim]
    nodes: Mapping[str, Node]
    owned: Mapping[str, str]
    instances: Mapping[str, str]

    @classmethod
    def of(cls, claims: Mapping[str, NodeClaim], nodes: Iterable[Node], manifests: Iterable[Manifest]) -> Self:
        """Return the listing of these claims, the readable nodes, and the manifests of all nodes."""
        names = [(str(each["metadata"]["name"]), each) for each in manifests]
        owned = {claim: name for name, each in names for claim in _owners(each)}
        instances = {instance: name for name, each in names if (instance := _instance(each))}
        return cls(claims, {node.name: node for node in nodes}, owned, instances)

    def find_candidates(self, requests: Iterable[RetirementRequest]) -> list[RetirementCandidate]:
        """Return the requested claims with their nodes."""
        by_instance = {
            node.instance_id: node
            for node in sorted(self.nodes.values(), key=lambda node: node.name)
            if node.provider_id
        }
        found = []
        for request in requests:
            claim, owned = self.claims.get(request.claim), self.owned.get(request.claim, "")
            if claim is not None and request.instance and claim.instance_id not in ("", request.instance):
                claim, owned = None, ""  # a claim that was created later with the same name
            instance = (claim.instance_id if claim else "") or request.instance
            node = (by_instance.get(instance) if instance else None) or self.nodes.get(owned)
            unreadable = "" if node is not None else self.instances.get(instance) or owned
            found.append(RetirementCandidate(_as_graceful(request, claim, node), claim, node, unreadable))
        return found

    def find_retiring_nodes(self) -> frozenset[str]:
        """Return the names of the nodes that are being retired, or are marked for it."""
        listed = self.nodes.values(), self.claims.values()
        return find_retiring_nodes(*listed) | find_marked_nodes(*listed)

    def find_over_budget(
        self, candidates: Iterable[RetirementCandidate], pools: Iterable[NodePool], now: datetime
    ) -> Mapping[str, str]:
        """Return the candidates that the budgets do not allow any more: DISRUPT may have marked nodes since the
        sweep."""
        chosen = [each.claim.name for each in candidates if each.claim is not None]
        by_instance = {node.provider_id: node for node in self.nodes.values() if node.provider_id}
        claims = self.claims.values()
        of_claims = {claim.key: by_instance[claim.provider_id] for claim in claims if claim.provider_id in by_instance}
        return find_over_budget(chosen, pools, claims, of_claims, now=now)


@dataclass(frozen=True, slots=True)
class RetirementRules:
    """The rules for the start of retirements. `leased`: voluntary retirements are allowed. `pods` are the manifests of
    the pods by node."""

    context: RetirementContext
    pods: Mapping[str, Sequence[Manifest]]
    leased: bool

    def objection(self, candidate: RetirementCandidate) -> str:
        """Return why the retirement may not begin; empty if it may."""
        if candidate.voluntary and not self.leased:
            return "it needs the lease"
        if candidate.unreadable:  # it may run pods, and they would not be evicted
            return f"its node {candidate.unreadable} cannot be read"
        return find_objection(candidate.request.reason, candidate.claim, candidate.node, self.context)

    def objection_after_taint(self, candidate: RetirementCandidate, pods: Iterable[Manifest]) -> str:
        """Check again with the pods that were listed after the taint: a pod may have been bound just before it."""
        context = replace(self.context, pods=tuple(read_pods(pods)))
        return find_objection(candidate.request.reason, candidate.claim, candidate.node, context)

    def count_moving_pods(
        self, candidate: RetirementCandidate, claim: NodeClaim | None, noted: int, now: datetime
    ) -> int:
        """Return the number of pods that need another node. `noted` is the recorded deadline (epoch seconds, or 0)."""
        node = candidate.node.name if candidate.node else ""
        pods = (DrainingPod.from_kube(each) for each in self.pods.get(node, ()))
        return must_move(pods, now=now, deadline=drain_deadline(claim, noted))


def find_emptied(candidates: Iterable[RetirementCandidate]) -> list[RetirementCandidate]:
    """Return the candidates that are retired because they are empty, and may stay."""
    return [each for each in candidates if each.request.reason is RetirementReason.EMPTY and each.voluntary]


def find_kept_by_pools(candidates: Iterable[RetirementCandidate], pools: Iterable[NodePool]) -> Mapping[str, str]:
    """Return the candidates that their pools do not retire because they are empty, by claim, with the reason.

    A sweep also requests nodes with a taint of a retirement that did not begin, which may have had another reason.
    """
    by_key = {pool.key: pool for pool in pools}
    found: dict[str, str] = {}
    for each in candidates:
        claim, node = each.claim, each.node
        if claim is None:
            continue
        pool = by_key.get(claim.pool_key)
        if pool is None:
            found[claim.name] = "it has no pool that retires empty nodes"
        elif not may_empty_nodes_go(pool):
            found[claim.name] = f"{pool.key} keeps empty nodes"
        elif node is not None and keeps_empty_node(pool, node):
            found[claim.name] = f"its node has the annotation {DO_NOT_CONSOLIDATE}"
    return found


def find_needed_claims(
    listing: NodeListing,
    candidates: Iterable[RetirementCandidate],
    pools: Sequence[NodePool],
    launching: Collection[str],
) -> Mapping[str, str]:
    """Return the claims of static pools that were surplus and are not any more, with the reason: the pool was scaled up
    again, or other nodes left it."""
    surplus = {one.request.claim for one in candidates if one.request.reason is RetirementReason.SURPLUS}
    if not surplus:
        return {}
    found: dict[str, str] = {}
    sizes = {pool.key: pool.replicas or 0 for pool in pools}
    for key, staying in find_replicas(
        pools, list(listing.claims.values()), list(listing.nodes.values()), launching
    ).items():
        mine = [claim.name for claim in staying if claim.name in surplus]
        for name in mine[max(0, len(staying) - sizes[key]) :]:
            found[name] = f"{key} has {len(staying)} nodes and replicas {sizes[key]}"
    return found


def _as_graceful(request: RetirementRequest, claim: NodeClaim | None, node: Node | None) -> RetirementRequest:
    """Return the request with the reason of a graceful expiration, if DISRUPT marked the expired node for it.

    Executions of versions without this reason request EXPIRED, for which pods would be evicted that may delay this one.
    """
    if request.reason is not RetirementReason.EXPIRED or claim is None or not is_marked(claim, node):
        return request
    chosen = claim.conditions[DISRUPTION_REASON].reason == "Expired"
    return replace(request, reason=RetirementReason.AGED) if chosen else request


def find_launching_claims(claims: Iterable[NodeClaim], launches: Iterable[str], lease: int) -> frozenset[str]:
    """Return the claims that may still be launched: those of open `launches`, and those that the holder of the `lease`
    wrote or prepared (0 if no execution holds it)."""
    waiting = [claim for claim in claims if lease and not claim.provider_id]
    written = {claim.name for claim in waiting if claim.lease >= lease or may_be_launched_by_holder(claim)}
    return frozenset({*launches, *written})


def find_kept_nodes(
    listing: NodeListing,
    emptied: Iterable[RetirementCandidate],
    retiring: Iterable[str],
    pods: Mapping[str, Sequence[Manifest]],
    now: datetime,
) -> Mapping[str, str]:
    """Return the key of the first pod that keeps each empty node, by the node's name.

    `retiring` are the nodes that such pods leave; `pods` has the manifests of their pods and of those on empty nodes.
    """
    empty = {each.node.name: each.node for each in emptied if each.node is not None}
    recent = find_recently_draining(retiring, listing.nodes.values(), listing.claims.values(), now)
    moving = (pod for name in recent for pod in read_pods(pods[name]) if pod.moves)
    return assign_kept_nodes(empty.values(), moving, (pod for name in empty for pod in read_pods(pods[name])))


def read_pods(manifests: Iterable[Manifest]) -> list[Pod]:
    """Read pods. A pod that cannot be parsed still counts as a pod of its node, if the node's name is readable."""
    found = []
    for manifest in manifests:
        try:
            found.append(Pod.from_kube(manifest))
        except InvalidField:
            metadata = manifest["metadata"]
            node, phase = (
                (manifest.get("spec") or {}).get("nodeName") or "",
                (manifest.get("status") or {}).get("phase") or "",
            )
            found.append(Pod(str(metadata.get("namespace")), str(metadata["name"]), node_name=node, phase=phase))
    return found


def _launched_at(claim: NodeClaim | None) -> int:
    """Return when the claim's instance was launched (epoch seconds, 0 for unknown or not yet)."""
    moment = claim.conditions["Launched"].since if claim is not None and claim.launched else None
    return int(moment.timestamp()) if moment is not None else 0


def _owners(node: Manifest) -> list[str]:
    return [
        str(each.get("name"))
        for each in node["metadata"].get("ownerReferences") or ()
        if each.get("kind") in ("NodeClaim", "Machine")
    ]


def _instance(node: Manifest) -> str:
    return str((node.get("spec") or {}).get("providerID") or "").rpartition("/")[2]

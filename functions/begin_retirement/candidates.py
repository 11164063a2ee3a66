"""The claims to retire, with their nodes, the pods on these nodes, and the pods that are assigned to them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import index_by_name, list_claims
from joiner.adapters.kube_errors import NotFound
from joiner.adapters.kube_nodes import list_pods_on, read_node
from joiner.adapters.kube_pools import list_pools
from joiner.adapters.ledger import Ledger
from joiner.cluster import InvalidField, Node, Pod
from joiner.lifecycle.draining import DrainingPod, must_move
from joiner.lifecycle.kept_nodes import assign_kept_nodes, find_recently_draining
from joiner.lifecycle.retirement import (
    RetirementContext,
    RetirementReason,
    RetirementRequest,
    drain_deadline,
    find_objection,
    is_voluntary,
)
from joiner.pools import NodeClaim
from joiner.pools.disruption_budgets import find_over_budget
from joiner.pools.retiring_nodes import find_retiring_nodes

logger = Logger(child=True)

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RetirementCandidate:
    """One claim to retire, with its node if there is one. `unreadable` names an existing node that cannot be read."""

    asked: RetirementRequest
    claim: NodeClaim | None
    node: Node | None
    unreadable: str = ""

    @property
    def voluntary(self) -> bool:
        """Return whether the retirement can be undone; a claim that is already deleted cannot be restored."""
        return is_voluntary(self.asked.reason, self.claim) and not (self.claim is not None and self.claim.deleting)

    def newest(self, kube: Kube) -> Node | None:
        """Return the node as it is now; None if it is gone, or if another node has its name."""
        if self.node is None:
            return None
        try:
            node = read_node(kube.get(kinds.NODES, self.node.name))
        except NotFound:
            return None
        return node if node.uid == self.node.uid else None


@dataclass(frozen=True, slots=True)
class RetirementCandidates:
    """One reading of the cluster and the ledger.

    `leased` allows voluntary retirements; `pods` are the manifests of the pods on the nodes of the claims.
    """

    claims: Mapping[str, NodeClaim]
    nodes: Mapping[str, Node]
    owners: Mapping[str, str]
    pods: Mapping[str, Sequence[Manifest]]
    world: RetirementContext
    leased: bool
    instances: Mapping[str, str]
    """Names of all nodes by instance, including nodes that cannot be read."""

    @classmethod
    def read(
        cls, kube: Kube, ledger: Ledger, asked: Iterable[RetirementRequest], now: datetime, *, leased: bool
    ) -> "RetirementCandidates":
        """Read the ledger first, then the cluster.

        A launch that the ledger has recorded is then on its claim when claims are listed; otherwise it still counts as
        a launch.
        """
        lease, launches, assignments = ledger.lease(), ledger.unrecorded_launches(), ledger.assignments()
        claims = index_by_name(list_claims(kube).claims)
        manifests = kube.list(kinds.NODES)
        nodes = {node.name: node for node in map(_node, manifests) if node is not None}
        owners = {owner: str(each["metadata"]["name"]) for each in manifests for owner in _owners(each)}
        instances = {instance: str(each["metadata"]["name"]) for each in manifests if (instance := _instance(each))}
        here = cls(claims, nodes, owners, {}, RetirementContext(now), leased, instances)
        cases = here.cases(asked)
        mine = {case.node.name for case in cases if case.node is not None}
        leaving = find_retiring_nodes(nodes.values(), claims.values()) if leased else frozenset[str]()
        pods = list_pods_on(kube, mine | leaving)
        current = lease.number if lease.living(int(now.timestamp())) else 0
        here_now = tuple(pod for name in sorted(mine) for pod in _pods(pods[name]))
        moving = (
            pod
            for name in find_recently_draining(leaving, nodes.values(), claims.values(), now)
            for pod in _pods(pods[name])
            if pod.moves
        )
        emptied = [case for case in cases if case.asked.reason is RetirementReason.EMPTY and case.voluntary]
        empty = [case.node for case in emptied if case.node is not None]
        world = RetirementContext(
            now,
            pods=here_now,
            launching=frozenset(
                {claim for launch in launches for claim in launch.claims}
                | {
                    claim.name
                    for claim in claims.values()
                    if current and claim.lease >= current and not claim.provider_id
                }
            ),
            slots={claim: sum(each.classes.values()) for claim, each in assignments.items()},
            kept_for=assign_kept_nodes(empty, moving, here_now),
            over_budget=_over_budget(kube, emptied, claims.values(), nodes.values(), now) if leased else {},
        )
        return replace(here, pods=pods, world=world)

    def cases(self, asked: Iterable[RetirementRequest]) -> list[RetirementCandidate]:
        """Return the requested claims with their nodes."""
        by_instance = {
            node.instance_id: node
            for node in sorted(self.nodes.values(), key=lambda node: node.name)
            if node.provider_id
        }
        found = []
        for one in asked:
            claim = self.claims.get(one.claim)
            instance = (claim.instance_id if claim else "") or one.instance
            node = (by_instance.get(instance) if instance else None) or self.nodes.get(self.owners.get(one.claim, ""))
            unreadable = "" if node is not None else self.instances.get(instance) or self.owners.get(one.claim, "")
            found.append(RetirementCandidate(one, claim, node, unreadable))
        return found

    def objection(self, case: RetirementCandidate) -> str:
        """Return why the retirement may not begin; empty if it may."""
        if case.voluntary and not self.leased:
            return "it needs the lease"
        if case.unreadable:  # it may run pods, and they would not be evicted
            return f"its node {case.unreadable} cannot be read"
        return find_objection(case.asked.reason, case.claim, case.node, self.world)

    def again(self, kube: Kube, case: RetirementCandidate) -> str:
        """Check again after the taint, which keeps new pods off: a pod may have been bound just before it."""
        if case.node is None:
            return ""
        pods = tuple(_pods(list_pods_on(kube, [case.node.name])[case.node.name]))
        return find_objection(case.asked.reason, case.claim, case.node, replace(self.world, pods=pods))

    def moving(self, case: RetirementCandidate, claim: NodeClaim | None, noted: int, now: datetime) -> int:
        """Return the number of pods that need another node."""
        pods = (DrainingPod.from_kube(each) for each in self.pods.get(case.node.name if case.node else "", ()))
        return must_move(pods, now=now, deadline=drain_deadline(claim, noted))


def _over_budget(
    kube: Kube,
    cases: Iterable[RetirementCandidate],
    claims: Collection[NodeClaim],
    nodes: Iterable[Node],
    now: datetime,
) -> Mapping[str, str]:
    """Return the empty nodes that the budgets do not allow any more: DISRUPT may have marked nodes since the sweep."""
    chosen = [case.claim.name for case in cases if case.claim is not None]
    if not chosen:
        return {}
    by_instance = {node.provider_id: node for node in nodes if node.provider_id}
    of_claims = {claim.key: by_instance[claim.provider_id] for claim in claims if claim.provider_id in by_instance}
    return find_over_budget(chosen, list_pools(kube), claims, of_claims, now=now)


def _owners(node: Manifest) -> list[str]:
    return [
        str(each.get("name"))
        for each in node["metadata"].get("ownerReferences") or ()
        if each.get("kind") in ("NodeClaim", "Machine")
    ]


def _instance(node: Manifest) -> str:
    return str((node.get("spec") or {}).get("providerID") or "").rpartition("/")[2]


def _node(manifest: Manifest) -> Node | None:
    try:
        return read_node(manifest)
    except InvalidField as invalid:
        logger.warning("a node cannot be read", node=manifest["metadata"]["name"], reason=str(invalid))
        return None


def _pods(manifests: Iterable[Manifest]) -> list[Pod]:
    """Read the pods. A pod that cannot be parsed still counts as a pod of its node, if the node's name is readable."""
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

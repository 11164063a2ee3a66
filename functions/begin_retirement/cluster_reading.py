"""Reads what the rules of `joiner.lifecycle.retirement_candidates` need: the ledger first, then the cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_claims import index_by_name, list_claims
from joiner.adapters.kube_nodes import list_pods_on, read_node
from joiner.adapters.kube_pools import list_pools
from joiner.adapters.ledger import Ledger
from joiner.adapters.unwritten_claims import find_unwritten_instances, list_launching_claims
from joiner.cluster import InvalidField, Node
from joiner.lifecycle.retirement import RetirementContext, RetirementReason, RetirementRequest
from joiner.lifecycle.retirement_candidates import (
    NodeListing,
    RetirementCandidate,
    RetirementRules,
    find_emptied,
    find_kept_by_pools,
    find_kept_nodes,
    find_launching_claims,
    find_needed_claims,
    read_pods,
)
from joiner.pools.scheduled_pools import apply_schedules

logger = Logger(child=True)


def read_cluster(
    kube: Kube, ledger: Ledger, requests: Iterable[RetirementRequest], now: datetime, *, leased: bool
) -> tuple[list[RetirementCandidate], RetirementRules]:
    """Return the requested claims with their nodes, and the rules for their retirement.

    The ledger is read before the claims are listed. So a launch whose outcome is recorded is on its claim already;
    until then it counts as a launch.
    """
    lease, launches, assignments = ledger.lease(), ledger.unrecorded_launches(), ledger.assignments()
    claims = index_by_name(list_claims(kube).claims)
    manifests = kube.list(kinds.NODES)
    listing = NodeListing.of(claims, _readable_nodes(manifests), manifests)
    instances = find_unwritten_instances(launches)
    candidates = listing.find_candidates(
        each if each.instance else replace(each, instance=instances.get(each.claim, "")) for each in requests
    )
    concerned = {each.node.name for each in candidates if each.node is not None}
    retiring = listing.find_retiring_nodes() if leased else frozenset[str]()
    pods = list_pods_on(kube, concerned | retiring)
    emptied = find_emptied(candidates)
    limited = leased and any(each.claim is not None for each in emptied)
    scaled = any(each.request.reason is RetirementReason.SURPLUS for each in candidates)
    pools = apply_schedules(list_pools(kube), now) if limited or scaled else ()
    launching = find_launching_claims(
        claims.values(),
        list_launching_claims(launches, claims.values()),
        lease.number if lease.is_held(int(now.timestamp())) else 0,
    )
    context = RetirementContext(
        now,
        pods=tuple(pod for name in sorted(concerned) for pod in read_pods(pods[name])),
        launching=launching,
        slots={claim: sum(each.classes.values()) for claim, each in assignments.items()},
        kept_for=find_kept_nodes(listing, emptied, retiring, pods, now),
        over_budget=listing.find_over_budget(emptied, pools, now) if limited else {},
        kept_by_pool=find_kept_by_pools(emptied, pools) if limited else {},
        needed=find_needed_claims(listing, candidates, pools, launching),
    )
    return candidates, RetirementRules(context, pods, leased)


def _readable_nodes(manifests: Sequence[Mapping[str, Any]]) -> list[Node]:
    found = []
    for manifest in manifests:
        try:
            found.append(read_node(manifest))
        except InvalidField as invalid:
            logger.warning("a node cannot be read", node=manifest["metadata"]["name"], reason=str(invalid))
    return found

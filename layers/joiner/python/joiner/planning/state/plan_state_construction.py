"""Build the plan state of a snapshot: every rule is compiled here, once, before the search begins."""

from collections.abc import Mapping

from joiner.catalogue import Catalogue
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.node_offers import Unavailable
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.pending_pods import PodsToPlace, placed_pods, select_pods
from joiner.planning.model.pod_groups import PodGroups, group_pods
from joiner.planning.model.pool_offers import compile_pool_offers
from joiner.planning.model.usable_overlays import drop_conflicts
from joiner.planning.plan_policies import Ceilings
from joiner.planning.state.existing_nodes import find_existing_capacity
from joiner.planning.state.limit_use import LimitUse
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.static_pools import missing_static_nodes, report_unlaunched
from joiner.pools import ResolvedNodeClass


def build_state(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Unavailable,
    *,
    classes: Mapping[str, ResolvedNodeClass],
    ceilings: Ceilings,
    strict: bool = True,
    cache: OfferCache | None = None,
) -> PlanState:
    """Build the state of a snapshot: no pod is placed, all existing capacity is loaded, and each offer lists the
    groups that it accepts.

    ``strict`` requires minValues as specified; otherwise minValues are kept as far as possible. ``cache`` has the
    offers of earlier plans; without it, they are compiled again.
    """
    cache = cache or OfferCache()
    snapshot, conflicts = drop_conflicts(snapshot, catalogue, classes, cache)
    who = select_pods(snapshot)
    groups = _group_pods(snapshot, who)
    existing = find_existing_capacity(snapshot, catalogue, groups, who, classes=classes)
    offered = compile_pool_offers(
        snapshot, groups, catalogue, unavailable, classes=classes, used=existing.used, cache=cache
    )
    made, short = missing_static_nodes(offered, groups, existing, ceilings, classes=classes, strict=strict)
    return PlanState(
        groups,
        offered,
        (*existing.node_states, *made),
        namespaces=snapshot.namespaces,
        limits=LimitUse(
            existing.used,
            ceilings,
            nodes=existing.nodes + len(made),
            price=existing.price + sum(node.made.one.offer.price_per_hour for node in made if node.made),
            drawn=existing.drawn,
        ),
        strict=strict,
        cache=cache,
        unlaunched=short,
        found_problems=(*conflicts, *(report_unlaunched(each, snapshot.pools) for each in short)),
    )


def _group_pods(snapshot: Snapshot, who: PodsToPlace) -> PodGroups:
    reserved = [pod for pods in who.reserved.values() for pod in pods]
    moving = {pod.key for pod in (*who.pending, *reserved)} - who.blocked
    return group_pods(
        who.pending,
        tuple(pod for pod in placed_pods(snapshot) if pod.key not in moving),
        snapshot.daemon_sets,
        snapshot.volumes,
        held=snapshot.held_pools,
        reserved=reserved,
        blocked=who.blocked,
    )

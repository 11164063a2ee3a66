"""The offers of every pool: what it can launch, in which variants, or why nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.burstable_types import names_burstable_types
from joiner.catalogue.class_compatibility import list_exclusions
from joiner.catalogue.instance_features import EFA
from joiner.catalogue.instance_tenancy import find_allowed_tenancies, requires_dedicated, takes_dedicated
from joiner.catalogue.missing_reservations import explain_reserved_only
from joiner.catalogue.observed_memory import memory_of_nodes
from joiner.cluster import Resources
from joiner.cluster.label_values import ASSIGNABLE
from joiner.cluster.quantities import format_shortage
from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.model.considered_values import ConsideredValues, choose_values
from joiner.planning.model.node_labels import open_keys
from joiner.planning.model.node_offers import (
    EMPTY_OFFER_SET,
    NO_TYPE_AVAILABLE,
    NodeOffer,
    OfferSet,
    PoolOffers,
    Unavailable,
)
from joiner.planning.model.offer_cache import OfferCache
from joiner.planning.model.offer_compilation import OfferInputs, compile_offers
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.planning.model.pod_groups import PodGroups
from joiner.planning.model.pool_limits import allow_a_node
from joiner.planning.model.pool_variants import compile_variants
from joiner.planning.model.volume_constraints import attachable_by_type
from joiner.planning.plan import Offer
from joiner.pools import NodeClass, NodePool, ResolvedNodeClass

STATIC: Final = "the pool is static: no node beyond its replicas is launched for pods"
OF_A_CLAIM: Final = "a standalone claim"
"""Claims that differ in their names and annotations only have the same offers, which are compiled once."""


def compile_pool_offers(
    snapshot: Snapshot,
    groups: PodGroups,
    catalogue: Catalogue,
    unavailable: Unavailable,
    *,
    classes: Mapping[str, ResolvedNodeClass],
    used: Mapping[str, Mapping[str, int]],
    cache: OfferCache,
) -> tuple[PoolOffers, ...]:
    """Return one value for each pool: highest weight first, then pools without PreferNoSchedule taints, then by key.
    ``used`` is what existing nodes use of the limits of each pool, by its key."""
    joined = nodes_of_claims(snapshot)
    inputs = OfferInputs(
        groups,
        catalogue,
        unavailable,
        snapshot.overlays,
        attachable_by_type(snapshot.nodes, snapshot.volumes),
        memory_of_nodes((claim, joined[claim.key]) for claim in snapshot.claims if claim.key in joined),
        burstable_named=names_burstable_types(where for group in groups.pending for where in group.where),
        dedicated_required=any(requires_dedicated(where) for group in groups.pending for where in group.where),
    )

    ranked = sorted(snapshot.pools, key=_rank)
    closed = {pool.key: explain_closure(pool, snapshot, classes.get(pool.class_ref.key)) for pool in ranked}
    opened = [pool for pool in ranked if not closed[pool.key]]
    offer_sets = {
        pool.key: compile_offers(_alike(pool), snapshot.node_class(pool), classes[pool.class_ref.key], inputs, cache)
        for pool in opened
    }
    full = {one.key for one in opened if not allow_a_node(one, used.get(one.key, {}), offer_sets[one.key].launchable)}
    values = choose_values(opened, offer_sets, groups, full)

    def offers_of(pool: NodePool) -> PoolOffers:
        node_class, resolved = snapshot.node_class(pool), classes.get(pool.class_ref.key)
        if closed[pool.key] or resolved is None:
            return PoolOffers(pool, node_class, resolved, closed=closed[pool.key])
        offer_set, mine = offer_sets[pool.key], values[pool.key]
        return _offers_of(pool, node_class, resolved, inputs, cache, offer_set=offer_set, values=mine)

    return tuple(map(offers_of, ranked))


def _rank(pool: NodePool) -> tuple[object, ...]:
    return (-pool.weight, any(taint.effect == "PreferNoSchedule" for taint in pool.taints), pool.key)


def _alike(pool: NodePool) -> NodePool:
    """Return a pool with the same offers that is equal for all standalone claims whose offers are the same."""
    return replace(pool, claim=OF_A_CLAIM, annotations={}) if pool.claim else pool


def _offers_of(
    pool: NodePool,
    node_class: NodeClass | None,
    resolved: ResolvedNodeClass,
    inputs: OfferInputs,
    cache: OfferCache,
    *,
    offer_set: OfferSet,
    values: ConsideredValues,
) -> PoolOffers:
    variants = compile_variants(pool, offer_set, inputs.groups, values.labels)
    launchable = any(variant.offer_set.every for variant in variants)
    exclusions = () if launchable else list_exclusions(pool, node_class, inputs.catalogue, resolved)
    lacking = "" if launchable or exclusions else explain_reserved_only(pool, node_class, resolved, inputs.catalogue)
    made = PoolOffers(
        pool,
        node_class,
        resolved,
        offer_set=offer_set if launchable else EMPTY_OFFER_SET,
        variants=variants if launchable else compile_variants(pool, EMPTY_OFFER_SET, inputs.groups, values.labels),
        waiting=values.waiting,
        closed="" if launchable else lacking or NO_TYPE_AVAILABLE,
        exclusions=exclusions,
        too_small="" if launchable else _find_too_small(_alike(pool), node_class, resolved, inputs, cache=cache),
    )
    return made if pool.replicas is None else PoolOffers(pool, node_class, resolved, closed=STATIC, fixed=made)


def _find_too_small(
    claim: NodePool,
    node_class: NodeClass | None,
    resolved: ResolvedNodeClass,
    inputs: OfferInputs,
    *,
    cache: OfferCache,
) -> str:
    """Return which allowed instance type is the nearest for what a claim requests, and what it lacks; empty if no type
    is too small: some type holds the requests and is unavailable now, or the claim allows no type at all."""
    at_any_time = replace(inputs, unavailable=frozenset())
    if not claim.requests or compile_offers(claim, node_class, resolved, at_any_time, cache).launchable:
        return ""
    interfaces = {name: amount for name, amount in claim.requests.items() if name == EFA}  # they are of no size
    of_any_size = replace(claim, requests=Resources(interfaces))
    offers = compile_offers(of_any_size, node_class, resolved, at_any_time, cache).launchable
    lacking = {one.model.name: claim.requests.lacking(one.model.allocatable) for one in offers}
    if not lacking:
        return ""

    def distance(one: NodeOffer) -> tuple[float, Offer]:
        """Return the sum of the shares of the requests that it lacks, as of pods, and its price."""
        return sum(amount / claim.requests[name] for name, amount in lacking[one.model.name].items()), one.offer

    nearest = min(offers, key=distance).model.name
    short = " and ".join(format_shortage(name, amount) for name, amount in lacking[nearest].items())
    return f"{nearest}, is short of {short}"


def explain_closure(pool: NodePool, snapshot: Snapshot, resolved: ResolvedNodeClass | None) -> str:
    """Return why the pool has no new nodes, whatever pods require; empty if nothing that is declared prevents them."""
    if pool.deleting:
        return "the pool is being deleted"
    if pool.key in snapshot.closed_pools:
        return snapshot.closed_pools[pool.key]
    if resolved is None:
        return _unresolved(pool, snapshot)
    if unusable := _unusable(resolved):
        return unusable
    return _unmeetable(pool) or _without_hardware(pool, resolved)


def _unmeetable(pool: NodePool) -> str:
    """Return why no node can have the labels that the pool requires; empty if one can."""
    if keys := pool.requirements.contradictions():
        return f"its requirements exclude each other on {', '.join(keys)}"
    for key in open_keys(pool):
        if not pool.requirements[key] & ASSIGNABLE:
            return f"it requires {key} {pool.requirements[key]}, and no label can have such a value"
    return ""


def _without_hardware(pool: NodePool, resolved: ResolvedNodeClass) -> str:
    """Return why EC2 launches no node of this tenancy; empty if it does."""
    group = resolved.placement_group
    if group and not takes_dedicated(group) and find_allowed_tenancies(pool) == [names.DEDICATED_TENANCY]:
        return (
            f"it requires dedicated hardware, and EC2 launches no Dedicated Instances into the {group.strategy} "
            f"placement group {group.name} of its class: allow {names.TENANCY} default, or select another group"
        )
    return ""


def _unusable(resolved: ResolvedNodeClass) -> str:
    """Return why no node can be launched from a class that was resolved; empty if one can."""
    if not resolved.ready:
        wrong = next(problem for problem in resolved.problems if problem.severity == "error")
        return f"its {resolved.ref.described} is not ready: {wrong.message}"
    if resolved.subnets and not resolved.zones:
        return f"no subnet of its {resolved.ref.described} has a free address: use larger or more subnets"
    return ""


def _unresolved(pool: NodePool, snapshot: Snapshot) -> str:
    """Return what the class of the pool lacks, and how to correct it."""
    node_class, key, its = snapshot.node_class(pool), pool.class_ref.key, f"its {pool.class_ref.described}"
    if node_class is None:
        broken = next((one for one in snapshot.problems if one.object == key and one.severity == "error"), None)
        if broken:
            return f"{its} cannot be used: {broken.message}"
        return f"{its} does not exist: create it, or name another in {pool.class_field} of {pool.key}"
    if node_class.deleting:
        return f"{its} is being deleted: create it again after that, or name another"
    ready = node_class.conditions["Ready"]
    reason = f": {ready.message}" if ready.message and not ready.true else ""
    return f"{its} has not been resolved in EC2{reason}: look at the conditions in its status"

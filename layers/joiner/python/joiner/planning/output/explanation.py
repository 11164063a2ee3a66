"""Why a pod stays pending: for each pool the first rule that excludes it, and the nearest offer.

The order of the rules and most words are those of Karpenter, because users search for them: taints, requirements,
resources, offerings, limits, and then the rules between pods.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial

from joiner import names
from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.catalogue.capacity_settings import (
    NodeCapacities,
    describe_settings,
    find_exhausting_settings,
    find_tight_settings,
)
from joiner.catalogue.class_compatibility import Exclusion, explain_exclusions, find_exclusion
from joiner.catalogue.instance_tenancy import DedicatedPrices, list_tenancies, requires_dedicated
from joiner.catalogue.missing_reservations import allows_only_reserved, explain_missing_reservations
from joiner.cluster import MISSING, Requirements, Resources, ValueSet
from joiner.cluster.quantities import format_shortage
from joiner.planning.model.considered_values import MOST_COMBINATIONS, without_open_labels
from joiner.planning.model.node_labels import node_labels, open_keys, pool_labels
from joiner.planning.model.node_offers import NO_TYPE_AVAILABLE, NodeOffer, OfferChoice, PoolOffers, PoolVariant
from joiner.planning.model.offer_compilation import DaemonOverhead
from joiner.planning.model.pod_groups import PodGroup, fits
from joiner.planning.output.excluded_pools import (
    describe_exclusion,
    find_excluded_label,
    find_invalid_pools,
    list_other_pools,
    list_required_pools,
)
from joiner.planning.output.resource_shortages import CapacitiesOf, explain_shortage, find_capacities, list_usable
from joiner.planning.plan import INCOMPATIBLE, OVER_LIMIT, TEMPORARY, UNTOLERATED, Reason
from joiner.planning.state.blocked_spreads import describe_unreachable_domains
from joiner.planning.state.limit_violations import AddressViolation, LimitViolation, PoolLimitViolation
from joiner.planning.state.plan_state import PORTS_TAKEN, TOO_FEW_TYPES, TOO_MANY_VOLUMES, PlanState
from joiner.planning.state.pod_topology import CLAIM_TAKEN, VOLUMES_TAKEN
from joiner.pools import InvalidManifest

Alternatives = tuple[Requirements, ...]
Lacking = Callable[[PoolOffers, Alternatives], tuple[str, str, str]]
"""What a pool lacks for pods with these alternatives; computed once for all groups with equal alternatives."""
TooLarge = Callable[[PodGroup, PoolOffers, Sequence[NodeOffer]], Reason]
"""The reason when none of the offers that accept a group can hold a pod of it."""
Violations = Callable[[PoolOffers], Mapping[int, LimitViolation]]
"""The limit that one more node of each offer of a pool would exceed, by the offer's position in the sets of the pool,
the nearest offers first; those within the limits are left out. Found once for all groups."""

ENOUGH_TRIED = 200
BY_NAME = "it selects a node by name, and the name of a new node is not known yet"
NO_POOL = "there is no NodePool or Provisioner that can be used: create one, or correct its mistakes"
MANY_COMBINATIONS = (
    f"a plan considers at most {MOST_COMBINATIONS} combinations of values of the labels that pools leave open, "
    f"and pods of higher priorities and newer ones of their namespace come first{TEMPORARY}"
)
NO_TERMS = "its required node affinity has nothing but empty terms, and an empty term matches no node"


def explain_pending(
    state: PlanState, catalogue: Catalogue, problems: Iterable[InvalidManifest] = ()
) -> dict[PodGroup, tuple[Reason, ...]]:
    """Return the reasons for each group with remaining pods, in the order in which pools were tried.

    ``problems`` are the mistakes of all objects: the invalid pools that a pod requires by name come first, the other
    ones last.
    """
    invalid = find_invalid_pools(problems, (pool_offers.pool for pool_offers in state.offered_pools))
    found: dict[PodGroup, tuple[Reason, ...]] = {}
    capacities = cache(partial(find_capacities, catalogue=catalogue, cache=state.cache))
    lacking = cache(partial(_not_available, state, catalogue, capacities))
    violations = cache(partial(_find_violations, state))
    too_large = partial(explain_shortage, catalogue=catalogue, capacities=capacities)
    # The pool of a standalone claim launches one node, whatever pods are pending.
    pools = [pool_offers for pool_offers in state.offered_pools if not pool_offers.pool.claim]
    for group, number in state.left.items():
        if not number:
            continue
        required, others = list_required_pools(group.where, invalid), list_other_pools(group.where, invalid)
        if group.refused:
            found[group] = (Reason("", group.refused),)
        elif _opts_out(group):
            found[group] = (
                Reason(
                    "",
                    "no node is made for it: it excludes the nodes of every pool (karpenter.sh/nodepool DoesNotExist)",
                ),
            )
        elif not pools:
            found[group] = (*required, *others) or (Reason("", NO_POOL),)
        else:
            reason = partial(_reason, state, group, lacking=lacking, too_large=too_large, violations=violations)
            found[group] = (*required, *map(reason, pools), *others)
    return found


def _opts_out(group: PodGroup) -> bool:
    """Return whether the group requires nodes without a pool, as pods do that must not run on autoscaled nodes."""
    keys = (names.NODEPOOL, names.PROVISIONER)
    return bool(group.where) and all(any(one.on(key) == MISSING for key in keys) for one in group.where)


def _reason(
    state: PlanState,
    group: PodGroup,
    pool_offers: PoolOffers,
    *,
    lacking: Lacking,
    too_large: TooLarge,
    violations: Violations,
) -> Reason:
    pool = pool_offers.pool.name
    taint = group.constraints.untolerated(pool_offers.pool.taints)
    if taint is not None:
        return Reason(pool, f"{UNTOLERATED}{taint}")
    if pool_offers.closed and pool_offers.closed != NO_TYPE_AVAILABLE:
        return Reason(pool, find_excluded_label(group.where, pool_offers.pool) or pool_offers.closed)
    if not group.where:
        return Reason(
            pool,
            NO_TERMS if group.constraints.suits_no_node else BY_NAME,
        )
    usable = list_usable(group, pool_offers)
    large = [one for one in usable if fits(group, one.free)]
    if large:
        return _beyond_resources(state, group, pool_offers, large, violations)
    if usable:
        return too_large(group, pool_offers, usable)
    return Reason(pool, group.held.get(pool_offers.pool.key) or _requirements(group, pool_offers, lacking))


def _beyond_resources(
    state: PlanState, group: PodGroup, pool_offers: PoolOffers, large: list[NodeOffer], violations: Violations
) -> Reason:
    """Return the reason when some offers could hold such a pod, but limits or rules between pods exclude it."""
    exceeded = violations(pool_offers)
    allowed = [one for one in large if one.index not in exceeded]
    if not allowed:
        held = {one.index: one for one in large}
        least, nearest = next((limit, held[at]) for at, limit in exceeded.items() if at in held)
        rule = _rule_without_limits(state, group, pool_offers, large)
        if isinstance(least, AddressViolation):
            return Reason(pool_offers.pool.name, rule or least.text(), nearest.offer)
        why = f"{OVER_LIMIT}: {_explain_violation(least, state, group)}"
        return Reason(pool_offers.pool.name, f"{rule}, and {why}" if rule else why, nearest.offer)
    return Reason(pool_offers.pool.name, _between_pods(state, group, pool_offers, allowed), large[0].offer)


def _find_violations(state: PlanState, pool_offers: PoolOffers) -> dict[int, LimitViolation]:
    variant = pool_offers.variants[0]
    # The daemons of a variant change nothing that counts against a limit.
    limits = ((one, state.over_limit(OfferChoice(pool_offers, variant, one, 0))) for one in pool_offers.launchable)
    exceeded = [(one, limit) for one, limit in limits if limit]
    # Of limits of zero, every node exceeds all infinitely: the smallest node is the nearest, then the cheapest.
    # An address may be free soon, so a limit that lasts is named first.
    exceeded.sort(
        key=lambda each: (
            isinstance(each[1], AddressViolation),
            each[1].excess,
            getattr(each[1], "more", 0.0),
            each[0].offer,
            each[0].index,
        )
    )
    return {one.index: limit for one, limit in exceeded}


def _rule_without_limits(
    state: PlanState, group: PodGroup, pool_offers: PoolOffers, offers: Sequence[NodeOffer]
) -> str:
    """Return the rule between pods that would exclude the group from every new node of these offers if no limit did;
    empty if a node could hold it then."""
    if state.carefree(group) and not pool_offers.pool.min_values:
        return ""
    rules = _count_rules(state, group, pool_offers, offers)
    return "" if "" in rules else _describe_rule(state, group, pool_offers, rules)


def _explain_violation(exceeded: LimitViolation, state: PlanState, group: PodGroup) -> str:
    if isinstance(exceeded, PoolLimitViolation):
        return exceeded.text(group.constraints.requests, state.planned_of(exceeded.pool, exceeded.resource))
    return exceeded.text()


def _requirements(group: PodGroup, pool_offers: PoolOffers, lacking: Lacking) -> str:
    """Return the requirement of the pod that no offer of the pool meets, or that only offerings meet that are
    unavailable or full of daemons."""
    waits = group.index in pool_offers.waiting  # A later plan considers its values of open labels.
    where = without_open_labels(group.where, pool_offers.pool) if waits else group.where
    short, full, excluded = lacking(pool_offers, where)
    if short:
        return (
            f"no instance type has the required offering: short of capacity, or not offered in the class's "
            f"zones ({short})"
        )
    if full:
        return f"the pod and the daemon sets do not fit together on any suitable instance type: {full}"
    if excluded or pool_offers.closed:
        return excluded or pool_offers.closed
    for requirements in where:
        for key, values in sorted(requirements.items()):
            possible = {
                variant.labels.get(key) or one.labels.get(key)
                for variant in pool_offers.variants
                for one in pool_offers.launchable
            }
            alone = Requirements({key: values})
            if not any(alone.allow({key: value} if value is not None else {}) for value in possible):
                wants = describe_exclusion(pool_offers.pool, key, values)
                if key == names.OS and group.constraints.system:
                    wants += " (spec.os.name of the pod)"
                return f"{INCOMPATIBLE}{wants}{_suggest_value(values, possible)}"
    return f"no instance type met all requirements at once: {' or '.join(map(str, where))}"


def _suggest_value(wanted: ValueSet, possible: Iterable[str | None]) -> str:
    """Return the value that a misspelt one of the pod may mean: the same but for the case of letters. Other guesses
    would suggest one zone or instance type for another."""
    by_lower = {value.lower(): value for value in possible if value is not None}
    asked = sorted(wanted.exceptions) if wanted.finite else []
    near = [by_lower[value.lower()] for value in asked if value.lower() in by_lower]
    return f"; did you mean {near[0]}?" if near else ""


def _not_available(
    state: PlanState, catalogue: Catalogue, capacities: CapacitiesOf, pool_offers: PoolOffers, where: Alternatives
) -> tuple[str, str, str]:
    """Return a few unavailable offerings that would meet the requirements, the nearest of the types on which daemons
    leave too little capacity, and why the class or its reserves exclude types that would meet the requirements."""
    pool, own = pool_offers.pool, pool_labels(pool_offers.pool)
    if not any(Requirements({key: values for key, values in one.items() if key in own}).allow(own) for one in where):
        return "", "", ""  # The pod requires another pool; checking thousands of offerings is unnecessary.
    subject = f"its {pool.class_ref.described}"
    if any(each.instead for each in pool_offers.exclusions):  # The labels of its nodes exclude every type.
        return "", "", explain_exclusions(pool_offers.exclusions, subject)
    daemons, zones = DaemonOverhead(pool, state.groups), pool_offers.resolved.zones if pool_offers.resolved else ()
    short: list[str] = []
    full: list[tuple[float, str]] = []
    filled: dict[str, tuple[InstanceType, Resources]] = {}
    excluded, exhausted = dict[str, Exclusion](), dict[str, InstanceType]()
    for known, offering, labels in _list_missing(pool_offers, _nearest_variant(pool_offers, where), catalogue, where):
        if exclusion := find_exclusion(known, pool_offers.node_class, pool_offers.resolved):
            if offering.zone in zones:
                excluded[known.name] = exclusion
            continue
        if capacities(pool_offers).exhausted(known):
            exhausted[known.name] = known
            continue
        _, _, overhead = daemons.on(labels, {})
        if lacks := overhead.lacking(capacities(pool_offers).allocatable(known)):
            filled[known.name] = known, overhead
            full.append(_describe_daemons(known.name, overhead, lacks))
            continue
        on = "" if offering.tenancy == names.DEFAULT_TENANCY else f" on {offering.tenancy} hardware"
        short.append(f"{offering.capacity_type} {known.name} in {offering.zone}{on}")
        if len(short) == 3:
            return ", ".join(short), "", ""
    why = explain_exclusions([*excluded.values()], subject, "the pod and the pool allow") if excluded else ""
    why = _describe_exhausted([*exhausted.values()], capacities(pool_offers)) or why
    why = why or _lacks_reservation(pool_offers, catalogue, where)
    tight = find_tight_settings(Resources(), filled.values(), capacities(pool_offers)) if filled else ()
    nearest = f"{min(full)[1]}{describe_settings(tight)}" if full else ""
    return ", ".join(short), nearest, why


def _lacks_reservation(pool_offers: PoolOffers, catalogue: Catalogue, where: Alternatives) -> str:
    """Return which reservations the class lacks, if the pod requires reserved capacity and the pool allows it."""
    pool, resolved = pool_offers.pool, pool_offers.resolved
    if resolved is None or names.RESERVED not in pool.requirements.on(names.CAPACITY_TYPE):
        return ""
    if not where or not all(map(allows_only_reserved, where)):
        return ""
    lacks = explain_missing_reservations(pool, pool_offers.node_class, resolved, catalogue)
    return f"{INCOMPATIBLE}the pod wants {names.CAPACITY_TYPE} In [{names.RESERVED}], and {lacks}" if lacks else ""


def _describe_daemons(name: str, overhead: Resources, lacks: Resources) -> tuple[float, str]:
    """Return which share of their requests the daemons lack on an instance type, and what they lack."""
    short_of = " and ".join(format_shortage(resource, value) for resource, value in sorted(lacks.items()))
    share = sum(value / overhead[resource] for resource, value in lacks.items())
    return share, f"on {name} they are short of {short_of}"


def _describe_exhausted(types: Sequence[InstanceType], capacities: NodeCapacities) -> str:
    """Return the reason for instance types of which the reserves leave nothing to pods; empty without any."""
    if not types:
        return ""
    settings = find_exhausting_settings(types, capacities)
    lacking = " and ".join(capacities.exhausted(types[0]))
    example = "" if settings else f": the reserves leave no {lacking} of {types[0].name} to pods"
    return f"no instance type has enough resources{describe_settings(settings)}{example}"


def _list_missing(
    pool_offers: PoolOffers, variant: PoolVariant, catalogue: Catalogue, where: Alternatives
) -> Iterator[tuple[InstanceType, Offering, dict[str, str]]]:
    """Yield the offerings that meet the requirements of the pool and of a pod and are not offered, each with the labels
    of its nodes of this variant."""
    pool, dedicated = pool_offers.pool, DedicatedPrices(catalogue)
    held = (one for one in variant.launchable if variant.offer_set.every >> one.index & 1)
    offered = {_offering_key(one.model.name, one.offering) for one in held}
    tenancies = list_tenancies(pool, dedicated_required=any(map(requires_dedicated, where)))
    for known in catalogue.types.values():
        for offering in dedicated.offerings(known, tenancies):
            if _offering_key(known.name, offering) in offered:
                continue
            labels = node_labels(pool, pool_offers.node_class, known, offering.zone, offering.capacity_type)
            labels |= {names.TENANCY: offering.tenancy, **variant.labels}
            decided = Requirements({key: values for key, values in pool.requirements.items() if key in labels})
            if decided.allow(labels) and any(one.allow(labels) for one in where):
                yield known, offering, labels


def _nearest_variant(pool_offers: PoolOffers, where: Alternatives) -> PoolVariant:
    """Return the first variant with labels that the pod accepts; the first of all if there is none."""
    keys = open_keys(pool_offers.pool)
    asked = [Requirements({key: one[key] for key in keys if key in one}) for one in where]
    suitable = (each for each in pool_offers.variants if any(one.allow(each.labels) for one in asked))
    return next(suitable, pool_offers.variants[0])


def _offering_key(instance_type: str, offering: Offering) -> tuple[str, ...]:
    return (instance_type, offering.zone, offering.capacity_type, offering.tenancy)


def _between_pods(state: PlanState, group: PodGroup, pool_offers: PoolOffers, offers: Sequence[NodeOffer]) -> str:
    """Return the rule between pods that excludes one more pod of the group from every new node."""
    rule = _describe_rule(state, group, pool_offers, _count_rules(state, group, pool_offers, offers))
    if group.index in pool_offers.waiting:
        return f"{rule}, and {MANY_COMBINATIONS}" if rule else MANY_COMBINATIONS
    return rule or f"this plan found no place for it{TEMPORARY}"


def _count_rules(
    state: PlanState, group: PodGroup, pool_offers: PoolOffers, offers: Sequence[NodeOffer]
) -> dict[str, int]:
    """Return the rules between pods that exclude one more pod of the group from a new node, each with the number of
    nodes; an empty rule means that nothing excludes it."""
    nodes_by_reason: dict[str, int] = {}
    for index in dict.fromkeys(one.index for one in offers[:ENOUGH_TRIED]):
        for variant in pool_offers.variants:
            if not variant.bits[group.index] >> index & 1:
                continue
            node = state.open(OfferChoice(pool_offers, variant, variant.launchable[index], 1 << group.index))
            _, why = state.limit(group, node)
            state.close(node)
            nodes_by_reason[why] = nodes_by_reason.get(why, 0) + 1
    return nodes_by_reason


def _describe_rule(
    state: PlanState, group: PodGroup, pool_offers: PoolOffers, nodes_by_reason: Mapping[str, int]
) -> str:
    """Return the most frequent of these rules as a reason; empty if it is none."""
    worst = max(sorted(nodes_by_reason), key=lambda why: nodes_by_reason[why], default="")
    if worst == TOO_FEW_TYPES:
        return (
            f"minValues requirement is not met for label(s) {', '.join(sorted(pool_offers.pool.min_values))}: {worst}"
        )
    if worst in (CLAIM_TAKEN, VOLUMES_TAKEN):
        return worst
    if worst == TOO_MANY_VOLUMES:
        return f"{worst} to any new node"
    if worst == PORTS_TAKEN:
        return f"{worst} by daemon sets on every new node"
    if worst:
        where = describe_unreachable_domains(state, group, worst)
        return f"unsatisfiable topology constraint: {worst} keeps it out of every new node{where}"
    return ""

"""Group claims that may share one fleet request: claims whose nodes are interchangeable.

They have the same pool, class, capacity type and user data. The request has only the offerings that all of them have,
so any launched instance can serve any of the claims. Claims whose pods differ a little have nearly the same offerings:
they share a request if it keeps most offerings of each and begins with the preferred one, because EC2 allows few
requests. A claim without a possible request is refused, with the reason and the remedy.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner import names
from joiner.catalogue import Catalogue
from joiner.catalogue.instance_features import EFA
from joiner.launching.fleet_request import MAXIMUM_TEMPLATES, build_fleet_request, limit_offerings
from joiner.launching.image_families.node_settings import ClusterDescription, UserDataRefused
from joiner.launching.launch import Launch, LaunchTemplate
from joiner.launching.launch_offering import LaunchOffering
from joiner.launching.launch_template_content import build_launch_template, build_owner_tags, find_market_type
from joiner.launching.launch_template_limits import Images, limit_templates
from joiner.launching.node_interfaces import NO_FEATURES, lacks_public_address
from joiner.launching.subnet_choice import SubnetChoice
from joiner.launching.user_data import build_user_data, build_user_data_by_type
from joiner.pools import NodeClaim, NodeClass, NodePool, ResolvedNodeClass, Subnet
from joiner.pools.capacity_reservations import CapacityReservation

MAXIMUM_CLAIMS = 50  # limits the number of nodes that one throttled request affects

SHARED: Final = 0.75
"""Smallest part of a claim's offerings that a shared request keeps: fewer would find capacity less often."""


@dataclass(frozen=True, slots=True)
class ClaimToLaunch:
    """A claim to launch, with everything that its node is made from.

    ``offers`` are in the planner's order of preference. ``prioritized`` is whether EC2 must follow it, because a
    NodeOverlay changed a price: EC2 knows its own prices only.
    """

    claim: NodeClaim
    pool: NodePool
    node_class: NodeClass
    resolved: ResolvedNodeClass
    capacity_type: str
    offers: tuple[LaunchOffering, ...]
    prioritized: bool = False

    @property
    def reservation(self) -> CapacityReservation | None:
        """Return the capacity reservation that the claim's label names."""
        name = self.claim.labels.get(names.RESERVATION) if self.capacity_type == names.RESERVED else None
        return next((one for one in self.resolved.reservations if one.id == name), None)

    @property
    def tenancy(self) -> str:
        """Return the tenancy that the claim's label names."""
        return self.claim.labels.get(names.TENANCY, names.DEFAULT_TENANCY)

    @property
    def own_labels(self) -> dict[str, str]:
        """Return the labels of the capacity reservation, and of a tenancy that is not the default."""
        tenancy = {} if self.tenancy == names.DEFAULT_TENANCY else {names.TENANCY: self.tenancy}
        return {**(self.reservation.labels if self.reservation else {}), **tenancy}


@dataclass(frozen=True, slots=True)
class RefusedClaim:
    """A claim that cannot be requested from EC2."""

    claim: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A wanted claim with its user data and the image of each of its offerings.

    ``user_data_by_type`` has the instance types whose nodes get another text."""

    wanted: ClaimToLaunch
    user_data: str
    images: Images
    user_data_by_type: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what all nodes of one request have in common."""
        wanted = self.wanted
        own = wanted.capacity_type, wanted.reservation, wanted.tenancy, wanted.prioritized
        efa = bool(wanted.claim.requests.get(EFA, 0))
        return wanted.pool.key, wanted.node_class.key, *own, self.user_data, efa


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """Claims of one kind, and the offerings that all of them have.

    ``most`` is the number of offerings of the claim that has the most.
    """

    claims: tuple[PreparedClaim, ...]
    images: Images
    most: int

    @property
    def zones(self) -> tuple[str, ...]:
        """Return the zones of the offerings in the order of preference."""
        return tuple(dict.fromkeys(offer.zone for offer, _ in self.images))

    def with_other(self, other: "LaunchGroup", catalogue: Catalogue) -> "LaunchGroup | None":
        """Return the group of both; None if it would lose too many offerings of one of them, its preferred one, or
        values that minValues of the pool needs."""
        theirs = set(other.images)
        shared = tuple(each for each in self.images if each in theirs)
        most = max(self.most, other.most)
        if self.images[0] != other.images[0] or len(shared) < SHARED * most:
            return None
        minimums = self.claims[0].wanted.pool.min_values
        if not all(keeps_min_values(each.images, shared, catalogue, minimums) for each in (self, other)):
            return None
        claims = sorted(self.claims + other.claims, key=lambda each: each.wanted.claim.name)
        return LaunchGroup(tuple(claims), shared, most)


def group_launches(
    wanted: Iterable[ClaimToLaunch],
    catalogue: Catalogue,
    cluster: ClusterDescription,
    *,
    execution: str,
    attempt: int = 0,
) -> tuple[tuple[Launch, ...], tuple[RefusedClaim, ...]]:
    """Return the launches for these claims, and the refused claims. The order of the claims has no effect.

    ``execution`` is the name of the caller. ``attempt`` is the round, so that a new launch of a claim has another
    token.
    """
    alike: dict[tuple[object, ...], list[PreparedClaim]] = {}
    refusals: list[RefusedClaim] = []
    for one in sorted(wanted, key=lambda one: one.claim.name):
        prepared = prepare_claim(one, catalogue, cluster)
        if isinstance(prepared, RefusedClaim):
            refusals.append(prepared)
        else:
            alike.setdefault((*prepared.kind, prepared.images), []).append(prepared)
    alone = [LaunchGroup(tuple(each), each[0].images, len(each[0].images)) for each in alike.values()]
    groups = merge_groups(alone, catalogue)
    choice = SubnetChoice()
    for group in groups:
        choice.announce(group.claims[0].wanted.resolved, group.zones, len(group.claims))
    launches = [
        _launch(part, images, catalogue, cluster, execution=execution, attempt=attempt, subnets=subnets)
        for group in groups
        for part, images, subnets in _parts(group, catalogue, choice)
    ]
    return tuple(sorted(launches, key=lambda launch: launch.claims)), tuple(refusals)


def _parts(
    group: LaunchGroup, catalogue: Catalogue, choice: SubnetChoice
) -> Iterator[tuple[Sequence[PreparedClaim], Images, Mapping[str, Subnet]]]:
    """Yield the claims, the offerings and the subnets of each launch of the group."""
    first = group.claims[0].wanted
    start = 0
    while start < len(group.claims):
        subnets = choice.take(first.resolved, group.zones, min(MAXIMUM_CLAIMS, len(group.claims) - start))
        images = leave_out_zones(group.images, subnets.short, catalogue, first.pool.min_values)
        yield group.claims[start : start + subnets.count], images, subnets.by_zone
        start += subnets.count


def leave_out_zones(images: Images, zones: Iterable[str], catalogue: Catalogue, minimums: Mapping[str, int]) -> Images:
    """Return the offerings without those in the zones, except zones that minValues needs."""
    for zone in zones:
        others = tuple(each for each in images if each[0].zone != zone)
        if keeps_min_values(images, others, catalogue, minimums):
            images = others
    return images


def keeps_min_values(before: Images, after: Images, catalogue: Catalogue, minimums: Mapping[str, int]) -> bool:
    """Return whether fewer offerings have as many values of each label as minValues needs, or as there were."""
    return all(
        _count_values(after, key, catalogue) >= min(least, _count_values(before, key, catalogue))
        for key, least in minimums.items()
    )


def has_min_values(images: Images, catalogue: Catalogue, minimums: Mapping[str, int]) -> bool:
    """Return whether the offerings have as many values of each label as minValues needs. A label that neither types nor
    zones have is the same on all of them, and does not count."""
    return all(_count_values(images, key, catalogue) not in range(1, least) for key, least in minimums.items())


def _count_values(images: Images, key: str, catalogue: Catalogue) -> int:
    """Return how many values of a label these offerings have."""
    if key in {names.ZONE, names.ZONE_ID}:
        return len({offer.zone for offer, _ in images})
    types = {offer.instance_type for offer, _ in images}
    return len(
        types if key == names.INSTANCE_TYPE else {catalogue.types[one].labels.get(key) for one in types} - {None}
    )


def merge_groups(groups: Iterable[LaunchGroup], catalogue: Catalogue) -> list[LaunchGroup]:
    """Return fewer groups with the same claims. Groups with many offerings come first; each joins the first group that
    keeps enough offerings. The order of `groups` has no effect."""
    buckets: dict[tuple[object, ...], list[LaunchGroup]] = {}
    for group in sorted(groups, key=lambda group: (-group.most, [each.wanted.claim.name for each in group.claims])):
        bucket = buckets.setdefault((*group.claims[0].kind, group.images[0]), [])
        for position, present in enumerate(bucket):
            if (both := present.with_other(group, catalogue)) is not None:
                bucket[position] = both
                break
        else:
            bucket.append(group)
    return [group for bucket in buckets.values() for group in bucket]


def prepare_claim(
    wanted: ClaimToLaunch, catalogue: Catalogue, cluster: ClusterDescription
) -> PreparedClaim | RefusedClaim:
    """Return the user data and the images of one claim, or the reason why it is refused."""
    name, resolved = wanted.claim.name, wanted.resolved
    if wanted.capacity_type == names.RESERVED and wanted.reservation is None:
        message = f"the class selects no active capacity reservation {wanted.claim.labels.get(names.RESERVATION)}"
        return RefusedClaim(name, "CapacityReservationNotFound", message)
    offers, private = limit_offerings(wanted.offers), list[LaunchOffering]()
    if wanted.claim.requests.get(EFA, 0):
        private = [each for each in offers if _has_no_public_address(each, wanted.node_class, catalogue)]
    if offers and len(private) == len(offers):
        message = (
            f"a pod requests {EFA}, and EC2 gives no public address to a launch with several interfaces: remove "
            f"associatePublicIPAddress from {wanted.node_class.key}, or allow types with one EFA interface"
        )
        return RefusedClaim(name, "PublicAddressNotPossible", message)
    images = []
    for offer in (each for each in offers if each not in private):
        known = catalogue.types.get(offer.instance_type)
        image = resolved.image_for(known.labels) if known and offer.zone in resolved.zones else None
        if image:
            images.append((offer, image.id))
    if not images:
        message = (
            f"{wanted.node_class.key} has no image and subnet for any of the {len(wanted.offers)} offers of this claim"
        )
        return RefusedClaim(name, "NothingToLaunch", message)
    about = cluster, wanted.claim, wanted.pool, wanted.node_class, resolved.ami_family
    try:
        text = build_user_data(*about)
        types = {offer.instance_type: catalogue.types[offer.instance_type] for offer, _ in images}
        by_type = build_user_data_by_type(*about, types=types)
    except UserDataRefused as refused:
        return RefusedClaim(name, refused.reason, str(refused))
    return PreparedClaim(wanted, text, limit_templates(images, text, by_type), by_type)


def _has_no_public_address(offer: LaunchOffering, node_class: NodeClass, catalogue: Catalogue) -> bool:
    known = catalogue.types.get(offer.instance_type)
    return known is not None and lacks_public_address(node_class, known.features)


def _launch(
    group: Sequence[PreparedClaim],
    images: Images,
    catalogue: Catalogue,
    cluster: ClusterDescription,
    *,
    execution: str,
    attempt: int,
    subnets: Mapping[str, Subnet],
) -> Launch:
    first = group[0].wanted
    claims = tuple(prepared.wanted.claim.name for prepared in group)
    identity = compute_launch_id(execution, attempt, claims)
    templates, offers = _build_templates(group[0], images, catalogue, cluster)
    tags = build_owner_tags(cluster.name, first.pool, first.node_class) | {
        names.LAUNCH: identity,
        names.EXECUTION: execution,
    }
    token = hashlib.sha256(f"{identity}/token".encode()).hexdigest()
    order = [offer for offer, _ in images]
    node_class = first.node_class
    if not has_min_values(images, catalogue, first.pool.min_values):
        node_class = replace(node_class, context="")  # as Karpenter: minValues were relaxed (BestEffort)
    return Launch(
        id=identity,
        token=token,
        claims=claims,
        claim_kind=first.claim.kind,
        pool=first.pool.key,
        capacity_type=first.capacity_type,
        request=_request(group, offers, order, subnets, node_class, tags=tags, token=token),
        templates=tuple(templates.values()),
        images={offer.instance_type: image for offer, image in images},
        prices=_prices(images),
        zone_ids={subnet.zone: subnet.zone_id for subnet in first.resolved.subnets if subnet.zone_id},
        labels=first.own_labels | first.resolved.placement_labels(first.pool.requirements),
        user_template=template.without_user_data() if (template := first.resolved.launch_template) else None,
    )


def _request(
    group: Sequence[PreparedClaim],
    offers: Mapping[str, Sequence[LaunchOffering]],
    order: Sequence[LaunchOffering],
    subnets: Mapping[str, Subnet],
    node_class: NodeClass,
    *,
    tags: Mapping[str, str],
    token: str,
) -> dict[str, Any]:
    """Return the CreateFleet request for a group of claims; the instance of a single claim is tagged with it."""
    first = group[0].wanted
    name = first.claim.name
    return build_fleet_request(
        offers,
        order=order,
        subnets=subnets,
        node_class=node_class,
        capacity_type=first.capacity_type,
        count=len(group),
        tags=tags,
        token=token,
        market_type=find_market_type(first.reservation) if first.reservation else "",
        instance_tags=names.claim_tags(name, tags) if len(group) == 1 else {},
        prioritized=first.prioritized,
    )


def _build_templates(
    prepared: PreparedClaim,
    images: Sequence[tuple[LaunchOffering, str]],
    catalogue: Catalogue,
    cluster: ClusterDescription,
) -> tuple[Mapping[str, LaunchTemplate], Mapping[str, Sequence[LaunchOffering]]]:
    """Return the launch templates by name, one for each image, text of user data and set of interfaces, and the
    offerings of each."""
    wanted = prepared.wanted
    efa = bool(wanted.claim.requests.get(EFA, 0))
    templates: dict[str, LaunchTemplate] = {}
    offers: dict[str, list[LaunchOffering]] = {}
    for offer, image in images:
        template = build_launch_template(
            wanted.node_class,
            wanted.resolved,
            wanted.pool,
            cluster=cluster.name,
            image=image,
            user_data=prepared.user_data_by_type.get(offer.instance_type, prepared.user_data),
            capacity_type=wanted.capacity_type,
            reservation=wanted.reservation,
            features=catalogue.types[offer.instance_type].features if efa else NO_FEATURES,
            tenancy=wanted.tenancy,
        )
        if template.name not in templates and len(templates) == MAXIMUM_TEMPLATES:
            continue
        templates[template.name] = template
        offers.setdefault(template.name, []).append(offer)
    return templates, offers


def _prices(images: Iterable[tuple[LaunchOffering, str]]) -> Mapping[str, float]:
    return {f"{offer.instance_type}/{offer.zone}": offer.price_per_hour for offer, _ in images}


def compute_launch_id(execution: str, attempt: int, claims: Sequence[str]) -> str:
    """Return the id of a launch: it is the same for the same claims of the same round of an execution.

    >>> compute_launch_id("up-20261121T051728", 0, ["default-a", "default-b"])
    'l-8787f905ffd09674'
    """
    digest = hashlib.sha256(json.dumps([execution, attempt, sorted(claims)]).encode()).hexdigest()
    return f"l-{digest[:16]}"

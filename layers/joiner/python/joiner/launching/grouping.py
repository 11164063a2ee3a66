"""Claims that may share one fleet request: those whose nodes may be exchanged for each other.

That is so if they are of one pool and class, one capacity type, the same offers and the same user data: then any instance that comes
serves any of the claims. A claim for which no request can be made is refused, with the reason and the remedy.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from joiner import names
from joiner.catalogue import Catalogue
from joiner.launching.fleet import bounded, fleet_request
from joiner.launching.images import image_for
from joiner.launching.launch import Launch, Template
from joiner.launching.offers import Offer
from joiner.launching.templates import owner_tags, template_for
from joiner.launching.user_data import Cluster, UserDataRefused, user_data
from joiner.pools import NodeClaim, NodeClass, NodePool, ResolvedNodeClass

MAXIMUM_CLAIMS = 50  # one throttled request must not take hundreds of nodes with it


@dataclass(frozen=True, slots=True)
class Wanted:
    """A claim to launch, with all that its node is made from; ``offers`` in the order in which the planner prefers them."""

    claim: NodeClaim
    pool: NodePool
    node_class: NodeClass
    resolved: ResolvedNodeClass
    capacity_type: str
    offers: tuple[Offer, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A claim for which nothing can be asked of EC2."""

    claim: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A wanted claim with its user data and the image of each of its offers."""

    wanted: Wanted
    user_data: str
    images: tuple[tuple[Offer, str], ...]

    @property
    def key(self) -> tuple[str, str, str, str, tuple[tuple[Offer, str], ...]]:
        wanted = self.wanted
        return wanted.pool.key, wanted.node_class.key, wanted.capacity_type, self.user_data, self.images


def group_launches(
    wanted: Iterable[Wanted], catalogue: Catalogue, cluster: Cluster, *, execution: str, attempt: int = 0
) -> tuple[tuple[Launch, ...], tuple[Refusal, ...]]:
    """The launches for these claims and the claims that are refused, the same for the same claims in whatever order.

    ``execution`` names who asks; ``attempt`` is the round, so that a claim that is launched again has another token.
    """
    groups: dict[tuple[object, ...], list[Prepared]] = {}
    refusals: list[Refusal] = []
    for one in sorted(wanted, key=lambda one: one.claim.name):
        prepared = prepare(one, catalogue, cluster)
        if isinstance(prepared, Refusal):
            refusals.append(prepared)
        else:
            groups.setdefault(prepared.key, []).append(prepared)
    launches = [
        _launch(group[start : start + MAXIMUM_CLAIMS], cluster, execution, attempt)
        for group in groups.values()
        for start in range(0, len(group), MAXIMUM_CLAIMS)
    ]
    return tuple(sorted(launches, key=lambda launch: launch.claims)), tuple(refusals)


def prepare(wanted: Wanted, catalogue: Catalogue, cluster: Cluster) -> Prepared | Refusal:
    """User data and images for one claim, or why there can be none."""
    name, resolved = wanted.claim.name, wanted.resolved
    try:
        text = user_data(cluster, wanted.claim, wanted.pool, wanted.node_class, resolved.ami_family)
    except UserDataRefused as refused:
        return Refusal(name, refused.reason, str(refused))
    images = []
    for offer in bounded(wanted.offers):
        known = catalogue.types.get(offer.instance_type)
        image = image_for(resolved, known.labels) if known and offer.zone in resolved.zones else None
        if image:
            images.append((offer, image.id))
    if not images:
        message = f"{wanted.node_class.key} has no image and subnet for any of the {len(wanted.offers)} offers of this claim"
        return Refusal(name, "NothingToLaunch", message)
    return Prepared(wanted, text, tuple(images))


def _launch(group: Sequence[Prepared], cluster: Cluster, execution: str, attempt: int) -> Launch:
    first = group[0].wanted
    claims = tuple(prepared.wanted.claim.name for prepared in group)
    identity = launch_id(execution, attempt, claims)
    templates: dict[str, Template] = {}
    offers: dict[str, list[Offer]] = {}
    for offer, image in group[0].images:
        template = template_for(
            first.node_class,
            first.resolved,
            first.pool,
            cluster=cluster.name,
            image=image,
            user_data=group[0].user_data,
            capacity_type=first.capacity_type,
        )
        templates[template.name] = template
        offers.setdefault(template.name, []).append(offer)
    tags = owner_tags(cluster.name, first.pool, first.node_class) | {names.LAUNCH: identity, names.EXECUTION: execution}
    token = hashlib.sha256(f"{identity}/token".encode()).hexdigest()
    return Launch(
        id=identity,
        token=token,
        claims=claims,
        claim_kind=first.claim.kind,
        pool=first.pool.key,
        capacity_type=first.capacity_type,
        request=fleet_request(
            offers,
            order=[offer for offer, _ in group[0].images],
            resolved=first.resolved,
            node_class=first.node_class,
            capacity_type=first.capacity_type,
            count=len(group),
            tags=tags,
            token=token,
        ),
        templates=tuple(templates.values()),
        images={offer.instance_type: image for offer, image in group[0].images},
        prices=_prices(group[0].images),
        zone_ids={subnet.zone: subnet.zone_id for subnet in first.resolved.subnets if subnet.zone_id},
    )


def _prices(images: Iterable[tuple[Offer, str]]) -> Mapping[str, float]:
    return {f"{offer.instance_type}/{offer.zone}": offer.price_per_hour for offer, _ in images}


def launch_id(execution: str, attempt: int, claims: Sequence[str]) -> str:
    """A name for a launch: the same claims of the same round of an execution are the same launch.

    >>> launch_id("up-20261121T051728", 0, ["default-a", "default-b"])
    'l-8787f905ffd09674'
    """
    digest = hashlib.sha256(json.dumps([execution, attempt, sorted(claims)]).encode()).hexdigest()
    return f"l-{digest[:16]}"

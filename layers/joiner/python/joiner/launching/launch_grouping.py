"""Group claims that may share one fleet request: claims whose nodes are interchangeable.

They have the same pool, class, capacity type, offerings and user data, so any launched instance can serve any of the
claims. A claim without a possible request is refused, with the reason and the remedy.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from joiner import names
from joiner.catalogue import Catalogue
from joiner.launching.fleet_request import build_fleet_request, limit_offerings
from joiner.launching.launch import Launch, LaunchTemplate
from joiner.launching.launch_offering import LaunchOffering
from joiner.launching.launch_template_content import build_launch_template, build_owner_tags
from joiner.launching.user_data import ClusterDescription, UserDataRefused, build_user_data
from joiner.pools import NodeClaim, NodeClass, NodePool, ResolvedNodeClass

MAXIMUM_CLAIMS = 50  # limits the number of nodes that one throttled request affects


@dataclass(frozen=True, slots=True)
class ClaimToLaunch:
    """A claim to launch, with everything that its node is made from.

    ``offers`` are in the planner's order of preference.
    """

    claim: NodeClaim
    pool: NodePool
    node_class: NodeClass
    resolved: ResolvedNodeClass
    capacity_type: str
    offers: tuple[LaunchOffering, ...]


@dataclass(frozen=True, slots=True)
class RefusedClaim:
    """A claim that cannot be requested from EC2."""

    claim: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A wanted claim with its user data and the image of each of its offerings."""

    wanted: ClaimToLaunch
    user_data: str
    images: tuple[tuple[LaunchOffering, str], ...]

    @property
    def key(self) -> tuple[str, str, str, str, tuple[tuple[LaunchOffering, str], ...]]:
        wanted = self.wanted
        return wanted.pool.key, wanted.node_class.key, wanted.capacity_type, self.user_data, self.images


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
    groups: dict[tuple[object, ...], list[PreparedClaim]] = {}
    refusals: list[RefusedClaim] = []
    for one in sorted(wanted, key=lambda one: one.claim.name):
        prepared = prepare_claim(one, catalogue, cluster)
        if isinstance(prepared, RefusedClaim):
            refusals.append(prepared)
        else:
            groups.setdefault(prepared.key, []).append(prepared)
    launches = [
        _launch(group[start : start + MAXIMUM_CLAIMS], cluster, execution, attempt)
        for group in groups.values()
        for start in range(0, len(group), MAXIMUM_CLAIMS)
    ]
    return tuple(sorted(launches, key=lambda launch: launch.claims)), tuple(refusals)


def prepare_claim(
    wanted: ClaimToLaunch, catalogue: Catalogue, cluster: ClusterDescription
) -> PreparedClaim | RefusedClaim:
    """Return the user data and the images of one claim, or the reason why it is refused."""
    name, resolved = wanted.claim.name, wanted.resolved
    try:
        text = build_user_data(cluster, wanted.claim, wanted.pool, wanted.node_class, resolved.ami_family)
    except UserDataRefused as refused:
        return RefusedClaim(name, refused.reason, str(refused))
    images = []
    for offer in limit_offerings(wanted.offers):
        known = catalogue.types.get(offer.instance_type)
        image = resolved.image_for(known.labels) if known and offer.zone in resolved.zones else None
        if image:
            images.append((offer, image.id))
    if not images:
        message = (
            f"{wanted.node_class.key} has no image and subnet for any of the {len(wanted.offers)} offers of this claim"
        )
        return RefusedClaim(name, "NothingToLaunch", message)
    return PreparedClaim(wanted, text, tuple(images))


def _launch(group: Sequence[PreparedClaim], cluster: ClusterDescription, execution: str, attempt: int) -> Launch:
    first = group[0].wanted
    claims = tuple(prepared.wanted.claim.name for prepared in group)
    identity = compute_launch_id(execution, attempt, claims)
    templates: dict[str, LaunchTemplate] = {}
    offers: dict[str, list[LaunchOffering]] = {}
    for offer, image in group[0].images:
        template = build_launch_template(
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
    tags = build_owner_tags(cluster.name, first.pool, first.node_class) | {
        names.LAUNCH: identity,
        names.EXECUTION: execution,
    }
    token = hashlib.sha256(f"{identity}/token".encode()).hexdigest()
    return Launch(
        id=identity,
        token=token,
        claims=claims,
        claim_kind=first.claim.kind,
        pool=first.pool.key,
        capacity_type=first.capacity_type,
        request=build_fleet_request(
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


def _prices(images: Iterable[tuple[LaunchOffering, str]]) -> Mapping[str, float]:
    return {f"{offer.instance_type}/{offer.zone}": offer.price_per_hour for offer, _ in images}


def compute_launch_id(execution: str, attempt: int, claims: Sequence[str]) -> str:
    """Return the id of a launch: it is the same for the same claims of the same round of an execution.

    >>> compute_launch_id("up-20261121T051728", 0, ["default-a", "default-b"])
    'l-8787f905ffd09674'
    """
    digest = hashlib.sha256(json.dumps([execution, attempt, sorted(claims)]).encode()).hexdigest()
    return f"l-{digest[:16]}"

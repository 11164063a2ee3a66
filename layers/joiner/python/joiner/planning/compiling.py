"""From a snapshot to the world in which a plan is made: every rule is compiled here, once, before anybody looks for a plan."""

from collections.abc import Mapping

from joiner.catalogue import Catalogue
from joiner.planning.fixed import lacking
from joiner.planning.groups import group
from joiner.planning.markets import markets
from joiner.planning.offers import Unavailable
from joiner.planning.pending import holding, waiting
from joiner.planning.plan import Ceilings
from joiner.planning.rooms import World
from joiner.planning.snapshot import Snapshot
from joiner.planning.standing import standing
from joiner.pools import ResolvedNodeClass


def compiled(
    snapshot: Snapshot,
    catalogue: Catalogue,
    unavailable: Unavailable,
    *,
    classes: Mapping[str, ResolvedNodeClass],
    ceilings: Ceilings,
    strict: bool = True,
) -> World:
    """The world of this snapshot: nothing placed yet, all that stands in its room, every offer with whom it is open to."""
    who = waiting(snapshot)
    reserved = [pod for pods in who.reserved.values() for pod in pods]
    there = holding(snapshot)
    if there:
        moving = {pod.key for pod in who.pending}
        there = tuple(pod for pod in there if pod.key not in moving)
    groups = group(who.pending, [*there, *reserved], snapshot.daemon_sets, snapshot.volumes)
    offered = markets(snapshot, groups, catalogue, unavailable, classes)
    stands = standing(snapshot, catalogue, groups, who)
    made = lacking(offered, groups, stands, ceilings)
    return World(
        groups,
        offered,
        (*stands.rooms, *made),
        namespaces=snapshot.namespaces,
        used=stands.used,
        ceilings=ceilings,
        nodes=stands.nodes + len(made),
        price=stands.price + sum(room.made.one.offer.price_per_hour for room in made if room.made),
        strict=strict,
    )

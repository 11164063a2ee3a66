"""Changes of the settings of the cluster and of its NodeOverlays that may let a pending pod get a node: candidates for
remedies, as those of ``manifest_changes``."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from joiner.catalogue import Catalogue, suggest_resources
from joiner.cluster import Pod, Resources
from joiner.cluster.resources import EPHEMERAL_STORAGE, MEMORY, PODS
from joiner.planning import Ceilings, Snapshot
from joiner.pools import NodeOverlay, Overlays

OF_EVERY_NODE: Final = frozenset({"cpu", MEMORY, EPHEMERAL_STORAGE, PODS})
"""Resources that every node has, and that no NodeOverlay changes."""


@dataclass(frozen=True, slots=True)
class ChangeOfSettings:
    """``text`` continues the sentence "the settings would have to". Other nodes count for each ceiling, so that a plan
    that places other pods differently may not need the change."""

    text: str
    apply: Callable[[Ceilings], Ceilings]
    shared: bool = True


@dataclass(frozen=True, slots=True)
class ChangeOfOverlays:
    """``text`` continues the sentence "a NodeOverlay would have to"."""

    text: str
    apply: Callable[[Overlays], Overlays]
    shared: bool = False


def changes_of_cluster(
    pod: Pod, snapshot: Snapshot, catalogue: Catalogue, ceilings: Ceilings
) -> list[ChangeOfSettings | ChangeOfOverlays]:
    """Return the changes of the settings, and the NodeOverlays that would give nodes what the pod requests and no
    instance type has."""
    found: list[ChangeOfSettings | ChangeOfOverlays] = []
    if ceilings.nodes is not None:
        found.append(ChangeOfSettings("raise ceilings.nodes", partial(replace, nodes=None)))
    if ceilings.price_per_hour is not None:
        found.append(ChangeOfSettings("raise ceilings.pricePerHour", partial(replace, price_per_hour=None)))
    for name in _list_missing(pod, snapshot, catalogue):
        amount = Resources({name: pod.requests[name]})
        text = f"give nodes {name}: {amount.to_kube()[name]} in spec.capacity"
        found.append(ChangeOfOverlays(text, partial(_give, amount=amount)))
    return found


def _list_missing(pod: Pod, snapshot: Snapshot, catalogue: Catalogue) -> Iterator[str]:
    """Yield the resources that the pod requests and no instance type has. A name that is nearly that of a resource of
    an instance type is misspelt."""
    known = {name for one in catalogue.types.values() for name in one.capacity}
    for name in sorted(pod.requests):
        asked = pod.requests[name] > 0 and name not in OF_EVERY_NODE and name not in known
        if asked and (name in snapshot.overlays.resources or not suggest_resources(name, known)):
            yield name


def _give(overlays: Overlays, amount: Resources) -> Overlays:
    most = max((one.weight for one in overlays.ordered), default=0)
    return Overlays.of((*overlays.ordered, NodeOverlay("remedy", capacity=amount, weight=most + 1)))

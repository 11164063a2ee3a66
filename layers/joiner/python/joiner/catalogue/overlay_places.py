"""The places where pools can have nodes, with whose offerings NodeOverlays are compared."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from joiner import names
from joiner.catalogue.instance_types import Catalogue, InstanceType
from joiner.cluster import ABSENT, Requirements

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The labels of nodes of a pool in one zone, of one capacity type and tenancy, beside those of their instance type.

    ``required`` are the requirements of the pool on ``of_place``. ``types`` are the instance types that the pool and
    its class allow; None: all.
    """

    of_pool: Labels
    of_place: Labels
    required: Requirements = field(default_factory=Requirements)
    types: frozenset[str] | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of both."""
        return {**self.of_pool, **self.of_place}

    @property
    def is_allowed(self) -> bool:
        """Return whether the pool allows nodes there."""
        return self.required.allow(self.labels)


def assume_spot_places(places: Iterable[NodePlace]) -> Iterator[NodePlace]:
    """Yield the place of spot nodes for each place of on-demand nodes.

    >>> [one.labels for one in assume_spot_places([NodePlace({"team": "web"}, {names.CAPACITY_TYPE: "on-demand"})])]
    [{'team': 'web', 'karpenter.sh/capacity-type': 'spot'}]
    """
    for place in places:
        if place.of_place.get(names.CAPACITY_TYPE) == names.ON_DEMAND:
            yield replace(place, of_place={**place.of_place, names.CAPACITY_TYPE: names.SPOT})


def list_distinct_places(places: Iterable[NodePlace], keys: Collection[str]) -> list[NodePlace]:
    """Return the places that the pools allow, with those of their labels that have one of these keys, each set once:
    overlays name few labels, and hundreds of pools are alike in them.
    """
    found: dict[object, NodePlace] = {}
    for place in places:
        if place.is_allowed:
            few = {key: value for key, value in place.labels.items() if key in keys}
            found.setdefault((place.types, *sorted(few.items())), NodePlace({}, few, types=place.types))
    return list(found.values())


def find_nodes(
    asked: Requirements, catalogue: Catalogue, places: Iterable[NodePlace]
) -> Iterator[tuple[InstanceType, Labels, Labels]]:
    """Yield the instance types and the labels of places whose nodes meet the requirements, with all labels of these
    nodes, whether EC2 sells the type there or not.

    Places and types are compared alone first: most requirements are for few of them.

    >>> catalogue = Catalogue.of([InstanceType("m5.large", {"size": "large"}), InstanceType("m5.metal")])
    >>> places = [NodePlace({}, {names.ZONE: zone}, types=frozenset({"m5.large"})) for zone in ("a", "b")]
    >>> [labels for _, _, labels in find_nodes(Requirements.from_labels({names.ZONE: "b"}), catalogue, places)]
    [{'size': 'large', 'topology.kubernetes.io/zone': 'b'}]
    """
    of_types = {key for key in asked if any(key in known.labels for known in catalogue.types.values())}
    near = [(one.types, one.labels) for one in places if _may_meet(asked, one.labels, elsewhere=of_types)]
    of_places = frozenset[str]().union(*(labels for _, labels in near))
    for known in catalogue.types.values() if near else ():
        if not _may_meet(asked, known.labels, elsewhere=of_places):
            continue
        for types, place in near:
            if (types is None or known.name in types) and asked.allow(both := {**known.labels, **place}):
                yield known, place, both


def _may_meet(asked: Requirements, labels: Labels, *, elsewhere: Collection[str]) -> bool:
    """Return whether a node with these labels can meet the requirements; labels with the keys ``elsewhere`` may also
    come from elsewhere."""
    return all(
        labels.get(key, ABSENT) in values for key, values in asked.items() if key in labels or key not in elsewhere
    )

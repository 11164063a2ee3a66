"""One node of a plan while it is made, and the volumes that are attached to it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field

from joiner import names
from joiner.cluster import HostPort, Taint
from joiner.planning.model.node_offers import OfferChoice
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.model.volume_constraints import UNLIMITED


@dataclass(slots=True, eq=False)
class NodeState:
    """One node, existing or planned. ``node_name`` is the name of the Kubernetes node, and ``claim_name`` that of the
    NodeClaim; both are empty for a planned node. ``free`` is what its pods can still request, in the order of the
    plan's resources. ``occupied`` is whether it has pods, or slots for pods, that are
    not of a DaemonSet. ``planned`` counts the pods that this plan puts on it. ``attached`` counts the pods
    that use a volume there, by the position of its resource and its name."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    _: KW_ONLY
    free: list[int]
    node_name: str = ""
    claim_name: str = ""
    occupied: bool = False
    held: dict[PodGroup, int] = field(default_factory=dict)
    planned: dict[PodGroup, int] = field(default_factory=dict)
    ports: list[HostPort] = field(default_factory=list)
    attached: dict[tuple[int, str], int] = field(default_factory=dict)
    answers: dict[object, bool] = field(default_factory=dict)
    choice: OfferChoice | None = None
    closing: bool = False
    """Whether it takes no more pods, because it is drained or deleted."""
    made: OfferChoice | None = None
    """The offer of a node that this plan creates in any case: a missing node of a static pool."""

    @property
    def is_empty(self) -> bool:
        """Return whether it has no pod but those of DaemonSets and capacity buffers."""
        return not self.occupied and not any(number and not group.is_buffer for group, number in self.planned.items())

    @property
    def price(self) -> float:
        """Return the price in $/h of a new node; 0 for an existing one."""
        return self.choice.one.offer.price_per_hour if self.choice else 0.0

    @classmethod
    def with_daemons(
        cls, name: str, offer: OfferChoice, daemons: Iterable[PodGroup], *, always: bool = False
    ) -> "NodeState":
        """Return a node of an offer, with the pods of these DaemonSets only.

        With ``always``, the plan creates it in any case.
        """
        node = cls(
            name=name,
            labels={**offer.one.labels, **offer.variant.labels, names.HOSTNAME: name},
            taints=offer.pool_offers.pool.taints,
            free=list(offer.one.free),
            choice=None if always else offer,
            made=offer if always else None,
        )
        for daemon in daemons:
            node.held[daemon] = 1
            node.ports.extend(daemon.constraints.host_ports)
        return node


def attach_volume(node: NodeState, volume: tuple[int, str], number: int) -> None:
    """Add ``number`` users of a volume on this node (a negative number removes users). The first user attaches the
    volume, the last one detaches it."""
    before = node.attached.get(volume, 0)
    node.attached[volume] = before + number
    node.free[volume[0]] -= (before + number > 0) - (before > 0)


def attachable_pods(group: PodGroup, node: NodeState) -> int:
    """Return how many more pods of the group can have their volumes on this node, including volumes that they share."""
    most, missing = UNLIMITED, Counter(volume[0] for volume in group.attaches if not node.attached.get(volume))
    for position, number in missing.items():
        left, each = node.free[position] - number, group.vector[position]
        most = min(most, 0 if left < 0 else left // each if each else UNLIMITED)
    return most

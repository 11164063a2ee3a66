"""Rules between pods as running counts: spread, affinity and anti-affinity, exactly as kube-scheduler applies them.

``DomainCounts`` counts pods by topology domain. The groups that it counts are determined once. Placing a pod adds one
to a few counts, and checking a node reads a few. Sources: Kubernetes, "Pod Topology Spread Constraints" and "Assigning
Pods to Nodes". Where these pages do not specify a case, the scheduler's plugins of those names decide.

* A spread counts pods of the pod's own namespace, on nodes with all its topology keys that its own rules allow.
* Affinity counts pods that *all* its terms select. A pod that they select itself may be the first of its kind anywhere.
* Anti-affinity applies in both directions: it also keeps other pods out of the domain of the pod that has the term.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Protocol

from joiner import names
from joiner.cluster import Taint, TopologySpreadConstraint
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.model.volume_constraints import UNLIMITED

CLAIM_TAKEN: Final = "its PersistentVolumeClaim is for one pod at a time, and another pod that waits has it"
VOLUMES_TAKEN: Final = "other claims take the PersistentVolumes that its claim could have"


class TopologyNode(Protocol):
    """A node as the topology rules see it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the node's labels."""

    @property
    def taints(self) -> Sequence[Taint]:
        """Return the node's taints."""

    @property
    def answers(self) -> dict[object, bool]:
        """Return the cache for results about this node that never change."""
        ...


class DomainCounts:
    """Pods by domain of ``key``, on the nodes that ``counts`` accepts."""

    __slots__ = ("by_domain", "key", "only", "total")

    def __init__(self, key: str, only: Callable[[TopologyNode], bool] | None = None) -> None:
        self.key = key
        self.only = only
        self.by_domain: dict[str, int] = {}
        self.total = 0

    def add(self, place: TopologyNode, number: int) -> None:
        """Count pods in the domain of a node; a negative number takes them away."""
        domain = place.labels.get(self.key)
        if domain is not None and (self.only is None or self.only(place)):
            self.by_domain[domain] = self.by_domain.get(domain, 0) + number
            self.total += number


@dataclass(frozen=True, slots=True, eq=False)
class SpreadRule:
    """One hard spread of a group. ``universe`` are the domains that count even without a pod. It is None for
    hostnames: a new node is always possible, so the lowest count is 0. ``moves`` is whether the spread counts
    pending pods."""

    spread: TopologySpreadConstraint
    counts: DomainCounts
    counts_itself: bool
    universe: frozenset[str] | None
    moves: bool

    @property
    def text(self) -> str:
        """Return how the reasons of pending pods name the rule."""
        return f"its spread over {self.spread.topology_key}"

    def lowest(self, without: str | None = None) -> int:
        """Return the count of the emptiest domain except ``without``, or 0 while the number of domains is below
        minDomains."""
        if not self.universe:
            return 0
        counted = self.counts.by_domain
        counts = (counted.get(domain, 0) for domain in self.universe if domain != without)
        return self.spread.lowest_count(counts, len(self.universe), default=UNLIMITED)

    def allows(self, domain: str | None) -> bool:
        """Return whether the current skew of this domain is within maxSkew."""
        return domain is not None and self.spread.allows(self.counts.by_domain.get(domain, 0), self.lowest())

    def limit(self, domain: str | None) -> int:
        """Return how many more pods may go to this domain one after the other, so that it stays at most maxSkew above
        the others."""
        if domain is None:
            return 0
        here = self.counts.by_domain.get(domain, 0)
        if not self.counts_itself:
            return UNLIMITED if self.allows(domain) else 0
        return max(self.lowest(without=domain) + self.spread.max_skew - here, 0)


@dataclass(slots=True, eq=False)
class GroupRules:
    """The rules of one group about other pods, and the counts that its own pods change (``feeds``).

    ``selected_groups`` are the other groups that its affinity selects; ``selects_itself`` is whether it also selects
    its own pods. ``together`` counts the pods that share a volume which does not exist yet: the volume is created in
    the domain of the first of them, and all others must go there. ``alone`` counts the pods that have a claim with
    access mode ReadWriteOncePod. ``offer_set`` counts the pods that use one of a family of manually created volumes,
    with the number of volumes in each domain.
    """

    spreads: list[SpreadRule] = field(default_factory=list)
    affinity: list[DomainCounts] = field(default_factory=list)
    selected_groups: list[PodGroup] = field(default_factory=list)
    _: KW_ONLY
    selects_itself: bool = False
    away: list[DomainCounts] = field(default_factory=list)
    unwanted: list[DomainCounts] = field(default_factory=list)
    feeds: list[DomainCounts] = field(default_factory=list)
    preferred: list[tuple[int, DomainCounts]] = field(default_factory=list)
    together: list[DomainCounts] = field(default_factory=list)
    alone: list[DomainCounts] = field(default_factory=list)
    offer_set: list[tuple[DomainCounts, Mapping[str, int]]] = field(default_factory=list)

    @property
    def apart(self) -> list[tuple[DomainCounts, int]]:
        """Return what the group must be apart from: a counts, and the highest count allowed in the domain of a pod of
        the group, with that pod included."""
        return [(counts, 1 if counts in self.feeds else 0) for counts in (*self.away, *self.unwanted)]

    @property
    def of_hosts(self) -> tuple[tuple[DomainCounts, int], ...]:
        """Return its rules about hosts, in the form of ``apart``."""
        apart = [(counts, most) for counts, most in self.apart if counts.key == names.HOSTNAME]
        return (*apart, *((rule.counts, rule.spread.max_skew) for rule in self.spreads if rule.universe is None))

    @property
    def free(self) -> bool:
        """Return whether no rule restricts where its pods go, or how many."""
        return not (
            self.spreads or self.affinity or self.away or self.unwanted or self.together or self.alone or self.offer_set
        )

    def most(self, wanted: int) -> int:
        """Return how many of so many more pods the volumes of the group allow on all nodes together, beside the pods
        that are placed."""
        if self.alone:
            wanted = min(wanted, 0 if any(counts.total for counts in self.alone) else 1)
        for counts, there in self.offer_set:
            wanted = min(wanted, max(sum(there.values()) - counts.total, 0))
        return wanted

    def limit(
        self, place: TopologyNode, quota: Mapping[str, int] | None = None, assigned: SpreadRule | None = None
    ) -> tuple[int, str]:
        """Return how many more pods of the group rules about other pods allow on this node; if none, also the rule
        that forbids it.

        While a plan is made, ``quota`` replaces the live skew of the ``assigned`` spread: the number of pods that each
        domain may still accept.
        """
        most, labels = 1 if self.alone else UNLIMITED, place.labels
        if any(counts.total for counts in self.alone):
            return 0, CLAIM_TAKEN
        for avoided, whose in ((self.away, "its anti-affinity"), (self.unwanted, "the anti-affinity of other pods")):
            for counts in avoided:
                domain = labels.get(counts.key)
                if domain is not None:
                    if counts.by_domain.get(domain, 0):
                        return 0, f"{whose} on {counts.key}"
                    if counts in self.feeds:
                        most = 1
        if self.affinity and not self._beside(labels):
            return 0, f"its affinity on {', '.join(dict.fromkeys(counts.key for counts in self.affinity))}"
        if self.together or self.offer_set:
            most, why = min((most, ""), self._volumes(labels))
            if most <= 0:
                return 0, why
        for rule in self.spreads:
            domain = labels.get(rule.spread.topology_key)
            more = quota.get(domain or "", 0) if quota is not None and rule is assigned else rule.limit(domain)
            if more <= 0:
                return 0, rule.text
            most = min(most, more)
        return most, ""

    def _volumes(self, labels: Mapping[str, str]) -> tuple[int, str]:
        """Return how many more pods may go there with respect to shared volumes and volumes of limited number."""
        if any(counts.total and not counts.by_domain.get(labels.get(counts.key, ""), 0) for counts in self.together):
            return 0, "a volume that it shares with pods elsewhere"
        left = [
            there.get(domain, 0) - counts.by_domain.get(domain, 0)
            for counts, there in self.offer_set
            if (domain := labels.get(counts.key, ""))
        ]
        return min(left, default=UNLIMITED), VOLUMES_TAKEN

    def _beside(self, labels: Mapping[str, str]) -> bool:
        domains = [labels.get(counts.key) for counts in self.affinity]
        if None in domains:
            return False
        if all(counts.by_domain.get(domain or "", 0) for counts, domain in zip(self.affinity, domains, strict=True)):
            return True
        return self.selects_itself and not any(counts.total for counts in self.affinity)

    @property
    def assigned_spread(self) -> SpreadRule | None:
        """Return the spread whose domains are assigned beforehand. A spread that counts no pending pod does not divide
        them: all of them may go to any domain that is level."""
        return next((rule for rule in self.spreads if rule.universe is not None and rule.moves), None)

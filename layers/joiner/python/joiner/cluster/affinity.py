"""The scheduling constraints of a pod: node affinity, pod affinity, topology spread and host ports.

kube-scheduler applies the same rules. Sources: Kubernetes, "Assigning Pods to Nodes", "Pod Topology Spread
Constraints", and the API reference of both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner.cluster.invalid_field import InvalidField
from joiner.cluster.label_selectors import LabelSelector
from joiner.cluster.label_values import ValueSet
from joiner.cluster.requirements import RENAMED, Requirement, Requirements

NAME_FIELD = "metadata.name"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - not a bind: in a manifest, it means all addresses of the node


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """One term of a node selector. A node must meet both its labels and its names. An empty term matches no node.

    >>> term = NodeSelectorTerm.from_kube({"matchExpressions": [{"key": "disk", "operator": "Exists"}]})
    >>> term.suits({"disk": "ssd"}, "node-1")
    True
    >>> NodeSelectorTerm.from_kube({}).suits({}, "node-1")
    False
    """

    labels: Requirements = field(default_factory=Requirements)
    names: ValueSet | None = None
    """The node names that ``matchFields`` allows; None if it has no expression."""

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any]) -> "NodeSelectorTerm":
        """Read one term. InvalidField for an expression that the API server refuses."""
        names: ValueSet | None = None
        for position, expression in enumerate(raw.get("matchFields") or []):
            if expression.get("key") != NAME_FIELD or expression.get("operator") not in ("In", "NotIn"):
                raise InvalidField(
                    f"matchFields[{position}]", expression, f"only {NAME_FIELD} In or NotIn is supported"
                )
            values = Requirement.from_kube(expression).values
            names = values if names is None else names & values
        try:
            return cls(Requirements.from_kube(raw.get("matchExpressions")), names)
        except InvalidField as invalid:
            raise invalid.within("matchExpressions") from invalid

    @property
    def empty(self) -> bool:
        """Return whether the term has no expression. Such a term matches no node."""
        return not self.labels and self.names is None

    def suits(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether a node with these labels and this name matches the term."""
        return not self.empty and self.labels.allow(labels) and (self.names is None or name in self.names)

    @property
    def suits_new_nodes(self) -> bool:
        """Return whether a node that does not exist yet can match this term.

        The name of such a node is not known yet. So a term may exclude names, but it may not require one.
        """
        return not self.empty and (self.names is None or not self.names.finite)


@dataclass(frozen=True, slots=True)
class NodePreference:
    """Preferred node affinity: a term with its weight (1 to 100)."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A term of pod affinity or anti-affinity: the pods to be near or away from, within one topology domain.

    ``namespaces`` are the listed names, or the pod's own namespace if the term names and selects none.
    ``namespace_selector`` adds the namespaces that it selects.
    """

    topology_key: str
    selector: LabelSelector
    namespaces: frozenset[str]
    namespace_selector: LabelSelector = field(default_factory=LabelSelector)

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any], *, namespace: str, labels: Mapping[str, str]) -> "PodAffinityTerm":
        """Read the term of a pod with this namespace and these labels; matchLabelKeys refer to the labels.

        Raises InvalidField if the topology key is missing.
        """
        key = raw.get("topologyKey")
        if not isinstance(key, str) or not key:
            raise InvalidField("topologyKey", key, "name the label that makes the domains")
        named = frozenset(raw.get("namespaces") or ())
        own = frozenset({namespace}) if not named and raw.get("namespaceSelector") is None else named
        alike = {name: ValueSet.of(labels[name]) for name in raw.get("matchLabelKeys") or () if name in labels}
        unlike = {name: ~ValueSet.of(labels[name]) for name in raw.get("mismatchLabelKeys") or () if name in labels}
        return cls(
            topology_key=RENAMED.get(key, key),
            selector=_selector(raw).with_values(alike).with_values(unlike),
            namespaces=own,
            namespace_selector=LabelSelector.from_kube(raw.get("namespaceSelector")),
        )

    def selects(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, Mapping[str, str]]
    ) -> bool:
        """Return whether the term selects a pod with these labels in this namespace.

        ``namespace_labels`` maps each namespace to its labels.
        """
        there = namespace in self.namespaces or self.namespace_selector.selects(
            {"kubernetes.io/metadata.name": namespace, **namespace_labels.get(namespace, {})}
        )
        return there and self.selector.selects(labels)


@dataclass(frozen=True, slots=True)
class PodPreference:
    """Preferred pod affinity, or anti-affinity if ``away``: a term with its weight (1 to 100)."""

    weight: int
    term: PodAffinityTerm
    away: bool


@dataclass(frozen=True, slots=True)
class TopologySpreadConstraint:
    """One topology spread constraint; ``hard`` for DoNotSchedule. The selector already includes matchLabelKeys.
    ``by_default``: it is a default of the scheduler, not the pod's own."""

    topology_key: str
    max_skew: int
    selector: LabelSelector
    hard: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    by_default: bool = False

    @classmethod
    def from_kube(cls, raw: Mapping[str, Any], *, labels: Mapping[str, str]) -> "TopologySpreadConstraint":
        """Read one constraint of a pod with these labels. InvalidField if a field is not valid."""
        key, skew = raw.get("topologyKey"), raw.get("maxSkew")
        if not isinstance(key, str) or not key:
            raise InvalidField("topologyKey", key, "name the label that makes the domains")
        if not isinstance(skew, int) or skew < 1:
            raise InvalidField("maxSkew", skew, "write an integer of 1 or more")
        alike = {name: ValueSet.of(labels[name]) for name in raw.get("matchLabelKeys") or () if name in labels}
        return cls(
            topology_key=RENAMED.get(key, key),
            max_skew=skew,
            selector=_selector(raw).with_values(alike),
            hard=raw.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
            min_domains=int(raw.get("minDomains") or 1),
            honors_affinity=raw.get("nodeAffinityPolicy", "Honor") == "Honor",
            honors_taints=raw.get("nodeTaintsPolicy", "Ignore") == "Honor",
        )

    def lowest_count(self, counts: Iterable[int], domains: int, *, default: int = 0) -> int:
        """Return the number of pods in the domain with the fewest pods; skew is measured against it.

        ``counts`` are the pods of each domain. ``domains`` is the number of domains that exist. The result is 0 while
        ``domains`` is less than minDomains, and ``default`` if ``counts`` is empty. Source: Kubernetes, "Pod Topology
        Spread Constraints" (minDomains).
        """
        return min(counts, default=default) if domains >= self.min_domains else 0

    def allows(self, count: int, lowest: int) -> bool:
        """Return whether a domain with ``count`` pods is within maxSkew of the ``lowest`` count."""
        return count - lowest <= self.max_skew


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node that a pod uses."""

    port: int
    protocol: str = "TCP"
    ip: str = EVERY_ADDRESS

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether the two ports exclude each other on a node.

        >>> HostPort(80).conflicts(HostPort(80, ip="10.0.0.1")), HostPort(80).conflicts(HostPort(80, "UDP"))
        (True, False)
        """
        same = (self.port, self.protocol) == (other.port, other.protocol)
        return same and (self.ip == other.ip or bool({self.ip, other.ip} & {EVERY_ADDRESS, "::", ""}))


def _selector(raw: Mapping[str, Any]) -> LabelSelector:
    try:
        return LabelSelector.from_kube(raw.get("labelSelector"))
    except InvalidField as invalid:
        raise invalid.within("labelSelector") from invalid

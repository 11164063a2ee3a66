"""Whether a pending pod could run alone on one more node: its rules about other pods, and its volumes.

Written from the Kubernetes documentation ("Inter-pod affinity and anti-affinity", "Pod Topology Spread Constraints",
"Volume Binding Mode"), without Joiner's code. Where the documentation leaves a choice, the answer is that the pod could
not run: what is reported is certain.

>>> selects({"matchLabels": {"app": "web"}}, {"app": "web", "tier": "1"}), selects(None, {"app": "web"})
(True, False)
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joiner_local.control_plane.kube_api import Object

HOSTNAME: Final = "kubernetes.io/hostname"
NEW_NODE: Final = "a node that is not there yet"
FINAL: Final = ("Succeeded", "Failed")
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

Labels = Mapping[str, str]
Selector = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nodes, and the pods that are bound to them; claims, volumes and storage classes by their names."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    claims: Mapping[tuple[str, str], Object]
    volumes: Mapping[str, Object]
    storage_classes: Mapping[str, Object]

    @classmethod
    def of(
        cls,
        nodes: Sequence[Object],
        pods: Sequence[Object],
        *,
        claims: Sequence[Object] = (),
        volumes: Sequence[Object] = (),
        storage_classes: Sequence[Object] = (),
    ) -> "Neighbours":
        """Return the world of these manifests; pods that are not bound or have ended count for nothing."""
        return cls(
            nodes,
            [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") not in FINAL],
            {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in claims},
            {each["metadata"]["name"]: each for each in volumes},
            {each["metadata"]["name"]: each for each in storage_classes},
        )

    def may_join(self, pod: Object, labels: Labels) -> bool:
        """Return whether the pod could run alone on a new node with these labels (its zone among them)."""
        there = {HOSTNAME: NEW_NODE, **labels}
        return (
            all(self._near(term, pod, there) for term in _terms(pod, "podAffinity"))
            and not any(self._beside(term, pod, there) for term in _terms(pod, "podAntiAffinity"))
            and not any(self._kept_away(other, pod, there) for other in self.pods)
            and all(self._spreads(each, pod, there) for each in pod["spec"].get("topologySpreadConstraints") or ())
            and all(self._reachable(volume, pod, there) for volume in pod["spec"].get("volumes") or ())
        )

    def _near(self, term: Mapping[str, Any], pod: Object, there: Labels) -> bool:
        """Affinity: a pod that is meant is in the same domain; or none is anywhere, and the pod means itself."""
        meant = [other for other in self.pods if _means(term, pod, other)]
        key = term["topologyKey"]
        if not meant:
            return key in there and _means(term, pod, pod)
        return key in there and any(self._labels(other).get(key) == there[key] for other in meant)

    def _beside(self, term: Mapping[str, Any], pod: Object, there: Labels) -> bool:
        key = term["topologyKey"]
        same = (other for other in self.pods if key in there and self._labels(other).get(key) == there[key])
        return any(_means(term, pod, other) for other in same)

    def _kept_away(self, other: Object, pod: Object, there: Labels) -> bool:
        """Another pod's anti-affinity holds for this pod, too."""
        return any(
            _means(term, other, pod)
            and self._labels(other).get(term["topologyKey"], "") == there.get(term["topologyKey"])
            for term in _terms(other, "podAntiAffinity")
        )

    def _spreads(self, constraint: Mapping[str, Any], pod: Object, there: Labels) -> bool:
        key = constraint["topologyKey"]
        if constraint["whenUnsatisfiable"] == "ScheduleAnyway":
            return True
        if key not in there:
            return False
        selector = _with_label_keys(constraint, pod)
        found: Counter[str] = Counter({there[key]: 0})
        found.update({node["metadata"]["labels"][key]: 0 for node in self.nodes if key in node["metadata"]["labels"]})
        mine = pod["metadata"]["namespace"]
        for other in self.pods:
            domain = self._labels(other).get(key)
            if domain is not None and other["metadata"]["namespace"] == mine and selects(selector, _labels(other)):
                found[domain] += 1
        least = 0 if len(found) < constraint.get("minDomains", 1) else min(found.values())
        itself = selects(selector, _labels(pod))
        return bool(found[there[key]] + itself - least <= constraint["maxSkew"])

    def _reachable(self, volume: Mapping[str, Any], pod: Object, there: Labels) -> bool:
        """A volume that exists is in the zone; one that does not exist yet is made where the pod is."""
        if "ephemeral" in volume:
            spec = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
        elif "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = self.claims.get((pod["metadata"]["namespace"], name))
            if claim is None:
                return False
            spec = claim["spec"]
        else:
            return True
        if bound := spec.get("volumeName"):
            return bound in self.volumes and _in_place(self.volumes[bound], there)
        storage_class = self.storage_classes.get(spec.get("storageClassName") or "", {})
        late = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
        return late and not storage_class.get("allowedTopologies") and "selector" not in spec

    def _labels(self, pod: Object) -> Labels:
        """The labels of the pod's node."""
        name = pod["spec"]["nodeName"]
        node = next((each for each in self.nodes if each["metadata"]["name"] == name), None)
        return {HOSTNAME: name, **(node["metadata"]["labels"] if node else {})}


def selects(selector: Selector, labels: Labels) -> bool:
    """Return whether a label selector selects; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _meets(labels.get(each["key"]), each["operator"], each.get("values") or ())
        for each in selector.get("matchExpressions") or ()
    )


def _meets(value: str | None, operator: str, values: Sequence[str]) -> bool:
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


def _means(term: Mapping[str, Any], owner: Object, other: Object) -> bool:
    """Return whether a term of the owner's affinity means the other pod. A selector of namespaces selects all here."""
    spaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
    if other["metadata"]["namespace"] not in spaces and "namespaceSelector" not in term:
        return False
    return selects(_with_label_keys(term, owner), _labels(other))


def _with_label_keys(rule: Mapping[str, Any], pod: Object) -> Selector:
    selector = rule.get("labelSelector")
    keys = [key for key in rule.get("matchLabelKeys") or () if key in _labels(pod)]
    if selector is None or not keys:
        return selector
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **{k: _labels(pod)[k] for k in keys}}}


def _terms(pod: Object, kind: str) -> Iterator[Mapping[str, Any]]:
    yield from ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ()


def _labels(pod: Object) -> Labels:
    found: Labels = pod["metadata"].get("labels") or {}
    return found


def _in_place(volume: Object, there: Labels) -> bool:
    terms = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    return not terms or any(
        all(
            _meets(there.get(each["key"]), each["operator"], each.get("values") or ())
            for each in term.get("matchExpressions") or ()
        )
        for term in terms
    )

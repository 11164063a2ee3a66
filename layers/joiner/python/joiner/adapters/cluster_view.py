"""The current state of the cluster, read in an order that makes a snapshot consistent.

Claims and nodes are read first and pods last: a pod that is bound meanwhile is then seen on its node or not at all, and
never counts twice. A protocol separates callers from the implementation, because large clusters will be read from a
mirror that resumed watches update.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube, Manifests
from joiner.adapters.kube_errors import KubeError, NotFound
from joiner.adapters.parallel_calls import call_each
from joiner.names import CLAIM_RESOURCES

Lists = Mapping[str, Sequence[Mapping[str, Any]]]
Name = TypeVar("Name")

FIRST: Final = (*kinds.CLAIMS, kinds.NODES)
SURVEYED: Final = (
    kinds.NODEPOOLS,
    kinds.PROVISIONERS,
    kinds.EC2NODECLASSES,
    kinds.AWSNODETEMPLATES,
    kinds.NAMESPACES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.STORAGE_CLASSES,
    kinds.DAEMON_SETS,
    kinds.POD_DISRUPTION_BUDGETS,
)
"""Kinds that the sweep reads besides claims, nodes and pods, to detect changes for pods that no plan can place, and for
nodes that may be disrupted."""
PLANNED: Final = (
    *(kind for kind in SURVEYED if kind is not kinds.POD_DISRUPTION_BUDGETS),
    kinds.PERSISTENT_VOLUMES,
    kinds.PRIORITY_CLASSES,
    kinds.CSI_NODES,
    kinds.NODE_OVERLAYS,
    kinds.CAPACITY_BUFFERS,
)
REPORTED: Final = (kinds.NODE_OVERLAYS, kinds.CAPACITY_BUFFERS)
"""Kinds that the sweep also reads, to report their problems and to keep the capacity of buffers."""
PERHAPS: Final = frozenset({kinds.NODE_OVERLAYS, kinds.CAPACITY_BUFFERS, kinds.ALPHA_CAPACITY_BUFFERS})
"""Kinds whose definition may be missing in a cluster; the list is empty then."""
EARLIER: Final = {kinds.CAPACITY_BUFFERS: kinds.ALPHA_CAPACITY_BUFFERS}
"""The version of a kind that a cluster may serve if its definition is older than this one."""
REFERENCES: Final = {
    kind.kind: kind for kind in (kinds.POD_TEMPLATES, kinds.DEPLOYMENTS, kinds.STATEFUL_SETS, kinds.REPLICA_SETS)
}
"""Kinds that a CapacityBuffer names; only the named objects are read."""

SELECTING: Final = (kinds.SERVICES, kinds.REPLICA_SETS, kinds.STATEFUL_SETS, kinds.REPLICATION_CONTROLLERS)
"""Kinds whose selectors say which pods the scheduler's default topology spread constraints count. They are listed only
for clusters whose settings have such constraints. Of each object only the selector is kept: clusters have many
ReplicaSets of former revisions, with large templates."""

CONTROLLERS: Final = {
    kind.kind: kind
    for kind in (
        kinds.DEPLOYMENTS,
        kinds.REPLICA_SETS,
        kinds.STATEFUL_SETS,
        kinds.JOBS,
        kinds.REPLICATION_CONTROLLERS,
    )
}
"""Kinds that create pods (a Deployment by ReplicaSets), and whose objects contain the number of pods."""

NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that have ended use no resources, and no decision needs them; clusters with many jobs keep thousands."""


class ClusterView(Protocol):
    """A source of the state of the whole cluster."""

    def lists(self, expected_claims: Collection[str] = ()) -> Lists:
        """Return every list that a plan needs, by plural name."""

    def pods_without_node(self) -> Sequence[Mapping[str, Any]]:
        """Return the pods that are bound to no node."""

    def disruption_budgets(self) -> Sequence[Mapping[str, Any]]:
        """Return the PodDisruptionBudgets."""

    def controller(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the controller of a pod or of a ReplicaSet; None if it does not exist, or is of a kind that is not
        read."""


class ListedCluster:
    """The state of the cluster by full lists.

    `between` are the kinds that are read after the claims and before the pods. With `consistent` each list is of one
    version: a pod that is replaced between two pages must not count twice if that costs a node.
    """

    def __init__(self, kube: Kube, between: Sequence[kinds.Kind] = PLANNED, *, consistent: bool = True) -> None:
        self._kube = kube
        self._between = between
        self._consistent = consistent

    def lists(self, expected_claims: Collection[str] = ()) -> Lists:
        """Return all lists. If a claim of the ledger is missing, all lists are read once more.

        A claim that is missing again was deleted by a user, or by an execution that ended before it recorded the
        deletion.
        """
        found = self._read(FIRST)
        if not set(expected_claims) <= claim_names(found):
            found = self._read(FIRST)
        between = self._read([kind for kind in self._between if kind not in SELECTING])
        named = self._named_objects(between)
        selecting = self._read([kind for kind in self._between if kind in SELECTING])
        return {
            **found,
            **between,
            **named,
            **{plural: _with_selectors(named.get(plural, ()), items) for plural, items in selecting.items()},
            "pods": self._kube.packed(kinds.PODS, fields=NOT_ENDED, consistent=self._consistent),
        }

    def pods_without_node(self) -> Sequence[Mapping[str, Any]]:
        """Return the pods that are bound to no node; far fewer than all, and from the API server's cache."""
        return self._kube.packed(kinds.PODS, fields=f"spec.nodeName=,{NOT_ENDED}")

    def disruption_budgets(self) -> Sequence[Mapping[str, Any]]:
        """Return the PodDisruptionBudgets."""
        return self._kube.list(kinds.POD_DISRUPTION_BUDGETS)

    def controller(self, kind: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the controller of a pod; None if it does not exist, or is of a kind that is not read."""
        try:
            return self._kube.get(CONTROLLERS[kind], name, namespace=namespace) if kind in CONTROLLERS else None
        except NotFound:
            return None

    def claims(self) -> Lists:
        """Return only the claims, of both kinds."""
        return self._read(kinds.CLAIMS)

    def _named_objects(self, lists: Lists) -> dict[str, Manifests]:
        """Return the objects that CapacityBuffers name, and the RuntimeClasses of their templates and of DaemonSets."""
        found = self._named_by_buffers(lists.get(kinds.CAPACITY_BUFFERS.plural) or ())
        daemon_sets = lists.get(kinds.DAEMON_SETS.plural) or ()
        runtimes = self._get_each(
            sorted(
                {name for items in (daemon_sets, *found.values()) for one in items if (name := _runtime_class(one))}
            ),
            lambda name: self._kube.get(kinds.RUNTIME_CLASSES, name),
        )
        if runtimes:
            found[kinds.RUNTIME_CLASSES.plural] = [answer for _, answer in runtimes]
        return found

    def _named_by_buffers(self, buffers: Sequence[Mapping[str, Any]]) -> dict[str, Manifests]:
        """Return the objects that CapacityBuffers name, by plural name; those that do not exist are left out."""
        found: dict[str, Manifests] = {}
        for (kind, namespace, name), answer in self._get_each(
            sorted({reference for each in buffers for reference in _references(each)}),
            lambda one: self._kube.get(REFERENCES[one[0]], one[2], namespace=one[1]),
        ):
            metadata = {**answer["metadata"], "namespace": namespace, "name": name}
            found.setdefault(REFERENCES[kind].plural, []).append({**answer, "metadata": metadata})
        return found

    def _get_each(
        self, names: Sequence[Name], get: Callable[[Name], dict[str, Any]]
    ) -> list[tuple[Name, dict[str, Any]]]:
        """Return each name with its object; objects that do not exist are left out."""
        found: list[tuple[Name, dict[str, Any]]] = []
        for name, answer in call_each(names, get, KubeError):
            if isinstance(answer, NotFound):
                continue
            if isinstance(answer, KubeError):
                raise answer
            found.append((name, answer))
        return found

    def _list(self, kind: kinds.Kind) -> Manifests:
        try:
            return self._kube.list(kind, consistent=self._consistent)
        except NotFound:
            if kind not in EARLIER:
                raise
            return self._kube.list(EARLIER[kind], consistent=self._consistent)

    def _read(self, wanted: Sequence[kinds.Kind]) -> dict[str, Manifests]:
        found: dict[str, Manifests] = {}
        for kind, answer in call_each(wanted, self._list, KubeError):
            if isinstance(answer, NotFound) and kind in PERHAPS:
                found[kind.plural] = []
                continue
            if isinstance(answer, KubeError):
                raise answer  # no decision is made from a partial read
            found[kind.plural] = answer
        return found


def _with_selectors(whole: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]]) -> Manifests:
    """Return the whole objects, and all other listed ones with their selectors only."""
    known = {_key(one) for one in whole}
    return [*map(dict, whole), *(keep_selector(one) for one in listed if _key(one) not in known)]


def _key(one: Mapping[str, Any]) -> tuple[str, str]:
    return str(one["metadata"].get("namespace") or "default"), str(one["metadata"]["name"])


def keep_selector(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its name, namespace and selector only.

    >>> keep_selector({"metadata": {"name": "web", "uid": "1"}, "spec": {"selector": {"app": "web"}, "ports": []}})
    {'metadata': {'name': 'web', 'namespace': 'default'}, 'spec': {'selector': {'app': 'web'}}}
    """
    namespace, name = _key(one)
    selector = (one.get("spec") or {}).get("selector")
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {} if selector is None else {"selector": selector},
    }


def _references(buffer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the kind, namespace and name of each object that a buffer names, if Joiner reads its kind."""
    spec = buffer.get("spec") or {}
    template, scalable = spec.get("podTemplateRef") or {}, spec.get("scalableRef") or {}
    named = ((kinds.POD_TEMPLATES.kind, template.get("name")), (scalable.get("kind"), scalable.get("name")))
    namespace = str(buffer["metadata"].get("namespace") or "default")
    return [(str(kind), namespace, str(name)) for kind, name in named if kind in REFERENCES and name]


def _runtime_class(one: Mapping[str, Any]) -> str:
    """Return the RuntimeClass that the template of a workload, or a PodTemplate, names; empty without one."""
    template = (one.get("spec") or {}).get("template") or one.get("template") or {}
    return str((template.get("spec") or {}).get("runtimeClassName") or "")


def claim_names(lists: Lists) -> set[str]:
    """Return the names of all claims in these lists."""
    return {str(claim["metadata"]["name"]) for plural in CLAIM_RESOURCES for claim in lists.get(plural, ())}

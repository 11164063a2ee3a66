"""Whether disruptions kept their rules, from the history of a cluster, without Joiner's code.

* A pod that must not be disrupted (`karpenter.sh/do-not-disrupt`: `true`, or a duration from its start) does not end.
* A pod is not deleted, by a request or with its node, if a PodDisruptionBudget then has fewer healthy pods than it
  asks for. Evictions are granted by the API server, which counts itself. A pod that tolerates the taint of a node
  that leaves ends with it, whatever its budget says.
* A voluntary disruption begins only while the nodes of the pool that leave or are not Ready are fewer than the budgets
  of the pool allow for its reason, and not on a node that must not be disrupted: by its annotation or by that of its
  claim, by that of a pod on it, or by a PodDisruptionBudget that allows no eviction of a pod on it.

What a disruption is, is not read from Joiner. It begins with the first version of a node or its claim that has the
taint `karpenter.sh/disrupted` or a deletion. It ended a pod if the identity of one of Joiner's functions evicted or
deleted the pod, or deleted its node (the audit log). It is *forced* if the instance had ended or was struck before, or
if the node was unhealthy for longer than its pool tolerates: then no rule holds. It is *asked for* if a user deleted
node, claim or pool, if the claim has expired, or if a static pool has too many nodes: then only the rules of pods that
end hold. Every other is voluntary. The deadline of a claim's `terminationGracePeriod` ends the rules of pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from joiner_local.control_plane.kube_api import Object
from tests.e2e.allowed_disruptions import count_allowed, seconds
from tests.e2e.begun_disruptions import BUDGETS_OF, BegunDisruption
from tests.e2e.cluster_history import ClusterHistory, Removal
from tests.e2e.observed_manifests import (
    SOON,
    Place,
    annotations,
    born,
    condition,
    ends,
    epoch,
    has_expired,
    instance_of_node,
    is_counted,
    is_deleting,
    is_initialized,
    is_protected,
    needs_a_node,
    outlasts_drain,
    pool_of,
)
from tests.e2e.replayed_cluster import KNOWN_AFTER, ReplayedCluster
from tests.e2e.tolerated_conditions import find_intolerable

EXPIRATION: Final = "joiner.dev/expiration"
REBALANCE: Final = "joiner.dev/rebalance"
SCHEDULE: Final = "joiner.dev/schedule"
POD_COLLECTOR: Final = "system:serviceaccount:kube-system:pod-garbage-collector"
"""It deletes the pods of a node that is gone."""
GRACE: Final = 30  # seconds, the default of a pod
DRAIN: Final = ("joiner.dev/drain", "rollout")
"""The annotation of a pod that no PodDisruptionBudget keeps, because a rollout replaces it."""
WITH_NODE: Final = "deleted with its node"


@dataclass(frozen=True, slots=True)
class Strike:
    """What a test did to an instance at a time (epoch seconds), by the name of the knob."""

    at: float
    how: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Since when a node leaves, whether by force, and whether voluntarily."""

    since: float
    forced: bool
    voluntary: bool


@dataclass
class DisruptionJudge:
    """Replays a history. `strikes` are those of the tests, by instance."""

    history: ClusterHistory
    strikes: Mapping[str, Strike] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Names of the pods that disruptions ended."""
    voluntary: list[str] = field(default_factory=list)
    """Names of the nodes whose voluntary disruption began."""

    def __post_init__(self) -> None:
        self._cluster = ReplayedCluster.of(self.history.start)
        self._forced: set[str] = set()  # names of gone nodes, which their pods outlive
        nodes = self._cluster.all("node").items()
        leaving = (name for name, node in nodes if self._cluster.is_leaving(node))
        self._leaving = {name: Leave(0.0, forced=False, voluntary=False) for name in leaving}
        self._begun: dict[str, BegunDisruption] = {}
        """Voluntary disruptions without a known reason, by node."""

    def judge(self) -> list[str]:
        """Return a sentence for each violation."""
        cluster = self._cluster
        for change in self.history.changes:
            before = cluster.all(change.kind).get(change.key)
            if change.kind == "pod" and before is not None and ends(before, change.found):
                self._judge_end(before, change.at)
            if change.kind == "node" and before is not None and change.found is None:
                self._note_begin(change.key, before, change.at)  # it may go without a taint
                self._judge_begin(change.key, before, deleted=True)
                if self._force(before, change.at):
                    self._forced.add(change.key)
                self._leaving.pop(change.key, None)
            cluster.note(change)
            if change.found is not None and change.kind in ("node", "claim"):
                of_claim = change.kind == "claim"
                self._look_at(cluster.node_of(change.found) if of_claim else (change.key, change.found), change.at)
        for begun in self._begun.values():
            self.violations.extend(begun.violations(()))
        self._begun.clear()
        return self.violations

    # --- the begin of a disruption

    def _look_at(self, found: tuple[str, Object] | None, at: float) -> None:
        if found is None:
            return
        name, node = found
        if self._cluster.is_leaving(node):
            self._note_begin(name, node, at)
            if self._reasons(node) or self._cluster.is_deleted(node):
                self._judge_begin(name, node, deleted=self._cluster.is_deleted(node))
        else:
            self._judge_begin(name, node, deleted=False)
            self._leaving.pop(name, None)

    def _note_begin(self, name: str, node: Object, at: float) -> None:
        if name in self._leaving:
            return
        forced = bool(self._force(node, at))
        managed = pool_of(node) != ("", "") and is_initialized(node)
        voluntary = managed and not forced and not self._request(name, node, at)
        self._leaving[name] = Leave(at, forced, voluntary)
        if voluntary:
            self.voluntary.append(name)
            self.violations.extend(self._against_annotations(name, node, at))
            self._begun[name] = self._describe_begin(name, node, at)

    def _judge_begin(self, name: str, node: Object, *, deleted: bool) -> None:
        """Judge what depends on the reason, once: when it is stated, or will not be stated any more."""
        if begun := self._begun.pop(name, None):
            self.violations.extend(begun.violations(self._reasons(node), deleted=deleted))

    def _against_annotations(self, name: str, node: Object, at: float) -> Iterator[str]:
        claim = self._cluster.claim_of(node)
        for one in (f"node {name}", f"claim {claim[0]}" if claim else ""):
            if at - self._cluster.protected.get(one, at) > KNOWN_AFTER:
                yield f"{one} must not be disrupted, and node {name} leaves"

    def _describe_begin(self, name: str, node: Object, at: float) -> BegunDisruption:
        pool, cluster = pool_of(node), self._cluster
        total, claim = cluster.recent_size(pool, at), cluster.claim_of(node)
        versions = cluster.recent_versions(pool, at)
        moments = [datetime.fromtimestamp(moment, UTC) for moment in (at, at - KNOWN_AFTER)]
        return BegunDisruption(
            pool,
            sorted({name, *(one for one in cluster.members(pool) if self._uses_budget(one, at))}),
            total,
            {
                reason: max(
                    (count_allowed(one, reason, nodes=total, at=moment) for one in versions for moment in moments),
                    default=total,
                )
                for reason in BUDGETS_OF.values()
            },
            empty=not any(map(needs_a_node, cluster.pods_on(name))),
            blocks=[f"{why}, and node {name} leaves" for why in self._find_blocks(name, at)],
            has_deadline=claim is not None and claim[1]["spec"].get("terminationGracePeriod") is not None,
        )

    def _find_blocks(self, name: str, at: float) -> Iterator[str]:
        """Yield why pods forbid the voluntary disruption of their node, as far as that was known."""
        cluster = self._cluster
        closed = [
            (key, budget)
            for key, budget in cluster.all("budget").items()
            if at - cluster.closed.get(key, at) > KNOWN_AFTER
        ]
        for pod in filter(needs_a_node, cluster.pods_on(name)):
            key = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            if is_protected(pod, at) and at - cluster.protected.get(f"pod {key}", at) > KNOWN_AFTER:
                yield f"pod {key} must not be disrupted"
            leaves_otherwise = DRAIN in annotations(pod).items() or outlasts_drain(pod)
            if at - cluster.ready.get(key, at) > KNOWN_AFTER and not leaves_otherwise:
                names = [budget for budget, found in closed if is_counted(pod, found)]
                yield from (f"PodDisruptionBudget {budget} allows no eviction of pod {key}" for budget in names)

    def _reasons(self, node: Object) -> list[str]:
        """Return the reasons that the claim of a node states."""
        claim = self._cluster.claim_of(node)
        conditions = claim[1].get("status", {}).get("conditions", []) if claim else []
        return [each["reason"] for each in conditions if each["type"] == "DisruptionReason"]

    def _uses_budget(self, name: str, at: float) -> bool:
        """Return whether a node of a pool uses up its budget for another one that begins to leave."""
        if self._has_ended(self._cluster.all("node")[name], at):
            return False
        leave = self._leaving.get(name)
        left = leave is not None and (leave.voluntary or at - leave.since > KNOWN_AFTER)
        return left or at - self._cluster.not_ready.get(name, at) > KNOWN_AFTER

    # --- causes that are not voluntary

    def _has_ended(self, node: Object, at: float) -> bool:
        ended = self.history.ended.get(instance_of_node(node))
        return ended is not None and ended <= at + SOON

    def _force(self, node: Object, at: float) -> str:
        """Return why a node leaves by force; empty if it does not."""
        strike = self.strikes.get(instance_of_node(node))
        if strike is not None and strike.at <= at + SOON and strike.how != "rebalance":
            return strike.how
        leave = self._leaving.get(node["metadata"]["name"])
        if self._has_ended(node, at if leave is None else min(at, leave.since)):
            return "its instance ended before it left"
        pool = pool_of(node)
        bad = find_intolerable(node, self._cluster.all(pool[0]).get(pool[1]), at)
        return f"it is not {bad} for longer than its pool tolerates" if bad else ""

    def _request(self, name: str, node: Object, at: float) -> str:
        """Return who asked for the end of a node; empty if nobody did."""
        pool, claim = pool_of(node), self._cluster.claim_of(node)
        owner = self._cluster.all(pool[0]).get(pool[1])
        if owner is None or is_deleting(owner):
            return "its pool is deleted"
        about = [("node", name, node), *([("claim", *claim)] if claim else [])]
        if any(self._was_deleted_by_a_user(kind, key, born(found), at) for kind, key, found in about):
            return "a user deleted it"
        graceful = annotations(owner).get(EXPIRATION) == "graceful"
        if claim is not None and not graceful and has_expired(claim[1], owner, at):
            return "it has expired"
        strike = self.strikes.get(instance_of_node(node))
        if strike is not None and strike.how == "rebalance" and annotations(owner).get(REBALANCE) == "drain":
            return "a recommendation to rebalance"
        return "its static pool has too many" if self._has_surplus(name, pool, owner) else ""

    def _has_surplus(self, name: str, pool: Place, owner: Object) -> bool:
        """Return whether a static pool may have more nodes than it wants. A schedule may want fewer at any time."""
        replicas = owner["spec"].get("replicas")
        staying = sum(one == name or one not in self._leaving for one in self._cluster.members(pool))
        return replicas is not None and (staying > replicas or SCHEDULE in annotations(owner))

    def _was_deleted_by_a_user(self, kind: str, key: str, since: float, at: float) -> bool:
        removals = self._removals(kind, key, since, at)
        return any(each.verb == "delete" and not each.ours for each in removals)

    def _removals(self, kind: str, key: str, since: float, at: float) -> list[Removal]:
        """Return the removals of an object in a time, oldest first."""
        of_all = f"{key.rpartition('/')[0]}/" if "/" in key else ""
        mine = (each for each in self.history.removals if each.kind == kind and each.key in (key, of_all))
        return sorted((each for each in mine if since - SOON <= each.at <= at + SOON), key=lambda each: each.at)

    # --- the end of a pod

    def _judge_end(self, pod: Object, at: float) -> None:
        name = pod["spec"]["nodeName"]
        node = self._cluster.all("node").get(name)
        how = self._how_it_ended(pod, at)
        if not how or not needs_a_node(pod):
            return
        self.ended.append(pod["metadata"]["name"])
        leave = self._leaving.get(name)
        if name in self._forced or (leave is not None and leave.forced):
            return
        if node is not None and (self._force(node, at) or self._is_overdue(node, pod, at)):
            return
        what = f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} was {how}"
        if is_protected(pod, at):
            self.violations.append(f"{what}, and must not be disrupted")
        if not how.startswith("evicted") and not (how.startswith(WITH_NODE) and outlasts_drain(pod)):
            self.violations.extend(f"{what}, {why}" for why in self._below_budgets(pod))

    def _how_it_ended(self, pod: Object, at: float) -> str:
        """Return how Joiner ended the pod; empty if another client did."""
        key, node = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", pod["spec"]["nodeName"]
        removals = self._removals("pod", key, born(pod), at)
        if not removals:
            return ""
        first = removals[0]
        if first.ours:
            return f"{'evicted' if first.verb == 'evict' else 'deleted'} on node {node}"
        of_node = self._removals("node", node, born(pod), at)
        by_us = first.user == POD_COLLECTOR and of_node and of_node[0].ours
        return f"{WITH_NODE} {node}" if by_us else ""

    def _is_overdue(self, node: Object, pod: Object, at: float) -> bool:
        """Return whether the pod could not end by itself before the deadline of its node's drain."""
        claim = self._cluster.claim_of(node)
        limit = claim[1]["spec"].get("terminationGracePeriod") if claim else None
        if claim is None or limit is None or not is_deleting(claim[1]):
            return False
        grace = pod["spec"].get("terminationGracePeriodSeconds", GRACE)
        return bool(at + SOON >= epoch(claim[1]["metadata"]["deletionTimestamp"]) + seconds(limit) - grace)

    def _below_budgets(self, pod: Object) -> Iterator[str]:
        if condition(pod, "Ready") != "True":
            return
        for key, budget in self._cluster.all("budget").items():
            if not is_counted(pod, budget):
                continue
            counted = [each for each in self._cluster.all("pod").values() if is_counted(each, budget)]
            left = sum(condition(each, "Ready") == "True" and not is_deleting(each) for each in counted) - 1
            desired = budget.get("status", {}).get("desiredHealthy", 0)
            if left < desired:
                yield f"which leaves {left} healthy pods of the {desired} that PodDisruptionBudget {key} asks for"

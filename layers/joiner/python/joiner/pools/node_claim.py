"""A NodeClaim: one requested node, from before its instance exists until its instance is terminated.

A Machine becomes the same value. The claim records a launch in the cluster. It is written before the instance is
requested, and its finalizer keeps it until the instance is terminated. Three conditions describe its lifecycle:
Launched, Registered and Initialized. Ready summarizes them.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol

from joiner import names
from joiner.cluster import Requirements, Resources, Taint
from joiner.pools.conditions import Conditions, Status
from joiner.pools.node_pool import NodeClassRef, NodePool
from joiner.pools.timestamps import format_timestamp

ClaimKind = Literal["NodeClaim", "Machine"]

CLAIM_API_VERSION: Mapping[ClaimKind, str] = {"NodeClaim": "karpenter.sh/v1", "Machine": "karpenter.sh/v1alpha5"}
LIFE = ("Launched", "Registered", "Initialized")


class LaunchedInstance(Protocol):
    """One instance in a CreateFleet answer; the price is in $/h, None if it is unknown."""

    @property
    def instance_id(self) -> str:
        """Return the id of the instance."""

    @property
    def image_id(self) -> str:
        """Return the id of its image."""

    @property
    def instance_type(self) -> str:
        """Return its instance type."""

    @property
    def zone(self) -> str:
        """Return its zone."""

    @property
    def capacity_type(self) -> str:
        """Return its capacity type."""

    @property
    def price_per_hour(self) -> float | None:
        """Return its price in $/h; None if it is unknown."""


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """One claim. ``pool`` is empty for a claim that a user created. Condition types are those of v1 for both kinds.

    ``labels`` are those that the node gets. After the launch they include type, zone and capacity type. ``min_values``
    are those of its requirements, as in ``NodePool``.
    """

    name: str
    class_ref: NodeClassRef
    _: KW_ONLY
    kind: ClaimKind = "NodeClaim"
    pool: str = ""
    pool_uid: str = ""
    requirements: Requirements = field(default_factory=Requirements)
    min_values: Mapping[str, int] = field(default_factory=dict)
    requests: Resources = field(default_factory=Resources)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    expire_after: int | None = None
    termination_grace_period: int | None = None
    provider_id: str = ""
    image_id: str = ""
    node_name: str = ""
    capacity: Resources = field(default_factory=Resources)
    allocatable: Resources = field(default_factory=Resources)
    conditions: Conditions = field(default_factory=Conditions)
    conditions_read: Conditions = field(default_factory=Conditions, compare=False)
    finalizers: tuple[str, ...] = (names.TERMINATION_FINALIZER,)
    created: datetime | None = None
    deletion: datetime | None = None
    last_pod_event: datetime | None = None
    uid: str = ""
    generation: int = 0
    resource_version: str = ""

    @property
    def key(self) -> str:
        """Return a key that is unique over both kinds, such as ``NodeClaim/default-abc``."""
        return f"{self.kind}/{self.name}"

    @property
    def api_version(self) -> str:
        """Return the API version of its kind."""
        return CLAIM_API_VERSION[self.kind]

    @property
    def pool_key(self) -> str:
        """Return the same key as ``NodePool.key``; empty without a pool."""
        return f"{'Provisioner' if self.kind == 'Machine' else 'NodePool'}/{self.pool}" if self.pool else ""

    @property
    def pool_label(self) -> str:
        """Return the key of the label that names the pool of a claim of this kind."""
        return names.PROVISIONER if self.kind == "Machine" else names.NODEPOOL

    @property
    def instance_type(self) -> str:
        """Return the instance type; empty before the launch."""
        return self.labels.get(names.INSTANCE_TYPE, "")

    @property
    def zone(self) -> str:
        """Return the zone of its label; empty before the launch."""
        return self.labels.get(names.ZONE, "")

    @property
    def capacity_type(self) -> str:
        """Return the capacity type of its label; empty before the launch."""
        return self.labels.get(names.CAPACITY_TYPE, "")

    @property
    def released(self) -> bool:
        """Return whether the deleted claim needs nothing from Joiner any more: Joiner has removed its finalizer, with
        its label, after the end of the instance. Only finalizers of other controllers keep such a claim.
        """
        marked = self.labels.get(names.LEAVING) == "true"
        return self.deletion is not None and marked and names.TERMINATION_FINALIZER not in self.finalizers

    @property
    def instance_id(self) -> str:
        """Return the last part of ``aws:///<zone>/<instance id>``; empty before the launch."""
        return self.provider_id.rpartition("/")[2]

    @property
    def launched(self) -> bool:
        """Return whether its instance was launched."""
        return self.conditions.true("Launched")

    @property
    def registered(self) -> bool:
        """Return whether its Node is registered."""
        return self.conditions.true("Registered")

    @property
    def initialized(self) -> bool:
        """Return whether its Node is initialized."""
        return self.conditions.true("Initialized")

    @property
    def deleting(self) -> bool:
        """Return whether it is being deleted."""
        return self.deletion is not None

    @property
    def lease(self) -> int:
        """Return the number of the lease under which the claim was written; 0 if it is not from a scale-up."""
        number = self.annotations.get(names.LEASE, "")
        return int(number) if number.isdecimal() else 0

    @property
    def launch(self) -> str:
        """Return the id of its launch, or an empty text."""
        return self.annotations.get(names.LAUNCH, "")

    def with_condition(
        self, name: str, status: Status, reason: str = "", message: str = "", *, at: datetime
    ) -> "NodeClaim":
        """Return this claim with one condition set and Ready updated."""
        after = self.conditions.set(name, status, reason, message, at=at, generation=self.generation or None)
        return replace(self, conditions=after.with_ready(*LIFE, at=at, generation=self.generation or None))

    def without_condition(self, name: str) -> "NodeClaim":
        """Return this claim without one condition."""
        return replace(self, conditions=self.conditions.without(name))

    def rebased(self, newest: "NodeClaim") -> "NodeClaim":
        """Return this claim at the version of ``newest``, with the conditions that others wrote since it was read.

        Ready is computed from both, at the time of the latest condition. A condition that both changed is as here.
        """
        conditions = self.conditions.rebased(self.conditions_read, newest.conditions)
        since = [condition.since for condition in conditions if condition.since]
        if since and any(condition.type == "Ready" for condition in conditions):
            conditions = conditions.with_ready(*LIFE, at=max(since), generation=newest.generation or None)
        version = newest.resource_version
        return replace(self, conditions=conditions, conditions_read=newest.conditions, resource_version=version)

    def find_conflicts(self, newest: "NodeClaim") -> tuple[str, ...]:
        """Return the types of conditions that this claim changed since it was read, and others otherwise."""
        found = self.conditions.find_conflicts(self.conditions_read, newest.conditions)
        return tuple(name for name in found if name != "Ready")

    def as_launched(
        self,
        instance: LaunchedInstance,
        *,
        at: datetime,
        labels: Mapping[str, str] | None = None,
        capacity: Resources | None = None,
        allocatable: Resources | None = None,
        launch: str = "",
        joins_by: datetime | None = None,
    ) -> "NodeClaim":
        """Return this claim with its instance: provider id, image, labels of the instance, condition Launched.

        Args:
            instance: the launched instance.
            at: the time of the conditions.
            labels: labels of the instance's type and place, added to those of the claim.
            capacity: the capacity of the node; None keeps that of the claim.
            allocatable: the allocatable resources of the node; None keeps those of the claim.
            launch: the id of the launch; empty keeps the annotation as it is.
            joins_by: the deadline of registration, for the messages of the conditions.
        """
        known = {
            names.INSTANCE_TYPE: instance.instance_type,
            names.ZONE: instance.zone,
            names.CAPACITY_TYPE: instance.capacity_type,
        }
        annotations = {**self.annotations, names.LAUNCH: launch} if launch else self.annotations
        launched = replace(
            self,
            provider_id=f"aws:///{instance.zone}/{instance.instance_id}",
            image_id=instance.image_id,
            labels={**self.labels, **(labels or {}), **known},
            annotations=annotations,
            capacity=self.capacity if capacity is None else capacity,
            allocatable=self.allocatable if allocatable is None else allocatable,
        )
        launched = launched.with_condition("Launched", "True", "Launched", at=at)
        awaited = f"instance {instance.instance_id} has not joined the cluster yet{_format_deadline(joins_by)}"
        for name in LIFE[1:]:
            if all(condition.type != name for condition in launched.conditions):
                launched = launched.with_condition(name, "Unknown", "NodeNotJoined", awaited, at=at)
        return launched

    def as_registered(self, node_name: str, *, at: datetime, opens_by: datetime | None = None) -> "NodeClaim":
        """Return this claim after its node registered.

        The claim fails if the node is not ready for pods at ``opens_by``.
        """
        joined = replace(self, node_name=node_name).with_condition("Registered", "True", "Registered", at=at)
        if joined.conditions["Initialized"].status != "Unknown":
            return joined
        until = f" by {format_timestamp(opens_by)}" if opens_by else ""
        given_up = f"; if it is not{until}, no more pods are planned for it, and it is removed when it is empty"
        awaited = f"node {node_name} has joined and is not ready for all of its pods yet{given_up}"
        return joined.with_condition("Initialized", "Unknown", "NodeNotReady", awaited, at=at)

    def as_initialized(
        self, *, at: datetime, capacity: Resources | None = None, allocatable: Resources | None = None
    ) -> "NodeClaim":
        """Return this claim after its node is ready for pods; capacity and allocatable are then those of the node."""
        known = replace(
            self,
            capacity=self.capacity if capacity is None else capacity,
            allocatable=self.allocatable if allocatable is None else allocatable,
        )
        return known.with_condition("Initialized", "True", "Initialized", at=at)


@dataclass(frozen=True, slots=True)
class NodeClaimTemplate:
    """The decisions of a plan for one node: the fields of the claim that do not come from its pool.

    ``requirements`` narrow those of the pool to the plan. ``requests`` are those of the node's pods and daemons.
    ``labels`` are those that the plan already decides. ``min_values_relaxed``: its launch has
    fewer values than minValues.
    """

    requirements: Requirements = field(default_factory=Requirements)
    requests: Resources = field(default_factory=Resources)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources = field(default_factory=Resources)
    allocatable: Resources = field(default_factory=Resources)
    min_values_relaxed: bool = False


def build_node_claim(
    pool: NodePool, template: NodeClaimTemplate, *, suffix: str, lease: int, execution: str
) -> NodeClaim:
    """Return the claim to create for one planned node of a pool.

    Args:
        pool: the pool of the node.
        template: the decisions of the plan for the node.
        suffix: the end of the claim's name. It must be the same whenever the same plan is written again (a digest of
            execution, round and index), so that a retry finds the claims that exist.
        lease: the number of the lease under which the claim is written.
        execution: the name of the execution that writes it.
    """
    belongs = pool.own_label
    relaxed = {} if pool.legacy else {names.MIN_VALUES_RELAXED: "true" if template.min_values_relaxed else "false"}
    written = {names.LEASE: str(lease), names.EXECUTION: execution}
    if pool.class_ref.kind == "EC2NodeClass":
        belongs[names.NODECLASS] = pool.class_ref.name
    return NodeClaim(
        name=build_claim_name(pool.name, suffix),
        kind="Machine" if pool.legacy else "NodeClaim",
        class_ref=pool.class_ref,
        pool=pool.name,
        pool_uid=pool.uid,
        requirements=template.requirements,
        requests=template.requests,
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        labels={**pool.labels, **template.labels, **belongs},
        annotations={**pool.annotations, **template.annotations, **relaxed, **written},
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
        capacity=template.capacity,
        allocatable=template.allocatable,
    )


def build_claim_name(pool: str, suffix: str) -> str:
    """Return ``<pool>-<suffix>``, cut to the length of a label value (63), for the Node's Name tag and label.

    >>> build_claim_name("default", "7f3ka"), len(build_claim_name("p" * 80, "7f3ka"))
    ('default-7f3ka', 63)
    """
    return f"{pool[: 62 - len(suffix)]}-{suffix}"


def _format_deadline(deadline: datetime | None) -> str:
    return f"; it is given up if that has not happened by {format_timestamp(deadline)}" if deadline else ""

"""A NodePool: what nodes may be made, of which class, how many, and when they go. A Provisioner reads into the same
value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from joiner import names
from joiner.cluster import Requirements, Resources, Taint
from joiner.pools.conditions import Conditions
from joiner.pools.kubelet_configuration import KubeletConfiguration

PoolKind = Literal["NodePool", "Provisioner"]
ClassKind = Literal["EC2NodeClass", "AWSNodeTemplate", "Inline"]
ConsolidationPolicy = Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]

API_VERSION: Mapping[PoolKind, str] = {"NodePool": "karpenter.sh/v1", "Provisioner": "karpenter.sh/v1alpha5"}
CLASS_GROUP = "karpenter.k8s.aws"


@dataclass(frozen=True, slots=True)
class NodeClassRef:
    """Which class a pool's nodes have. ``key`` tells apart classes of one name and different kinds.

    >>> NodeClassRef("AWSNodeTemplate", "default").key
    'AWSNodeTemplate/default'
    """

    kind: ClassKind
    name: str
    group: str = CLASS_GROUP

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many nodes may be disrupted at once: ``nodes`` is a number or a percentage; schedule (cron, UTC) and duration
    (s) go together.
    """

    nodes: str = "10%"
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class Disruption:
    """When nodes may go by themselves; ``consolidate_after`` in seconds, None = never."""

    policy: ConsolidationPolicy = "WhenEmptyOrUnderutilized"
    consolidate_after: int | None = 0
    budgets: tuple[DisruptionBudget, ...] = (DisruptionBudget(),)


@dataclass(frozen=True, slots=True)
class NodePool:
    """One pool. ``limits`` holds only what is limited (and perhaps the pseudo-resource ``nodes``); ``used`` is its
    status.resources.

    ``min_values`` is, by label key, among how many values the fleet must be able to choose for every node. ``kubelet``
    is set where the pool itself says it (a Provisioner's kubeletConfiguration) and then replaces the class's. Times in
    seconds; None = never (``expire_after``), without limit (``termination_grace_period``).
    """

    name: str
    class_ref: NodeClassRef
    kind: PoolKind = "NodePool"
    weight: int = 0
    requirements: Requirements = field(default_factory=Requirements)
    min_values: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources = field(default_factory=Resources)
    used: Resources = field(default_factory=Resources)
    kubelet: KubeletConfiguration | None = None
    disruption: Disruption = field(default_factory=Disruption)
    expire_after: int | None = 720 * 3600
    termination_grace_period: int | None = None
    replicas: int | None = None
    own_annotations: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deleting: bool = False
    conditions: Conditions = field(default_factory=Conditions)

    @property
    def key(self) -> str:
        """Unique over both kinds: ``NodePool/default`` and ``Provisioner/default`` may stand side by side."""
        return f"{self.kind}/{self.name}"

    @property
    def api_version(self) -> str:
        return API_VERSION[self.kind]

    @property
    def legacy(self) -> bool:
        return self.kind == "Provisioner"

    @property
    def own_label(self) -> dict[str, str]:
        """The label by which its nodes are known."""
        return {names.PROVISIONER if self.legacy else names.NODEPOOL: self.name}

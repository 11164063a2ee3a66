"""A NodePool: the nodes that may be launched, their class, their limits and their disruption.

A Provisioner becomes the same value.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from joiner import names
from joiner.cluster import Node, Requirements, Resources, Taint
from joiner.cluster.requirements import RENAMED
from joiner.pools.conditions import Conditions
from joiner.pools.consolidation_limits import ConsolidationLimits
from joiner.pools.disruption_settings import DisruptionSettings
from joiner.pools.kubelet_configuration import KubeletConfiguration
from joiner.pools.pool_planning import PoolPlanning

PoolKind = Literal["NodePool", "Provisioner"]
ClassKind = Literal["EC2NodeClass", "AWSNodeTemplate", "Inline"]
ConsolidationPolicy = Literal["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"]

API_VERSION: Mapping[PoolKind, str] = {"NodePool": "karpenter.sh/v1", "Provisioner": "karpenter.sh/v1alpha5"}
CLASS_GROUP = "karpenter.k8s.aws"


@dataclass(frozen=True, slots=True)
class NodeClassRef:
    """The class of a pool's nodes. ``key`` differs for classes of the same name and different kinds.

    >>> NodeClassRef("AWSNodeTemplate", "default").key
    'AWSNodeTemplate/default'
    """

    kind: ClassKind
    name: str
    group: str = CLASS_GROUP

    @property
    def key(self) -> str:
        """Return a key that is unique over both kinds, such as ``EC2NodeClass/default``."""
        return f"{self.kind}/{self.name}"

    @property
    def described(self) -> str:
        """Return the class as reasons name it.

        >>> NodeClassRef("EC2NodeClass", "default").described, NodeClassRef("Inline", "default").described
        ('class EC2NodeClass/default', 'inline class (spec.provider)')
        """
        return "inline class (spec.provider)" if self.kind == "Inline" else f"class {self.key}"


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """How many nodes may be disrupted at the same time.

    ``nodes`` is a number or a percentage. Schedule (cron, in the pool's time zone) and duration (s) must be set
    together.
    """

    nodes: str = "10%"
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    duration: int | None = None


@dataclass(frozen=True, slots=True)
class Disruption:
    """When nodes may be disrupted; ``consolidate_after`` in seconds, None = never."""

    policy: ConsolidationPolicy = "WhenEmptyOrUnderutilized"
    consolidate_after: int | None = 0
    budgets: tuple[DisruptionBudget, ...] = (DisruptionBudget(),)
    limits: ConsolidationLimits = field(default_factory=ConsolidationLimits)
    settings: DisruptionSettings = field(default_factory=DisruptionSettings)


@dataclass(frozen=True, slots=True)
class NodePool:
    """One pool.

    ``labels`` are the labels of its template that only the pool decides. Those that the instance decides, such as the
    architecture or the zone, are ``instance_labels``. Each of these is one of the ``requirements``, too, as in
    Karpenter.

    ``limits`` contains only limited resources (and optionally the pseudo-resource ``nodes``); ``used`` is its
    status.resources. ``min_values``: label key -> the minimum number of values among which the fleet must be able to
    choose for every node. ``kubelet`` is set if the pool itself has it (a Provisioner's kubeletConfiguration), and then
    replaces that of the class. Times are in seconds; None means never (``expire_after``) or without limit
    (``termination_grace_period``).

    ``claim`` is set for the pool that stands for one standalone claim (``standalone_claims``): its key, which is then
    the key of the pool. ``requests`` are what the node of the claim must hold. ``name`` is empty if the claim has no
    pool.
    """

    name: str
    class_ref: NodeClassRef
    _: KW_ONLY
    kind: PoolKind = "NodePool"
    weight: int = 0
    requirements: Requirements = field(default_factory=Requirements)
    min_values: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    instance_labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources = field(default_factory=Resources)
    used: Resources = field(default_factory=Resources)
    kubelet: KubeletConfiguration | None = None
    disruption: Disruption = field(default_factory=Disruption)
    planning: PoolPlanning = field(default_factory=PoolPlanning)
    expire_after: int | None = 720 * 3600
    termination_grace_period: int | None = None
    replicas: int | None = None
    own_annotations: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deleting: bool = False
    conditions: Conditions = field(default_factory=Conditions)
    claim: str = ""
    requests: Resources = field(default_factory=Resources)

    @property
    def key(self) -> str:
        """Return a key that is unique over both kinds.

        ``NodePool/default`` and ``Provisioner/default`` may both exist.
        """
        return self.claim or f"{self.kind}/{self.name}"

    @property
    def api_version(self) -> str:
        """Return the API version of its kind."""
        return API_VERSION[self.kind]

    @property
    def legacy(self) -> bool:
        """Return whether it is a Provisioner."""
        return self.kind == "Provisioner"

    @property
    def node_path(self) -> str:
        """Return the path of the fields that describe its nodes, in the manifest of the pool or of its claim."""
        return "spec" if self.legacy or self.claim else "spec.template.spec"

    @property
    def labels_path(self) -> str:
        """Return the path of the labels of its nodes, in the manifest of the pool or of its claim."""
        if self.claim:
            return "metadata.labels"
        return "spec.labels" if self.legacy else "spec.template.metadata.labels"

    def requirement_field(self, key: str) -> str:
        """Return the path of the field that limits a label of its nodes: a label of the template, or its requirements.

        >>> labels = {"beta.kubernetes.io/arch": "arm64"}
        >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), instance_labels=labels)
        >>> pool.requirement_field("kubernetes.io/arch")
        'spec.template.metadata.labels[beta.kubernetes.io/arch]'
        >>> pool.requirement_field("team")
        'spec.template.spec.requirements[team]'
        """
        declared = next((one for one in self.instance_labels if RENAMED.get(one, one) == key), "")
        return f"{self.labels_path}[{declared}]" if declared else f"{self.node_path}.requirements[{key}]"

    def describe_requirement(self, key: str) -> str:
        """Return what its nodes must have, as reasons name it; a label of its template is named as one.

        >>> arm = Requirements.from_labels({"kubernetes.io/arch": "arm64"})
        >>> pool = NodePool("web", NodeClassRef("EC2NodeClass", "default"), requirements=arm)
        >>> pool.describe_requirement("kubernetes.io/arch")
        'kubernetes.io/arch In [arm64]'
        >>> labels = {"kubernetes.io/arch": "arm64"}
        >>> labelled = NodePool("web", pool.class_ref, requirements=arm, instance_labels=labels)
        >>> labelled.describe_requirement("kubernetes.io/arch")
        'kubernetes.io/arch In [arm64] (spec.template.metadata.labels)'
        """
        of_label = self.requirement_field(key).startswith(self.labels_path)
        return f"{key} {self.requirements.on(key)}{f' ({self.labels_path})' if of_label else ''}"

    @property
    def class_field(self) -> str:
        """Return the path of the field that names its node class, in the manifest of the pool or of its claim."""
        if self.claim:
            return "spec.machineTemplateRef" if self.legacy else "spec.nodeClassRef"
        if self.class_ref.kind == "Inline":
            return "spec.provider"
        return "spec.providerRef" if self.legacy else "spec.template.spec.nodeClassRef"

    @property
    def class_value(self) -> str:
        """Return the class as problems show it; empty for an inline class, which is a part of the pool."""
        return "" if self.class_ref.kind == "Inline" else self.class_ref.key

    @property
    def own_label(self) -> dict[str, str]:
        """Return the label that identifies the pool's nodes; none without a name."""
        if not self.name:
            return {}
        return {names.PROVISIONER if self.legacy else names.NODEPOOL: self.name}


def pool_key_of(node: Node) -> str:
    """Return the node's pool as `NodePool.key`, from its labels; empty for a node of no pool."""
    if names.PROVISIONER in node.labels:
        return f"Provisioner/{node.labels[names.PROVISIONER]}"
    return f"NodePool/{node.labels[names.NODEPOOL]}" if names.NODEPOOL in node.labels else ""

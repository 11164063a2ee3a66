"""The survey of the cluster and of EC2, and the types of its checks.

The cluster is read first, then EC2: an object created in between is on one side only, and looks like an orphan. So no
case that follows from an *absence* is acted on before a second survey confirms it (`joiner.lifecycle.orphans`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from joiner.lifecycle.interruptions import ENDING_STATES

Action = Literal["retire", "collect", "rebuild"]


@dataclass(frozen=True, slots=True)
class SeenClaim:
    """A claim as the survey of the cluster stored it.

    `pool` is the key of its pool. `blocked`: its status gives a reason that keeps its node. `drained_by`: the end of
    the drain that the claim allows. `released`: only finalizers of other controllers keep the deleted claim. `created`
    is its creation in epoch seconds, 0 for unknown.
    """

    name: str
    kind: str
    provider_id: str = ""
    registered: bool = False
    deleting: bool = False
    blocked: bool = False
    drained_by: int = 0
    pool: str = ""
    released: bool = False
    created: int = 0

    @property
    def instance(self) -> str:
        """Return the id of its instance; empty until it is launched."""
        return self.provider_id.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """An instance of this cluster in any state, as EC2 shows it; `launch` is the tag of the launch that created it."""

    id: str
    state: str
    launch: str = ""

    @property
    def gone(self) -> bool:
        """Return whether the instance runs nothing any more, or soon will not."""
        return self.state in ENDING_STATES


@dataclass(frozen=True, slots=True)
class InstanceSurvey:
    """One survey. `nodes` are node names by instance id, `ours` the nodes among them with Joiner's finalizer,
    `instances` all instances of this cluster by id, `unrecorded` the launches whose outcome is not on their claims yet,
    and `pairings` the claims that instances were launched for.
    """

    claims: tuple[SeenClaim, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, SeenInstance] = field(default_factory=dict)
    unrecorded: frozenset[str] = frozenset()
    pairings: Mapping[str, str] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between the cluster and EC2, and the action that corrects it.

    `absent` names what was not found, if the case follows only from that absence; it is empty if EC2 reports that an
    instance is gone.
    """

    action: Action
    message: str
    claim: str = ""
    instance: str = ""
    node: str = ""
    reason: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class InstanceCheck:
    """One check for differences between the cluster and EC2."""

    name: str
    find: Callable[[InstanceSurvey], list[Mismatch]]

"""What a sweep saw on both sides, the cluster's and EC2's, and what a check of the two finds.

The cluster was read first, EC2 after it: what was made in between is on one side only, and looks like an orphan. So
nothing that follows from something being *absent* is believed at the first look (`joiner.lifecycle.orphans`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Action = Literal["retire", "collect", "rebuild"]

GONE = frozenset({"stopping", "stopped", "shutting-down", "terminated"})


@dataclass(frozen=True, slots=True)
class SeenClaim:
    """A claim as the survey of the cluster noted it: `blocked` if it says what keeps its node, `drained_by` until when
    that counts.
    """

    name: str
    kind: str
    provider_id: str = ""
    registered: bool = False
    deleting: bool = False
    blocked: bool = False
    drained_by: int = 0

    @property
    def instance(self) -> str:
        """Its instance's id; empty until it is launched."""
        return self.provider_id.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class SeenInstance:
    """An instance of ours as EC2 shows it, in whatever state; `launch` is the tag of the launch that asked for it."""

    id: str
    state: str
    launch: str = ""

    @property
    def gone(self) -> bool:
        """Does it run nothing any more, or will it in a moment?"""
        return self.state in GONE


@dataclass(frozen=True, slots=True)
class InstanceSurvey:
    """One look. `nodes` are names of nodes by instance id, `ours` those of them that our finalizer holds, `instances`
    all of ours by id, `unrecorded` the launches whose outcome is not on their claims yet, and `pairings` says which
    claim an instance was launched for.
    """

    claims: tuple[SeenClaim, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    instances: Mapping[str, SeenInstance] = field(default_factory=dict)
    unrecorded: frozenset[str] = frozenset()
    pairings: Mapping[str, str] = field(default_factory=dict)
    ours: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Something that does not fit together, and what would put it right.

    `absent` names what was not found, if the case follows from that alone; it is empty where EC2 itself says that an
    instance is gone.
    """

    action: Action
    said: str
    claim: str = ""
    instance: str = ""
    node: str = ""
    reason: str = ""
    absent: str = ""


@dataclass(frozen=True, slots=True)
class InstanceCheck:
    """One way in which the two sides may not fit together."""

    name: str
    look: Callable[[InstanceSurvey], list[Mismatch]]

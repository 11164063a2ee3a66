"""What AWS answers to the queries of a node class."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from joiner.launching.block_devices import EbsDefaults

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeClassAnswers:
    """All answers to the queries of ``build_queries``.

    ``profile_roles`` maps each requested instance profile that exists to its role names. ``asked_at`` (RFC 3339, UTC)
    decides which images are deprecated; if it is empty, none are. ``group_zones`` are the zones of the instances in the
    placement group. ``parameter_images`` describes the images of
    ``parameters`` if the class has its own volumes. ``ebs_defaults`` is None if they could not be read.
    """

    subnets: Sequence[Answer] = ()
    security_groups: Sequence[Answer] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    images: Sequence[Answer] = ()
    profile_roles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asked_at: str = ""
    parameter_images: Sequence[Answer] = ()
    snapshots: Sequence[Answer] = ()
    ebs_defaults: EbsDefaults | None = None
    reservations: Sequence[Answer] = ()
    placement_groups: Sequence[Answer] = ()
    group_zones: Sequence[str] = ()

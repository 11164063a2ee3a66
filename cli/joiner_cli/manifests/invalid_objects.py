"""Invalid objects as far as they could be read, so that their other mistakes are reported, too."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joiner.pools import NodePool
from joiner.pools.codecs.declared_objects import POOL_READERS
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner_cli.manifests.manifest_kinds import WORKLOADS
from joiner_cli.manifests.validation.independent_errors import pod_spec_path
from joiner_cli.manifests.workload_replicas import PendingSpec

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class InvalidObject:
    """An object of this ``kind`` that is left out. ``manifest`` is what its schema allows of it, and ``doubts`` are
    the fields that could not be read."""

    kind: str
    subject: str
    manifest: Manifest
    doubts: tuple[str, ...] = ()

    @property
    def pool(self) -> NodePool | None:
        """Return the pool without the fields that are invalid; None for another kind."""
        reader = POOL_READERS.get(self.kind)
        return reader({**self.manifest, "status": None}, ManifestProblems(self.subject)) if reader else None

    @property
    def pending(self) -> PendingSpec | None:
        """Return the spec of its pods; None for a kind without pending pods."""
        if self.kind != "Pod" and self.kind not in WORKLOADS:
            return None
        path = pod_spec_path(f"v1/{self.kind}")
        spec: Any = self.manifest
        for name in path.split("."):
            spec = spec.get(name) if isinstance(spec, Mapping) else None
        return PendingSpec(self.subject, path, spec) if isinstance(spec, Mapping) and not spec.get("nodeName") else None


def list_invalid_pools(by_kind: Mapping[str, Sequence[Manifest]], broken: Collection[str]) -> Iterator[InvalidObject]:
    """Yield the pools that their schemas accept, and that have other errors."""
    for kind in POOL_READERS:
        for one in by_kind.get(kind, ()):
            if (subject := f"{kind}/{one['metadata'].get('name', '')}") in broken:
                yield InvalidObject(kind, subject, one)

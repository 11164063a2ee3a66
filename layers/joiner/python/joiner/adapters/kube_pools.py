"""List pools, and write their usage to their status."""

from collections.abc import Iterable
from typing import Any

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.parallel_calls import call_each
from joiner.lifecycle.pool_usage import usage_patches
from joiner.pools import NodeClaim, NodePool, read_manifests


def write_usage(kube: Kube, claims: Iterable[NodeClaim], pools: Iterable[NodePool] | None = None) -> list[str]:
    """Update ``status.resources`` of the pools; return what could not be written. Only a number is then old."""
    known = list(pools) if pools is not None else list_pools(kube)

    def write(patch: tuple[kinds.Kind, str, dict[str, Any]]) -> None:
        kind, name, changes = patch
        kube.patch(kind, name, changes, subresource="status")

    patches = [
        (kinds.PROVISIONERS if pool.legacy else kinds.NODEPOOLS, pool.name, changes)
        for pool, changes in usage_patches(known, claims)
    ]
    answers = call_each(patches, write, KubeError)
    return [f"{kind.kind}/{name}: {answer}" for (kind, name, _), answer in answers if isinstance(answer, KubeError)]


def list_pools(kube: Kube) -> tuple[NodePool, ...]:
    """Return all pools that can be read."""
    return read_manifests(
        {"kind": kind.kind, "apiVersion": kind.api_version, **one} for kind in kinds.POOLS for one in kube.list(kind)
    ).pools

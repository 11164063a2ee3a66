"""Record what a plan has for CapacityBuffers: the nodes that they need, their status, and their events."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from functions.record_node_claims.claim_writer import ClaimIntent
from joiner.adapters.documents import KeptSnapshot
from joiner.adapters.kube import Kube
from joiner.adapters.kube_errors import KubeError
from joiner.adapters.kube_kinds import ALPHA_CAPACITY_BUFFERS, CAPACITY_BUFFERS
from joiner.adapters.parallel_calls import call_each
from joiner.planning import Plan
from joiner.planning.inputs.capacity_buffers import ResolvedBuffer, resolve_buffers
from joiner.planning.model.pending_pods import nodes_of_claims
from joiner.reporting.buffer_status import (
    BufferPlacement,
    buffer_status,
    changed_status,
    find_buffered_claims,
    place_buffer,
    report_buffer,
)
from joiner.reporting.events import Event

logger = Logger(child=True)

Manifest = Mapping[str, Any]
PlacedBuffer = tuple[Manifest, ResolvedBuffer, BufferPlacement]


def place_buffers(kept: KeptSnapshot, plan: Plan) -> list[PlacedBuffer]:
    """Return each buffer of the snapshot with its virtual pods, and where the plan puts them."""
    resolved = {(one.namespace, one.name): one for one in resolve_buffers(kept.lists)}
    found = []
    for manifest in kept.lists.get("capacitybuffers", ()):
        metadata = manifest["metadata"]
        buffer = resolved.get((metadata.get("namespace") or "default", metadata["name"]))
        if buffer is not None:
            found.append((manifest, buffer, place_buffer(buffer, plan)))
    return found


def list_buffered_claims(kept: KeptSnapshot, plan: Plan, wanted: Sequence[ClaimIntent]) -> frozenset[str]:
    """Return the names of the claims, present and future, whose nodes have capacity for a buffer."""
    names = {claim.key: claim.name for claim in kept.world.claims}
    joined = {node.name: names[key] for key, node in nodes_of_claims(kept.world).items()}
    return find_buffered_claims(plan, {intent.node.name: intent.claim.name for intent in wanted}, joined)


def write_buffer_statuses(kube: Kube, buffers: Sequence[PlacedBuffer], at: datetime) -> None:
    """Write the status of the buffers; the next plan retries a failed write."""
    patches = [
        (manifest, changes)
        for manifest, buffer, placement in buffers
        if (changes := changed_status(manifest, buffer_status(manifest, buffer, placement, at)))
    ]

    def write(patch: tuple[Manifest, Manifest]) -> None:
        manifest, changes = patch
        alpha = manifest.get("apiVersion") == ALPHA_CAPACITY_BUFFERS.api_version
        metadata = manifest["metadata"]
        kube.patch(
            ALPHA_CAPACITY_BUFFERS if alpha else CAPACITY_BUFFERS,
            metadata["name"],
            dict(changes),
            namespace=metadata.get("namespace") or "default",
            subresource="status",
        )

    for (manifest, _), answer in call_each(patches, write, KubeError):
        if isinstance(answer, KubeError):
            named = f"CapacityBuffer/{manifest['metadata'].get('namespace')}/{manifest['metadata']['name']}"
            logger.warning("a status could not be written", object=named, reason=str(answer))


def report_buffers(buffers: Sequence[PlacedBuffer]) -> list[Event]:
    """Return the events of the buffers."""
    return [event for manifest, buffer, placement in buffers for event in report_buffer(manifest, buffer, placement)]

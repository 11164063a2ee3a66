"""The document that the survey of the cluster leaves for the survey of the instances."""

from collections.abc import Mapping, Sequence
from typing import Any

from joiner.adapters.documents import KeptSurvey
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.lifecycle.checks.instance_survey import SeenClaim
from joiner.lifecycle.retirement_back_off import drained_by, is_blocked
from joiner.names import OURS, TERMINATION_FINALIZER


def build_survey_document(survey: ClusterSurvey, manifests: Sequence[Mapping[str, Any]]) -> KeptSurvey:
    """Return the document for the survey of the instances.

    It includes nodes that cannot be read: a node that is missing in it must not exist.
    """
    by_instance = {
        str((each.get("spec") or {}).get("providerID") or "").rpartition("/")[2]: each["metadata"] for each in manifests
    }
    nodes = {instance: metadata for instance, metadata in by_instance.items() if instance}
    return KeptSurvey(
        at=survey.at,
        claims=_seen(survey),
        nodes={instance: str(metadata["name"]) for instance, metadata in nodes.items()},
        ours=tuple(instance for instance, metadata in nodes.items() if _is_held(metadata)),
    )


def _is_held(metadata: Mapping[str, Any]) -> bool:
    """Return whether it is one of Joiner's nodes with Joiner's finalizer."""
    labels = metadata.get("labels") or {}
    return TERMINATION_FINALIZER in (metadata.get("finalizers") or ()) and any(key in labels for key in OURS)


def _seen(survey: ClusterSurvey) -> tuple[SeenClaim, ...]:
    return tuple(
        SeenClaim(
            name=claim.name,
            kind=claim.kind,
            provider_id=claim.provider_id,
            registered=claim.registered,
            deleting=claim.deleting,
            blocked=is_blocked(claim),
            drained_by=drained_by(claim),
            pool=claim.pool_key,
            released=claim.released,
            created=int(claim.created.timestamp()) if claim.created is not None else 0,
        )
        for claim in survey.claims
    )

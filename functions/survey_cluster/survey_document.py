"""The document that the survey of the cluster leaves for the survey of the instances."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.adapters.documents import KeptSurvey
from joiner.lifecycle.checks import ClusterSurvey, SeenClaim
from joiner.lifecycle.retirement_back_off import drained_by, is_blocked
from joiner.names import NODEPOOL, PROVISIONER, TERMINATION_FINALIZER

OF_A_POOL: Final = frozenset({NODEPOOL, PROVISIONER})


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
    """Return whether it is a node of a pool with Joiner's finalizer."""
    return TERMINATION_FINALIZER in (metadata.get("finalizers") or ()) and bool(
        OF_A_POOL & set(metadata.get("labels") or ())
    )


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
        )
        for claim in survey.claims
    )

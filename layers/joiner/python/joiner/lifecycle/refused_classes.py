"""Hold back a node class whose launches EC2 refuses, as long as nothing changes on which the refusal may depend."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Final

from joiner.lifecycle.class_verdicts import ClassVerdict
from joiner.pools import NodeClass, NodeClassProblem, NodePool, ResolvedNodeClass
from joiner.pools.drift_hashes import hash_class

CONDITION: Final = "ValidationSucceeded"
SOME_REFUSED: Final = "SomeLaunchesRefused"
UNCERTAIN: Final = (
    "all launches that were tried are refused, other instance types or zones may be allowed, so the class stays ready"
)


def digest_class(node_class: NodeClass, resolved: ResolvedNodeClass, pools: Iterable[NodePool]) -> str:
    """Return the digest of all that decides whether EC2 allows the launches of a class: the class, what it resolved to,
    and which instance types its ``pools`` may have. Free addresses and instances, which change often, are no part."""
    template, group = resolved.launch_template, resolved.placement_group
    parts = [
        hash_class(node_class),
        sorted(each.id for each in resolved.subnets),
        sorted(each.id for each in resolved.security_groups),
        [each.id for each in resolved.images],
        resolved.instance_profile,
        [template.id, template.version] if template else [],
        group.id if group else "",
        sorted([each.key, json.dumps(each.requirements.to_kube(), sort_keys=True)] for each in pools),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]


def hold_refused_class(
    resolved: ResolvedNodeClass,
    node_class: NodeClass,
    pools: Iterable[NodePool],
    verdicts: Mapping[str, ClassVerdict],
    now: int,
) -> ResolvedNodeClass:
    """Return the class with the refusals of its launches when they were last tried (`verdicts`, by class): not ready if
    one is certain.

    `now` is in epoch seconds.
    """
    verdict = verdicts.get(resolved.key)
    if verdict is None or not verdict.refusals or not verdict.holds(digest_class(node_class, resolved, pools), now):
        return resolved
    return resolved.with_problems(
        NodeClassProblem(CONDITION, each.reason, each.explanation)
        if each.certain
        else NodeClassProblem(CONDITION, SOME_REFUSED, f"{UNCERTAIN}: {each.explanation}", "warning")
        for each in verdict.refusals
    )

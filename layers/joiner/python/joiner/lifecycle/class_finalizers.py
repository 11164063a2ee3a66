"""Which node classes must stay until their claims are gone, and which may be deleted.

A class that launches nodes has Joiner's finalizer, as in Karpenter. If the class is deleted, it stays until the last
claim that names it is gone: user data, images and tags of a running node can still be looked up, and a person sees
which claims use it. A class that is being deleted launches nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner.names import CLASS_FINALIZER
from joiner.pools import NodeClaim

Manifest = Mapping[str, Any]

CLAIMS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class FinalizerChange:
    """A change of the finalizer of one class: it is added if `added`, and else removed."""

    kind: str
    name: str
    added: bool


def find_finalizer_changes(classes: Iterable[Manifest], claims: Iterable[NodeClaim]) -> list[FinalizerChange]:
    """Return the changes that are due: the finalizer for classes with claims, and none for deleted ones without.

    >>> from joiner.pools import NodeClassRef
    >>> web = NodeClaim("web-1", class_ref=NodeClassRef("EC2NodeClass", "default"))
    >>> find_finalizer_changes([{"kind": "EC2NodeClass", "metadata": {"name": "default"}}], [web])
    [FinalizerChange(kind='EC2NodeClass', name='default', added=True)]
    """
    used = {claim.class_ref.key for claim in claims}
    found = []
    for manifest in classes:
        kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
        in_use, deleting = f"{kind}/{name}" in used, bool(manifest["metadata"].get("deletionTimestamp"))
        held = CLASS_FINALIZER in (manifest["metadata"].get("finalizers") or ())
        if held and deleting and not in_use:
            found.append(FinalizerChange(kind, name, added=False))
        elif in_use and not held and not deleting:
            found.append(FinalizerChange(kind, name, added=True))
    return found


def change_finalizer(manifest: Manifest, *, added: bool) -> Manifest | None:
    """Return the merge patch that adds Joiner's finalizer to a class, or removes it unless `added`; None if nothing has
    to change.
    """
    metadata = manifest["metadata"]
    present = list(metadata.get("finalizers") or ())
    if added == (CLASS_FINALIZER in present) or (added and metadata.get("deletionTimestamp")):
        return None
    after = [*present, CLASS_FINALIZER] if added else [each for each in present if each != CLASS_FINALIZER]
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": after or None}}


def describe_holders(key: str, claims: Iterable[NodeClaim]) -> str:
    """Return the sentence that names the claims of a class that is being deleted; empty without claims.

    >>> from joiner.pools import NodeClassRef
    >>> ref = NodeClassRef("EC2NodeClass", "default")
    >>> describe_holders(ref.key, [NodeClaim(f"web-{number}", class_ref=ref) for number in range(7)])
    'it is being deleted and stays until its 7 claims are gone: NodeClaim/web-0, NodeClaim/web-1, NodeClaim/web-2, \
NodeClaim/web-3, NodeClaim/web-4 and 2 more. Until then its pools launch nothing: name another class in them, and \
delete the claims'
    """
    names = sorted(claim.key for claim in claims if claim.class_ref.key == key)
    if not names:
        return ""
    more = f" and {len(names) - CLAIMS_SHOWN} more" if len(names) > CLAIMS_SHOWN else ""
    number = f"{len(names)} claims are" if len(names) > 1 else "claim is"
    return (
        f"it is being deleted and stays until its {number} gone: {', '.join(names[:CLAIMS_SHOWN])}{more}. Until then "
        "its pools launch nothing: name another class in them, and delete the claims"
    )

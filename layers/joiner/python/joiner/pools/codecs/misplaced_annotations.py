"""Finds annotations of Joiner and Karpenter that have no effect where they are: misspelt, on an object that does not
read them, with a value that means nothing, or written as a label.

>>> notes = ManifestProblems("EC2NodeClass/default")
>>> note_annotations({"joiner.dev/drift": "detect", "team": "a"}, notes, "metadata.annotations", CLASS)
>>> print(notes.problems[0].message)
metadata.annotations[joiner.dev/drift] is detect: it has no effect here: it is an annotation of a pool
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from joiner import names
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.disruption_protection import is_meaningless
from joiner.pools.invalid_manifests import InvalidManifest
from joiner.pools.node_claim import NodeClaim
from joiner.pools.node_pool import NodePool
from joiner.pools.suggestions import suggest_nearest
from joiner.pools.timestamps import parse_timestamp

POOL, TEMPLATE, CLASS, CLAIM = "a pool", "the template of a pool", "a node class", "a NodeClaim or Machine"
BUFFER, POD, WORKLOAD, NODE = "a CapacityBuffer", "a pod", "a workload", "a node"
OF_CLAIMS: Final = (names.LEASE, names.EXECUTION, names.GENERATIONS, names.LAUNCH, names.PRICE)
READ_BY: Final[Mapping[str, tuple[str, ...]]] = {
    POOL: names.POOL_ANNOTATIONS,
    TEMPLATE: (names.PLACING,),
    CLASS: (),
    CLAIM: (*OF_CLAIMS, names.TERMINATION_TIMESTAMP),
    BUFFER: (names.SCHEDULE,),
    POD: (names.DRAIN,),
    WORKLOAD: (),
    NODE: (*OF_CLAIMS, names.PLACING),
}
"""Kind of object -> the annotations that it reads, besides those against disruption. A node has copies of those of its
claim, and the claim of a scale-up has copies of those of the pool's template."""
NOT_OF_USERS: Final = (CLAIM, NODE)
"""Kinds on which users write no annotation of Joiner."""
PROTECTING: Final[Mapping[str, tuple[str, ...]]] = {
    TEMPLATE: (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE),
    CLAIM: (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE),
    NODE: (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE),
    POD: (names.DO_NOT_DISRUPT, names.DO_NOT_EVICT),
}
"""Kind of object -> the annotations of Karpenter against disruption that it reads."""
PROTECTIONS: Final = (names.DO_NOT_DISRUPT, names.DO_NOT_CONSOLIDATE, names.DO_NOT_EVICT)
OF_KINDS: Final[Mapping[str, str]] = {
    "NodePool": POOL,
    "Provisioner": POOL,
    "EC2NodeClass": CLASS,
    "AWSNodeTemplate": CLASS,
    "NodeClaim": CLAIM,
    "Machine": CLAIM,
}
OWN_LABELS: Final = (names.PLACED, names.SHARD, names.LEAVING)
PLACING_VALUES: Final = ("bind", "schedule")
SWITCH: Final = ("true", "false")
MOST_OF_A_POOL: Final = 2
"""The number of claims, and of nodes, of a pool on which the same mistake is reported: most come from the pool."""


def note_misplaced(manifest: Mapping[str, Any], notes: ManifestProblems) -> None:
    """Note the annotations and labels without effect of one of Joiner's objects. Those of a claim of a scale-up depend
    on its pool (`find_claim_mistakes`).
    """
    kind = str(manifest.get("kind"))
    metadata = manifest.get("metadata")
    if kind not in OF_KINDS or not isinstance(metadata, Mapping) or names.LEASE in _entries(metadata, "annotations"):
        return
    note_annotations(_entries(metadata, "annotations"), notes, "metadata.annotations", OF_KINDS[kind])
    if OF_KINDS[kind] != CLAIM:  # the labels of a claim are those of its node, which have rules of their own
        note_labels(_entries(metadata, "labels"), notes, "metadata.labels")
    spec = manifest.get("spec")
    if OF_KINDS[kind] == POOL and isinstance(spec, Mapping):
        within, path = (spec, "spec") if kind == "Provisioner" else (spec.get("template"), "spec.template.metadata")
        template = within if kind == "Provisioner" else within.get("metadata") if isinstance(within, Mapping) else None
        if isinstance(template, Mapping):
            note_annotations(_entries(template, "annotations"), notes, f"{path}.annotations", TEMPLATE)


def note_node(annotations: Mapping[str, Any], labels: Mapping[str, Any], notes: ManifestProblems) -> None:
    """Note the annotations and labels without effect of a Node. Nodes without a label of Joiner are not disrupted by
    it, so that nothing on them concerns it.

    >>> notes = ManifestProblems("Node/web-1")
    >>> note_node({"karpenter.sh/do-not-disrupt": "yes"}, {"karpenter.sh/nodepool": "web"}, notes)
    >>> print(notes.problems[0])
    Node/web-1: metadata.annotations[karpenter.sh/do-not-disrupt] is yes: it has no effect; write "true"
    """
    if not any(key in labels for key in names.OURS):
        return
    note_annotations(annotations, notes, "metadata.annotations", NODE)
    note_labels(labels, notes, "metadata.labels")
    synced = labels.get(names.DO_NOT_SYNC_TAINTS)
    if synced is not None and synced not in SWITCH:
        notes.note(f"metadata.labels[{names.DO_NOT_SYNC_TAINTS}]", synced, 'it has no effect; write "true"', "warning")


def find_claim_mistakes(claims: Iterable[NodeClaim], pools: Iterable[NodePool]) -> Iterator[InvalidManifest]:
    """Yield a warning for each annotation without effect of claims of a scale-up that the template of their pool does
    not have; of each mistake, the first claims of a pool have it.

    Claims keep what the template had before a change. The claims of a pool that is gone or cannot be read have none:
    its template is not known.
    """
    templates = {pool.key: pool.annotations for pool in pools}
    known = Counter[tuple[str, str]]()
    for claim in sorted(claims, key=lambda one: one.key):
        if names.LEASE not in claim.annotations or claim.pool_key not in templates:
            continue
        template, notes = templates[claim.pool_key], ManifestProblems(claim.key)
        added = {key: value for key, value in claim.annotations.items() if template.get(key) != value}
        added.pop(names.PLACING, None)
        note_annotations(added, notes, "metadata.annotations", CLAIM)
        for problem in notes.problems:
            known[claim.pool_key, problem.message] += 1
            if known[claim.pool_key, problem.message] <= MOST_OF_A_POOL:
                yield problem


def note_annotations(annotations: Mapping[str, Any], notes: ManifestProblems, path: str, scope: str) -> None:
    """Note the annotations without effect on an object of the kind ``scope``."""
    for key, value in sorted(annotations.items()):
        if remedy := _find_remedy(str(key), value, scope):
            notes.note(f"{path}[{key}]", value, f"it has no effect{remedy}", "warning")


def note_labels(labels: Mapping[str, Any], notes: ManifestProblems, path: str) -> None:
    """Note the labels that are meant as annotations."""
    for key, value in sorted(labels.items()):
        if (str(key).startswith(names.PREFIX) and key not in OWN_LABELS) or key in PROTECTIONS:
            notes.note(f"{path}[{key}]", value, "it has no effect as a label: write it as an annotation", "warning")


def _find_remedy(key: str, value: Any, scope: str) -> str:
    """Return what is wrong with an annotation, and what to do; empty if it has an effect, or is of another program."""
    if key in PROTECTIONS:
        return _refuse_protection(key, value, scope)
    if key in READ_BY[scope]:
        return _refuse_value(key, value, scope)
    if not key.startswith(names.PREFIX):
        return ""
    if homes := _list_readers(key):
        return f" here: it is an annotation of {homes}"
    if near := suggest_nearest(key, READ_BY[scope]):
        return f": no such annotation is known{near}"
    known = sorted({one for keys in READ_BY.values() for one in keys if _list_readers(one)})
    there = suggest_nearest(key, known)
    homes = next((_list_readers(one) for one in known if f'"{one}"' in there), "")
    listed = there or "; docs/pool-annotations.md lists them"
    return f": no such annotation is known{listed}{f' It is an annotation of {homes}' if homes else ''}"


def _list_readers(key: str) -> str:
    """Return the kinds of objects on which users write an annotation of Joiner; empty if there are none."""
    return " or ".join(home for home, keys in READ_BY.items() if key in keys and home not in NOT_OF_USERS)


def _refuse_value(key: str, value: Any, scope: str) -> str:
    """Return what is wrong with the value of an annotation that only this module validates."""
    if key == names.DRAIN and value != names.BY_ROLLOUT:
        return f"; use {names.BY_ROLLOUT}{suggest_nearest(str(value), (names.BY_ROLLOUT,))}"
    if key == names.TERMINATION_TIMESTAMP and parse_timestamp(str(value)) is None:
        return '; write a time such as "2026-11-21T12:00:00Z"'
    if key == names.PLACING and scope == TEMPLATE and value not in PLACING_VALUES:
        return f"; use {' or '.join(PLACING_VALUES)}{suggest_nearest(str(value), PLACING_VALUES)}"
    return ""


def _refuse_protection(key: str, value: Any, scope: str) -> str:
    """Return what is wrong with an annotation against disruption."""
    if key not in PROTECTING.get(scope, ()):
        homes = {POOL: "template", WORKLOAD: "pod template"}
        place = f"write it in the annotations of its {homes[scope]}" if scope in homes else "remove it"
        return f" on {scope}: {place}"
    if value in SWITCH or not isinstance(value, str):  # a value that is no text is refused elsewhere
        return ""
    if scope == POD and key == names.DO_NOT_DISRUPT:
        return (
            '; write "true", or a duration from the start of the pod such as "1h30m"' if is_meaningless(value) else ""
        )
    return '; write "true"'


def _entries(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, Mapping) else {}

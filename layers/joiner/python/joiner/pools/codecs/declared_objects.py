"""Reads all declared objects at once: pools, classes and claims of both API generations, and the mistakes in them.

>>> misspelt = {"limits": {"resoutces": {"cpu": 1}}}
>>> found = read_manifests([{"kind": "Provisioner", "metadata": {"name": "default"}, "spec": misspelt}])
>>> found.pools, [problem.field for problem in found.problems]
((), ['spec.providerRef', 'spec.limits.resoutces'])
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joiner.pools.codecs.idle_annotations import note_idle_annotations
from joiner.pools.codecs.karpenter_v1 import read_ec2_node_class, read_pool
from joiner.pools.codecs.karpenter_v1alpha5 import read_inline, read_node_template, read_provisioner
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import find_claim_mistakes, note_misplaced
from joiner.pools.codecs.node_claim_manifests import read_node_claim
from joiner.pools.codecs.standalone_claim_problems import find_missing_pools, note_standalone_claim, refuse_namesakes
from joiner.pools.codecs.unsupported_fields import note_unsupported
from joiner.pools.invalid_manifests import InvalidManifest, InvalidManifests
from joiner.pools.node_claim import CLAIM_API_VERSION, NodeClaim
from joiner.pools.node_class import CLASS_API_VERSION, NodeClass
from joiner.pools.node_pool import API_VERSION, NodeClassRef, NodePool
from joiner.pools.suggestions import suggest_nearest

POOL_READERS: Mapping[str, Callable[[Mapping[str, Any], ManifestProblems], NodePool]] = {
    "NodePool": read_pool,
    "Provisioner": read_provisioner,
}
CLASS_READERS: Mapping[str, Callable[[Mapping[str, Any], ManifestProblems], NodeClass]] = {
    "EC2NodeClass": read_ec2_node_class,
    "AWSNodeTemplate": read_node_template,
}


@dataclass(frozen=True, slots=True)
class DeclaredObjects:
    """The valid objects, each sorted by kind and name, and the problems of all objects."""

    pools: tuple[NodePool, ...] = ()
    classes: tuple[NodeClass, ...] = ()
    claims: tuple[NodeClaim, ...] = ()
    problems: tuple[InvalidManifest, ...] = ()

    def class_of(self, ref: NodeClassRef) -> NodeClass | None:
        """Return the class of a reference; None if it is not declared."""
        return next((node_class for node_class in self.classes if node_class.ref == ref), None)


def read_manifests(manifests: Iterable[Mapping[str, Any]]) -> DeclaredObjects:
    """Return the objects of Joiner's kinds; other kinds are ignored. An invalid manifest becomes a problem.

    A claim without an instance is left out, with a problem, if a claim of the other kind has its name.
    """
    pools: list[NodePool] = []
    classes: list[NodeClass] = []
    claims: list[NodeClaim] = []
    problems: list[InvalidManifest] = []
    for manifest in manifests:
        kind, notes = str(manifest.get("kind")), start_problems(manifest)
        if kind in POOL_READERS:
            pool = POOL_READERS[kind](manifest, notes)
            inline = read_inline(manifest, notes) if kind == "Provisioner" else None
            if not notes.errors:
                note_idle_annotations(pool, notes)
                pools.append(pool)
                classes.extend([inline] if inline else [])
        elif kind in CLASS_READERS:
            node_class = CLASS_READERS[kind](manifest, notes)
            if not notes.errors:
                classes.append(node_class)
        elif kind in CLAIM_API_VERSION:
            try:
                claim = read_node_claim(manifest)
                claims.append(claim)
                note_standalone_claim(manifest, claim, notes)
            except InvalidManifests as invalid:
                notes.problems.extend(invalid.problems)
        problems.extend(notes.problems)
    ours, refused = refuse_namesakes(claims)
    problems.extend((*refused, *find_missing_pools(ours, pools), *find_claim_mistakes(ours, pools)))
    problems.extend(find_missing_classes(pools, classes, problems))
    return DeclaredObjects(
        pools=tuple(sorted(pools, key=lambda pool: pool.key)),
        classes=tuple(sorted(classes, key=lambda node_class: node_class.key)),
        claims=tuple(sorted(ours, key=lambda claim: claim.key)),
        problems=tuple(problems),
    )


CORRECT_CLASS: Final = "correct the class; its own problems name the fields"


def find_missing_classes(
    pools: Iterable[NodePool], classes: Iterable[NodeClass], problems: Iterable[InvalidManifest]
) -> Iterable[InvalidManifest]:
    """Yield a problem for each pool whose class is missing or invalid.

    The pool stays valid, because its class may be created later.
    """
    present = {node_class.key for node_class in classes}
    broken = {problem.object for problem in problems if problem.severity == "error"}
    for pool in pools:
        key = pool.class_ref.key
        if key in present:
            continue
        near = suggest_nearest(
            pool.class_ref.name, sorted(one.name for one in classes if one.kind == pool.class_ref.kind)
        )
        absent = f"there is no such {pool.class_ref.kind}; create it or name another{near}"
        remedy = CORRECT_CLASS if key in broken else absent
        yield InvalidManifest(pool.key, pool.class_field, key, remedy)


def read_node_pool(manifest: Mapping[str, Any]) -> NodePool:
    """Return a NodePool or Provisioner; raises InvalidManifests."""
    notes = start_problems(manifest)
    if manifest.get("kind") not in POOL_READERS:
        notes.note("kind", manifest.get("kind"), f"use one of {', '.join(POOL_READERS)}")
        raise InvalidManifests(notes.errors)
    pool = POOL_READERS[manifest["kind"]](manifest, notes)
    notes.refuse_if_wrong()
    return pool


def read_node_class(manifest: Mapping[str, Any]) -> NodeClass:
    """Return an EC2NodeClass, an AWSNodeTemplate, or the inline class of a Provisioner; raises InvalidManifests."""
    notes = start_problems(manifest)
    read_one: Callable[[Mapping[str, Any], ManifestProblems], NodeClass | None] = {
        "Provisioner": read_inline,
        **CLASS_READERS,
    }.get(str(manifest.get("kind")), lambda *_: None)
    found = read_one(manifest, notes)
    notes.refuse_if_wrong()
    if found is None:
        notes.note(
            "kind", manifest.get("kind"), "use an EC2NodeClass, an AWSNodeTemplate, or a Provisioner with spec.provider"
        )
        raise InvalidManifests(notes.errors)
    return found


def start_problems(manifest: Mapping[str, Any]) -> ManifestProblems:
    """Return the problems of a manifest that need no reader: a wrong API version, and fields and annotations without
    effect.

    The readers add the problems that they find.
    """
    kind, version = str(manifest.get("kind")), manifest.get("apiVersion")
    notes = ManifestProblems(f"{kind}/{(manifest.get('metadata') or {}).get('name', '')}")
    ours = next(
        (known for each in (API_VERSION, CLASS_API_VERSION) for name, known in each.items() if name == kind), None
    )
    if ours and version is not None and version != ours:
        notes.note("apiVersion", version, f"use {ours}")
    note_unsupported(manifest, notes)
    note_misplaced(manifest, notes)
    return notes

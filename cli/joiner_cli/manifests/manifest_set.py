"""Reads documents into a snapshot for the planner, and collects the problems of invalid objects.

An object with an error is reported and left out; the others stay, as on an API server. An object that is defined twice
with different content is left out, too, because its meaning is unknown.

>>> from joiner_cli.manifests.manifest_documents import read_text
>>> manifest = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"contaners": []}}'
>>> found = read_manifest_set(read_text(manifest, "a.json"))
>>> [str(problem) for problem in found.errors][0]
'Pod/default/a: spec.contaners is []: there is no such field; did you mean "containers"?'
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from joiner.cluster import InvalidField, Pod
from joiner.planning import Snapshot
from joiner.planning.inputs.admission import Admission as ClassAdmission
from joiner.planning.inputs.claim_pools import with_claim_pools
from joiner.planning.inputs.default_spreads import DefaultSpreads
from joiner.pools import InvalidManifest
from joiner.pools.codecs.declared_objects import find_missing_classes
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner_cli.manifests.admission_defaults import AdmissionDefaults
from joiner_cli.manifests.cluster_addresses import find_ip_family
from joiner_cli.manifests.invalid_objects import InvalidObject, list_invalid_pools
from joiner_cli.manifests.manifest_documents import EmptyInput, ManifestDocument, UnreadableInput
from joiner_cli.manifests.manifest_kinds import (
    PLURALS,
    WORKLOADS,
    UnknownKind,
    describe_non_object,
    recognize_kind,
    suggest_type,
)
from joiner_cli.manifests.missing_classes import assume_class, closes_pool
from joiner_cli.manifests.openapi_schemas import ParsedManifest, Schemas
from joiner_cli.manifests.readiness import Readiness, close_claims_without_class, read_readiness
from joiner_cli.manifests.schema_structs import SchemaStructs
from joiner_cli.manifests.validation.manifest_validation import (
    check_independent_fields,
    check_manifest,
    is_absent_class,
)
from joiner_cli.manifests.workload_replicas import (
    UNSCHEDULABLE,
    PendingSpec,
    Replicas,
    desired_replicas,
    missing_replicas,
)
from joiner_cli.manifests.written_values import WrittenValues

Manifest = Mapping[str, Any]

MAX_PODS: Final = 200_000
"""Kubernetes supports 150,000 pods in a cluster; a larger number of replicas is a typing mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSet:
    """The valid objects and the problems of the others.

    ``lists`` holds the manifests by the names of a snapshot's lists; ``replicas`` are further pods, equal within a
    workload. ``where`` maps an object to its document; ``passed_over`` counts objects of kinds that plans ignore;
    ``unreadable`` maps each place that could not be read to its file. ``unready_classes`` are node classes whose status
    says that they are not ready, each with the reason. ``counts`` are the numbers of valid objects by kind.
    ``pending`` are the specs of pods without a node, those of a workload once. ``invalid`` are the invalid objects, as
    far as they could be read. ``holds_manifests`` is False if every input is empty or cannot be found.
    """

    snapshot: Snapshot
    lists: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)
    replicas: tuple[Replicas, ...] = ()
    problems: tuple[InvalidManifest, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    unready_classes: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    pending: tuple[PendingSpec, ...] = ()
    invalid: tuple[InvalidObject, ...] = ()
    holds_manifests: bool = True

    @property
    def errors(self) -> tuple[InvalidManifest, ...]:
        """Return the mistakes that make a manifest invalid."""
        return tuple(one for one in self.problems if one.severity == "error")


def read_manifest_set(
    documents: Iterable[ManifestDocument | UnreadableInput], *, default_spreads: Sequence[Manifest] = ()
) -> ManifestSet:
    """Read the documents; objects with errors are left out and reported. ``default_spreads`` are the default topology
    spread constraints of the cluster's scheduler."""
    reading = _ManifestReader(default_spreads)
    for document in documents:
        if isinstance(document, EmptyInput):
            reading.empty.append(document)
        elif isinstance(document, UnreadableInput):
            reading.miss(document)
        else:
            reading.take(document)
    return reading.finish()


class _ManifestReader:
    """Collects valid manifests by kind, and all problems."""

    def __init__(self, default_spreads: Sequence[Manifest] = ()) -> None:
        self.default_spreads = default_spreads
        self.schemas = Schemas.packaged()
        self.structs = SchemaStructs(self.schemas.kinds, self.schemas.types)
        self.by_kind: dict[str, list[Manifest]] = {}
        self.problems: list[InvalidManifest] = []
        self.where: dict[str, str] = {}
        self.seen: dict[str, Manifest] = {}
        self.contradicted: set[str] = set()
        self.passed_over: Counter[str] = Counter()
        self.unreadable: dict[str, str] = {}
        self.unread_texts: list[str] = []
        self.empty: list[EmptyInput] = []
        self.written = WrittenValues()
        self.invalid: list[InvalidObject] = []

    def miss(self, unreadable: UnreadableInput) -> None:
        self.unreadable[unreadable.where] = unreadable.source
        self.unread_texts.append(unreadable.text)
        self.problems.append(InvalidManifest(unreadable.where, "", "", f"{unreadable.problem}: {unreadable.remedy}"))

    def take(self, document: ManifestDocument) -> None:
        manifest = document.manifest
        kind = self._kind(document)
        if kind is None:
            return
        short = kind.rpartition("/")[2]
        namespaced = kind in self.schemas.namespaced
        subject = _subject(manifest, short, document.where, namespaced=namespaced)
        notes = ManifestProblems(subject)
        doubts: Sequence[str] = ()
        if kind in self.schemas.kinds:
            quick = self.structs.read(kind, manifest)
            understood = ParsedManifest(quick) if quick else self.schemas.read(kind, manifest, notes)
            manifest, doubts = understood.manifest, understood.doubts
        elif not isinstance(manifest.get("metadata"), Mapping):
            notes.note("metadata", manifest.get("metadata"), "it is missing: name the object")
        if notes.errors and kind in self.schemas.kinds:
            check_independent_fields(kind, manifest, notes, namespaced=namespaced, doubts=doubts)
        elif not notes.errors:
            check_manifest(kind, manifest, notes, namespaced=namespaced)
        self.problems.extend(self.written.quote(one, document) for one in notes.problems)
        self.where.setdefault(subject, document.where)
        if notes.errors:
            self.invalid.append(InvalidObject(short, subject, manifest, tuple(doubts)))
            return
        has_name = bool((manifest.get("metadata") or {}).get("name"))
        if namespaced:
            manifest = _default_name(manifest, len(self.by_kind.get(short, ())))
        if subject in self.seen and has_name:
            if self.seen[subject] != manifest:
                remedy = f"another document defines it differently ({document.where}); keep one of them"
                self.problems.append(InvalidManifest(subject, "metadata.name", manifest["metadata"]["name"], remedy))
                self.contradicted.add(subject)
            return
        self.seen[subject] = manifest
        self.by_kind.setdefault(short, []).append(manifest)

    def _kind(self, document: ManifestDocument) -> str | None:
        """Return ``version/Kind`` if plans read this kind; note a document that is not an object."""
        manifest = document.manifest
        if not isinstance(manifest, Mapping):
            self._refuse(document.where, "", manifest, describe_non_object(manifest))
            return None
        for name in ("apiVersion", "kind"):
            if not isinstance(manifest.get(name), str) or not manifest[name]:
                missing = "it is missing: " if manifest.get(name) is None else ""
                remedy = f"{missing}{suggest_type(name, manifest)}, or remove this document"
                self._refuse(self._placed(document, ""), name, manifest.get(name), remedy)
                return None
        try:
            kind = recognize_kind(manifest["apiVersion"], manifest["kind"])
        except UnknownKind as unknown:
            self._refuse(self._placed(document, manifest["kind"]), unknown.field, unknown.value, unknown.remedy)
            return None
        if kind is None:
            self.passed_over[manifest["kind"]] += 1
        return kind

    def _placed(self, document: ManifestDocument, kind: str) -> str:
        """Return the subject of a document with an unknown kind, and remember its place."""
        subject = _subject(document.manifest, kind, document.where)
        self.where.setdefault(subject, document.where)
        return subject

    def _refuse(self, subject: str, field: str, value: object, remedy: str) -> None:
        notes = ManifestProblems(subject)
        if value is None:
            notes.missing(field, remedy)
        else:
            notes.note(field, value, remedy)
        self.problems.extend(notes.problems)

    def _report_empty(self) -> None:
        """Report the inputs without documents: as errors if there is nothing else."""
        alone = not (self.where or self.passed_over or self.problems)
        for one in self.empty:
            if alone:
                self.miss(one)
            else:
                self.problems.append(InvalidManifest(one.where, "", "", one.problem, "info"))

    def finish(self) -> ManifestSet:
        self._report_empty()
        self._leave_out([self.seen[subject] for subject in self.contradicted])
        self._leave_out(self._too_many_pods())
        admission = self._admission()
        made = [replace(one, pod=admission.pod(one.pod)) for one in missing_replicas(self.by_kind)]
        for one in made:
            self.problems.extend(admission.missing(one.workload, "spec.template.spec", one.pod["spec"]))
        pods = []
        for manifest in self.by_kind.get("Pod", ()):
            self.problems.extend(
                admission.missing(_subject(manifest, "Pod", "", namespaced=True), "spec", manifest["spec"])
            )
            pods.append(_mark_pending(admission.pod(manifest)))
        lists = {PLURALS[kind]: items for kind, items in self.by_kind.items() if kind in PLURALS}
        lists["pods"] = [*pods, *(pod for one in made if not one.alike for pod in one.manifests())]
        lists["persistentvolumeclaims"] = self._volume_claims(admission, made)
        alike = tuple(one for one in made if one.alike)
        readiness = read_readiness(self.by_kind)
        snapshot = self._snapshot(lists, alike, readiness)
        return ManifestSet(
            snapshot=snapshot,
            lists=lists,
            replicas=alike,
            problems=tuple(dict.fromkeys(self.problems)),
            where=self.where,
            passed_over=dict(sorted(self.passed_over.items())),
            unreadable=self.unreadable,
            unready_classes=readiness.classes,
            counts=self._counts(),
            pending=_list_pending(made, pods),
            invalid=(*self.invalid, *list_invalid_pools(self.by_kind, self._broken())),
            holds_manifests=any((*self.by_kind.values(), *self.unread_texts, self._broken() - self.unreadable.keys())),
        )

    def _counts(self) -> dict[str, int]:
        """Return the numbers of valid objects by kind; some mistakes are found only when a snapshot is read."""
        counts = Counter({kind: len(items) for kind, items in sorted(self.by_kind.items())})
        present = {id(one) for items in self.by_kind.values() for one in items}
        for subject in self._broken() & self.seen.keys() - self.contradicted:
            counts[subject.partition("/")[0]] -= id(self.seen[subject]) in present
        return {kind: number for kind, number in counts.items() if number}

    def _broken(self) -> frozenset[str]:
        return frozenset(one.object for one in self.problems if one.severity == "error")

    def _leave_out(self, manifests: Sequence[Manifest]) -> None:
        if manifests:
            gone = {id(one) for one in manifests}
            self.by_kind = {kind: [one for one in items if id(one) not in gone] for kind, items in self.by_kind.items()}

    def _too_many_pods(self) -> list[Manifest]:
        """Return the workloads that exceed the maximum number of pods."""
        number, found = len(self.by_kind.get("Pod", ())), []
        for kind in sorted(WORKLOADS):
            field = "spec.parallelism" if kind == "Job" else "spec.replicas"
            for one in self.by_kind.get(kind, ()):
                if number + desired_replicas(one) <= max(MAX_PODS, number):
                    number += desired_replicas(one)
                    continue
                remedy = f"with it there are more than {MAX_PODS:,} pods; reduce the number"
                self._refuse(_subject(one, kind, "", namespaced=True), field, desired_replicas(one), remedy)
                found.append(one)
        return found

    def _admission(self) -> AdmissionDefaults:
        """Return what admission plugins fill in, and leave out the pods that they would refuse for their priority.
        Those with a uid have been admitted."""
        admission, refused = AdmissionDefaults.of(self.by_kind, self._broken()), []
        for one in self.by_kind.get("Pod", ()):
            if not one["metadata"].get("uid") and (remedy := admission.refused_priority(one["spec"])):
                subject = _subject(one, "Pod", "", namespaced=True)
                self._refuse(subject, "spec.priority", one["spec"]["priority"], remedy)
                refused.append(one)
        self._leave_out(refused)
        return admission

    def _volume_claims(self, admission: AdmissionDefaults, made: Sequence[Replicas]) -> list[Manifest]:
        given = self.by_kind.get("PersistentVolumeClaim", ())
        names = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in given}
        new = [claim for one in made for claim in one.volume_claim_manifests()]
        more = [one for one in new if (one["metadata"]["namespace"], one["metadata"]["name"]) not in names]
        return [admission.claim(one) for one in (*given, *more)]

    def _snapshot(
        self, lists: Mapping[str, Sequence[Manifest]], made: Sequence[Replicas], readiness: Readiness
    ) -> Snapshot:
        """Return the snapshot of the valid objects, and collect the problems that its readers find."""
        family = find_ip_family(lists.get("nodes") or ())
        listed = Snapshot.from_lists(lists, default_spreads=self.default_spreads, ip_family=family)
        invalid = {one.object for one in listed.problems if one.severity == "error"}
        valid_claims = tuple(one for one in listed.claims if one.key not in invalid)
        snapshot = with_claim_pools(replace(listed, claims=valid_claims))
        self.problems.extend(readiness.warnings)
        self.problems.extend(one for one in snapshot.problems if not is_absent_class(one))
        broken, claims = self._broken(), [pool for pool in snapshot.pools if pool.claim]
        absent = [one for one in snapshot.problems if is_absent_class(one)]
        absent.extend(find_missing_classes(claims, snapshot.classes, snapshot.problems))
        absences = [assume_class(one, snapshot.classes, broken, self.unread_texts) for one in absent]
        classes, defaults = ClassAdmission(lists), DefaultSpreads(self.default_spreads, lists)
        pods = [*snapshot.pods, *(pod for one in made for pod in self._pods(one, classes, defaults))]
        closed = readiness.closed_pools(snapshot.pools, [one.key for one in snapshot.classes])
        closed |= close_claims_without_class(snapshot.claims, absences)
        # A cluster has looked for the classes of these: nothing is assumed about them
        absences = [one for one in absences if one.severity != "info" or one.object not in closed]
        self.problems.extend(absences)
        closed |= {
            one.object: f"its class {one.value} is not known: {one.remedy}" for one in absences if closes_pool(one)
        }
        return replace(
            snapshot,
            pods=tuple(pods),
            problems=tuple(dict.fromkeys(self.problems)),
            closed_pools={**snapshot.closed_pools, **closed},
        )

    def _pods(self, made: Replicas, classes: ClassAdmission, defaults: DefaultSpreads) -> Iterator[Pod]:
        """Yield the pods as values; the first is parsed, the others differ only in their names."""
        try:
            sample = defaults.given_to(Pod.from_kube(classes.admit(made.pod)))
        except InvalidField as invalid:
            self._refuse(made.workload, f"spec.template.{invalid.field}", invalid.value, invalid.remedy)
            return
        yield from (replace(sample, name=name) for name in made.names)


def _list_pending(made: Iterable[Replicas], pods: Iterable[Manifest]) -> tuple[PendingSpec, ...]:
    """Return the specs of the pods without a node, those of a workload once."""
    return (
        *(PendingSpec(one.workload, "spec.template.spec", one.pod["spec"]) for one in made),
        *(
            PendingSpec(_subject(one, "Pod", "", namespaced=True), "spec", one["spec"])
            for one in pods
            if not one["spec"].get("nodeName")
        ),
    )


def _mark_pending(pod: Manifest) -> Manifest:
    """Mark a pod without a node as unschedulable, as kube-scheduler would."""
    spec, status = pod["spec"], pod.get("status") or {}
    if spec.get("nodeName") or spec.get("schedulingGates") or status.get("phase") in ("Succeeded", "Failed"):
        return pod
    others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    return {**pod, "status": {**status, "phase": "Pending", "conditions": [*others, *UNSCHEDULABLE["conditions"]]}}


def _default_name(manifest: Manifest, number: int) -> Manifest:
    """Set the default namespace, and a name if the manifest has only `generateName` or none."""
    metadata = manifest.get("metadata") or {}
    given = {"namespace": metadata.get("namespace") or "default"}
    if not metadata.get("name"):
        given["name"] = f"{metadata.get('generateName') or 'unnamed-'}{number}"
    return {**manifest, "metadata": {**metadata, **given}}


def _subject(manifest: Manifest, kind: str, where: str, *, namespaced: bool = False) -> str:
    """Return ``Kind/namespace/name``, or the place of an object without a name."""
    metadata = manifest.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str):
        return f"{kind} ({where})" if kind else where
    namespace = metadata.get("namespace") or "default"
    return "/".join(filter(None, (kind, str(namespace) if namespaced else "", name)))

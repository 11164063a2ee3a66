"""Validates pod specs: containers, volumes, and scheduling constraints. Source: Kubernetes, ``ValidatePodSpec``."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from joiner.cluster import InvalidField
from joiner.cluster.pod_requests import PodTooSmall, sum_pod_requests
from joiner.pools.codecs.manifest_fields import ManifestProblems
from joiner.pools.codecs.misplaced_annotations import POD
from joiner.pools.suggestions import refuse_value, suggest_nearest
from joiner_cli.manifests.validation.metadata_validation import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    QUALIFIED_NAME,
    check_deletion_cost,
    check_effects,
    check_labels,
    check_selector,
    is_key,
    is_label,
    is_port_name,
    is_subdomain,
)
from joiner_cli.manifests.validation.node_selector_validation import check_node_term, check_tolerations
from joiner_cli.manifests.validation.quantity_validation import check_amounts, check_requirements
from joiner_cli.manifests.validation.volume_validation import check_volume_claim_spec

Manifest = Mapping[str, Any]

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
SYSTEMS: Final = ("linux", "windows")
"""The values of ``os.name``. Like the restart policies of containers, they are no enum in Kubernetes' OpenAPI."""


def check_pod(manifest: Manifest, notes: ManifestProblems) -> None:
    """Note mistakes in a Pod."""
    metadata = manifest.get("metadata") or {}
    check_deletion_cost(metadata.get("annotations") or {}, notes, "metadata.annotations")
    check_effects(metadata, notes, "metadata", POD)
    if not manifest.get("spec"):
        notes.missing("spec", "it is missing: write at least its containers")
        return
    check_pod_spec(manifest["spec"], notes, "spec")


def check_pod_spec(spec: Manifest, notes: ManifestProblems, path: str, *, claims: Collection[str | None] = ()) -> None:
    """Check a pod spec. ``claims`` are the names of the volumes that a StatefulSet adds to each pod."""
    _check_containers(spec, notes, path)
    _check_volumes(spec.get("volumes") or (), notes, f"{path}.volumes")
    _check_mounts(spec, notes, path, claims)
    _check_resources_of_pod(spec, notes, path)
    check_labels(spec.get("nodeSelector") or {}, notes, f"{path}.nodeSelector")
    check_tolerations(spec.get("tolerations") or (), notes, f"{path}.tolerations")
    affinity = spec.get("affinity") or {}
    _check_node_affinity(affinity.get("nodeAffinity") or {}, notes, f"{path}.affinity.nodeAffinity")
    for side in ("podAffinity", "podAntiAffinity"):
        _check_pod_affinity(affinity.get(side) or {}, notes, f"{path}.affinity.{side}")
    _check_spreads(spec.get("topologySpreadConstraints") or (), notes, f"{path}.topologySpreadConstraints")
    _check_names(spec, notes, path)
    gates = [one.get("name") for one in spec.get("schedulingGates") or ()]
    for number, gate in enumerate(gates):
        if not is_key(gate or ""):
            notes.note(f"{path}.schedulingGates[{number}].name", gate, QUALIFIED_NAME)
        elif gate in gates[:number]:
            notes.note(f"{path}.schedulingGates[{number}].name", gate, "another gate has this name; remove one")
    if gates and spec.get("nodeName"):
        notes.note(f"{path}.nodeName", spec["nodeName"], "a pod with scheduling gates cannot have a node yet")


def _check_names(spec: Manifest, notes: ManifestProblems, path: str) -> None:
    for field in ("nodeName", "priorityClassName", "runtimeClassName", "schedulerName", "serviceAccountName"):
        if spec.get(field) and not is_subdomain(spec[field]):
            notes.note(f"{path}.{field}", spec[field], DNS_SUBDOMAIN)
    for field in ("hostname", "subdomain"):
        if spec.get(field) and not is_label(spec[field]):
            notes.note(f"{path}.{field}", spec[field], DNS_LABEL)
    if spec.get("os") is not None and (system := spec["os"].get("name") or "") not in SYSTEMS:
        notes.note(
            f"{path}.os.name", spec["os"].get("name"), f"use {' or '.join(SYSTEMS)}{suggest_nearest(system, SYSTEMS)}"
        )
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        notes.note(
            f"{path}.terminationGracePeriodSeconds",
            spec["terminationGracePeriodSeconds"],
            "give a number of at least zero",
        )


def _check_containers(spec: Manifest, notes: ManifestProblems, path: str) -> None:
    if not spec.get("containers"):
        notes.note(f"{path}.containers", spec.get("containers"), "a pod needs at least one container")
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            where = f"{path}.{kind}[{number}]"
            name = container.get("name") or ""
            if not is_label(name):
                notes.note(f"{where}.name", container.get("name"), DNS_LABEL if name else "name the container")
            elif name in seen:
                notes.note(f"{where}.name", name, "another container of the pod has this name")
            seen.add(name)
            image = container.get("image") or ""
            if image != image.strip():
                notes.note(f"{where}.image", image, "remove the space at its beginning or end")
            elif not image:
                notes.note(
                    f"{where}.image",
                    container.get("image"),
                    "the API server requires an image; the plan does not need it",
                    "warning",
                )
            _check_restart_policy(container.get("restartPolicy"), notes, f"{where}.restartPolicy")
            check_requirements(container.get("resources") or {}, notes, f"{where}.resources")
            _check_ports(
                container.get("ports") or (), notes, f"{where}.ports", host_network=bool(spec.get("hostNetwork"))
            )


def _check_restart_policy(policy: str | None, notes: ManifestProblems, path: str) -> None:
    """Check the policy of a container; ``Always`` makes an init container a sidecar, whose requests stay taken."""
    if policy is not None and policy not in RESTART_POLICIES:
        notes.note(path, policy, refuse_value(policy, RESTART_POLICIES))


def _check_mounts(spec: Manifest, notes: ManifestProblems, path: str, claims: Collection[str | None]) -> None:
    volumes = {*claims, *(volume.get("name") for volume in spec.get("volumes") or ())}
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or ()):
            taken: set[str] = set()
            for position, mount in enumerate(container.get("volumeMounts") or ()):
                where, place = f"{path}.{kind}[{number}].volumeMounts[{position}]", mount.get("mountPath") or ""
                if mount.get("name") not in volumes:
                    notes.note(f"{where}.name", mount.get("name"), "the pod has no such volume")
                if not place or place in taken:
                    notes.note(
                        f"{where}.mountPath",
                        mount.get("mountPath"),
                        "another volume is mounted there" if place else "set the path of the mount",
                    )
                taken.add(place)


def _check_ports(ports: Sequence[Manifest], notes: ManifestProblems, path: str, *, host_network: bool) -> None:
    names: set[str] = set()
    taken: set[tuple[object, ...]] = set()
    for number, port in enumerate(ports):
        where = f"{path}[{number}]"
        for field in ("containerPort", "hostPort"):
            value = port.get(field)
            if (value is not None and (value or field == "containerPort") and not 1 <= value <= 65535) or (
                field == "containerPort" and value is None
            ):
                notes.note(f"{where}.{field}", value, "give a port from 1 to 65535")
        if host_network and port.get("hostPort") and port["hostPort"] != port.get("containerPort"):
            notes.note(f"{where}.hostPort", port["hostPort"], "on the host's network it must be the containerPort")
        if port.get("name"):
            if not is_port_name(port["name"]):
                notes.note(
                    f"{where}.name",
                    port["name"],
                    "use up to 15 lowercase letters, digits and single -, with a letter among them",
                )
            if port["name"] in names:
                notes.note(f"{where}.name", port["name"], "another port of the container has this name")
            names.add(port["name"])
        if port.get("hostPort"):
            own = (port["hostPort"], port.get("protocol") or "TCP", port.get("hostIP") or "")
            if own in taken:
                notes.note(f"{where}.hostPort", port["hostPort"], "the container takes this port twice")
            taken.add(own)


def _check_resources_of_pod(spec: Manifest, notes: ManifestProblems, path: str) -> None:
    check_amounts(spec.get("overhead") or {}, notes, f"{path}.overhead")
    resources = spec.get("resources") or {}
    if resources:
        check_requirements(resources, notes, f"{path}.resources")
        for side in ("requests", "limits"):
            for name in resources.get(side) or {}:
                if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
                    notes.note(
                        f"{path}.resources.{side}[{name}]",
                        resources[side][name],
                        "pod-level resources are cpu, memory and huge pages only",
                    )
        try:
            sum_pod_requests(spec)
        except PodTooSmall as small:
            notes.note(f"{path}.{small.field}", small.value, small.remedy)
        except InvalidField:
            return  # the quantity has been noted


def _check_node_affinity(affinity: Manifest, notes: ManifestProblems, path: str) -> None:
    if REQUIRED in affinity:
        terms = affinity[REQUIRED].get("nodeSelectorTerms") or ()
        if not terms:
            notes.note(f"{path}.{REQUIRED}.nodeSelectorTerms", terms, "give at least one term")
        for number, term in enumerate(terms):
            check_node_term(term, notes, f"{path}.{REQUIRED}.nodeSelectorTerms[{number}]")
    _check_preferred(affinity, "preference", check_node_term, notes, path)


def _check_preferred(
    affinity: Manifest,
    field: str,
    check_term: Callable[[Manifest, ManifestProblems, str], None],
    notes: ManifestProblems,
    path: str,
) -> None:
    """Check the weights of preferred terms, and the term in ``field`` of each."""
    for number, one in enumerate(affinity.get(PREFERRED) or ()):
        where = f"{path}.{PREFERRED}[{number}]"
        if not 1 <= (one.get("weight") or 0) <= 100:
            notes.note(f"{where}.weight", one.get("weight"), "give a weight from 1 to 100")
        check_term(one.get(field) or {}, notes, f"{where}.{field}")


def _check_pod_affinity(affinity: Manifest, notes: ManifestProblems, path: str) -> None:
    for number, term in enumerate(affinity.get(REQUIRED) or ()):
        _check_pod_term(term, notes, f"{path}.{REQUIRED}[{number}]")
    _check_preferred(affinity, "podAffinityTerm", _check_pod_term, notes, path)


def _check_pod_term(term: Manifest, notes: ManifestProblems, path: str) -> None:
    _check_topology_key(term, notes, path)
    check_selector(term.get("labelSelector"), notes, f"{path}.labelSelector")
    check_selector(term.get("namespaceSelector"), notes, f"{path}.namespaceSelector")
    for number, namespace in enumerate(term.get("namespaces") or ()):
        if not is_label(namespace):
            notes.note(f"{path}.namespaces[{number}]", namespace, DNS_LABEL)
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        _check_label_keys(term, field, notes, path)
    both = set(term.get("matchLabelKeys") or ()) & set(term.get("mismatchLabelKeys") or ())
    if both:
        notes.note(f"{path}.mismatchLabelKeys", sorted(both), "matchLabelKeys has these keys, too")


def _check_label_keys(term: Manifest, field: str, notes: ManifestProblems, path: str) -> None:
    keys = term.get(field) or ()
    if keys and term.get("labelSelector") is None:
        notes.note(f"{path}.{field}", keys, "it needs a labelSelector")
    named = {one.get("key") for one in (term.get("labelSelector") or {}).get("matchExpressions") or ()}
    named |= set((term.get("labelSelector") or {}).get("matchLabels") or ())
    for number, key in enumerate(keys):
        if not is_key(key):
            notes.note(f"{path}.{field}[{number}]", key, QUALIFIED_NAME)
        elif key in named:
            notes.note(f"{path}.{field}[{number}]", key, "the labelSelector has this key already")


def _check_topology_key(term: Manifest, notes: ManifestProblems, path: str) -> None:
    key = term.get("topologyKey") or ""
    if not is_key(key):
        remedy = QUALIFIED_NAME if key else "set the node label of the topology domains"
        notes.note(f"{path}.topologyKey", term.get("topologyKey"), remedy)


def _check_spreads(spreads: Sequence[Manifest], notes: ManifestProblems, path: str) -> None:
    seen: set[tuple[object, ...]] = set()
    for number, one in enumerate(spreads):
        where = f"{path}[{number}]"
        if (one.get("maxSkew") or 0) < 1:
            notes.note(f"{where}.maxSkew", one.get("maxSkew"), "give a number of at least 1")
        _check_topology_key(one, notes, where)
        hard = one.get("whenUnsatisfiable") == "DoNotSchedule"
        least = one.get("minDomains")
        if least is not None and least < 1:
            notes.note(f"{where}.minDomains", least, "give a number of at least 1")
        elif least is not None and not hard:
            notes.note(f"{where}.minDomains", least, "it requires whenUnsatisfiable: DoNotSchedule")
        own = (one.get("topologyKey"), one.get("whenUnsatisfiable"))
        if own in seen:
            notes.note(where, one.get("topologyKey"), "another constraint has this topologyKey and whenUnsatisfiable")
        seen.add(own)
        check_selector(one.get("labelSelector"), notes, f"{where}.labelSelector")
        _check_label_keys(one, "matchLabelKeys", notes, where)


def _check_volumes(volumes: Sequence[Manifest], notes: ManifestProblems, path: str) -> None:
    seen: set[str] = set()
    for number, volume in enumerate(volumes):
        where = f"{path}[{number}]"
        name = volume.get("name") or ""
        if not is_label(name):
            notes.note(f"{where}.name", volume.get("name"), DNS_LABEL)
        elif name in seen:
            notes.note(f"{where}.name", name, "another volume of the pod has this name")
        seen.add(name)
        sources = [field for field in volume if field != "name"]
        if len(sources) > 1:
            notes.note(where, ", ".join(sources), "a volume has one source; keep one of them")
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            notes.note(
                f"{where}.persistentVolumeClaim.claimName", claim.get("claimName"), "name the PersistentVolumeClaim"
            )
        if "ephemeral" in volume:
            template = volume["ephemeral"].get("volumeClaimTemplate") or {}
            check_volume_claim_spec(template.get("spec") or {}, notes, f"{where}.ephemeral.volumeClaimTemplate.spec")

"""Reads the legacy kinds: Provisioner (karpenter.sh/v1alpha5), AWSNodeTemplate (karpenter.k8s.aws/v1alpha1), inline
providers.

They become the same values as the current kinds. The reader sets the defaults that Karpenter's webhook wrote into a
Provisioner: linux, amd64, on-demand, and c, m and r newer than generation 2 where no requirement is about the instance
type. Source: Karpenter v0.31, "Provisioners" and "Node Templates"; its upgrade guide to v1beta1 for the mapping.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, get_args

from joiner import names
from joiner.cluster import Requirements
from joiner.cluster.requirements import RENAMED
from joiner.pools.codecs.consolidation_annotations import read_consolidation_limits
from joiner.pools.codecs.disruption_annotations import read_disruption_settings
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.codecs.node_class_fields import read_block_devices, read_kubelet, read_metadata_options, read_tags
from joiner.pools.codecs.object_metadata import read_metadata, read_spec
from joiner.pools.codecs.planning_annotations import read_pool_planning
from joiner.pools.codecs.pool_requirements import (
    note_contradictions,
    read_pool_labels,
    read_pool_taints,
    read_requirements,
    require_labels,
    split_labels,
)
from joiner.pools.node_class import ImageFamily, ImageTerm, NodeClass, SecurityGroupTerm, SubnetTerm
from joiner.pools.node_pool import Disruption, DisruptionBudget, NodeClassRef, NodePool

HOP_LIMIT = 2
ID_KEYS = ("aws-ids", "aws::ids")
LEGACY_FAMILY_NAMES: tuple[ImageFamily, ...] = (
    "AL2",
    "AL2023",
    "Bottlerocket",
    "Custom",
    "Ubuntu",
    "Windows2019",
    "Windows2022",
)
FAMILY_OF_IMAGES = (
    "it is missing beside amiSelector: it decides which user data the images can read. Karpenter v0.31 took AL2: give "
    "AL2 if they are images of Amazon Linux 2, AL2023 if they are of Amazon Linux 2023"
)
DECIDED_BY_TEMPLATE = (
    "amiFamily",
    "amiSelector",
    "blockDeviceMappings",
    "instanceProfile",
    "metadataOptions",
    "securityGroupSelector",
    "userData",
)
"""Fields that Karpenter refused beside a launch template."""
DEFAULT_METADATA_OPTIONS: Mapping[str, object] = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": HOP_LIMIT,
    "httpTokens": "required",
}
TEMPLATE_NAME = r"[a-zA-Z0-9().\-/_]{3,128}"
AMI_ID = re.compile(r"ami-[0-9a-z]+")
SUBNET_ID = re.compile(r"subnet-[0-9a-z]+")
GROUP_ID = re.compile(r"sg-[0-9a-z]+")
CATEGORY, GENERATION = f"{names.INSTANCE_PREFIX}category", f"{names.INSTANCE_PREFIX}generation"
DEFAULT_CATEGORIES = ("c", "m", "r")
CHOOSES_TYPE = (names.INSTANCE_TYPE, f"{names.INSTANCE_PREFIX}family", CATEGORY, GENERATION)


def default_requirements(declared: frozenset[str]) -> list[dict[str, Any]]:
    """Return the defaults for keys without a requirement; ``declared`` are the keys that have one.

    >>> named = frozenset({"kubernetes.io/arch", "node.kubernetes.io/instance-type"})
    >>> [requirement["key"] for requirement in default_requirements(named)]
    ['kubernetes.io/os', 'karpenter.sh/capacity-type']
    """
    defaults = {names.OS: "linux", names.ARCH: "amd64", names.CAPACITY_TYPE: names.ON_DEMAND}
    missing = [
        {"key": key, "operator": "In", "values": [value]} for key, value in defaults.items() if key not in declared
    ]
    if not declared & set(CHOOSES_TYPE):
        missing.append({"key": CATEGORY, "operator": "In", "values": [*DEFAULT_CATEGORIES]})
        missing.append({"key": GENERATION, "operator": "Gt", "values": ["2"]})
    return missing


def read_provisioner(manifest: Mapping[str, Any], notes: ManifestProblems) -> NodePool:
    """Read a Provisioner. Use the result only if ``notes`` has no errors afterwards.

    ``read_inline`` reads its inline provider.
    """
    spec = read_spec(manifest, notes)
    labels = read_pool_labels(spec, "labels", legacy=True)
    declared = read_requirements(spec, "requirements", legacy=True)
    keys = frozenset(RENAMED.get(key, key) for key in (*labels, *(requirement["key"] for requirement in declared)))
    requirements = Requirements.from_kube([*declared, *default_requirements(keys)])
    note_contradictions(declared, notes, spec.at("requirements"))
    taints, startup_taints = read_pool_taints(spec, "taints", "startupTaints")
    limits = spec.sub("limits")
    identity = read_metadata(manifest)
    pool = NodePool(
        **identity,
        kind="Provisioner",
        class_ref=_read_provider_ref(spec, identity["name"]),
        weight=spec.integer("weight", minimum=1, maximum=100) or 0,
        requirements=require_labels(requirements, labels, notes, spec.at("labels")),
        **split_labels(labels),
        annotations=spec.texts("annotations"),
        taints=taints,
        startup_taints=startup_taints,
        limits=limits.limits("resources"),
        used=ManifestFields(manifest.get("status"), "status", notes).resources("resources", signed=True),
        kubelet=read_kubelet(spec.sub("kubeletConfiguration")) if "kubeletConfiguration" in spec else None,
        disruption=replace(
            _read_disruption(spec),
            limits=read_consolidation_limits(manifest, notes),
            settings=read_disruption_settings(manifest, notes),
        ),
        planning=read_pool_planning(manifest, notes),
        expire_after=spec.integer("ttlSecondsUntilExpired", minimum=0),
        own_annotations=(manifest.get("metadata") or {}).get("annotations") or {},
    )
    limits.close()
    spec.close()
    return pool


def _read_provider_ref(spec: ManifestFields, name: str) -> NodeClassRef:
    spec.raw("provider")  # read_inline reads it
    ref = spec.sub("providerRef")
    if "provider" in spec and "providerRef" in spec:
        spec.wrong("providerRef", "provider and providerRef exclude each other; remove one of them")
    if "provider" in spec or "providerRef" not in spec:
        if "provider" not in spec:
            spec.wrong(
                "providerRef",
                "it is missing: name an AWSNodeTemplate here, or describe the nodes inline under provider",
            )
        return NodeClassRef("Inline", name)
    ref.text("apiVersion", one_of=("karpenter.k8s.aws/v1alpha1",))
    ref.text("kind", one_of=("AWSNodeTemplate",))
    referred = ref.text("name")
    if "name" not in ref:
        ref.wrong("name", "it is missing: write the name of an AWSNodeTemplate")
    ref.close()
    return NodeClassRef("AWSNodeTemplate", referred or "")


def _read_disruption(spec: ManifestFields) -> Disruption:
    """Read ttlSecondsAfterEmpty and consolidation. Without both, no node is removed voluntarily.

    A Provisioner has no budgets, so all nodes may be disrupted at the same time.
    """
    after_empty = spec.integer("ttlSecondsAfterEmpty", minimum=0)
    consolidation = spec.sub("consolidation")
    consolidates = consolidation.boolean("enabled")
    consolidation.close()
    if consolidates and after_empty is not None:
        remedy = "it and consolidation.enabled exclude each other; remove one (consolidation removes empty nodes, too)"
        spec.wrong("ttlSecondsAfterEmpty", remedy)
    budgets = (DisruptionBudget(nodes="100%"),)
    if consolidates:
        return Disruption(policy="WhenEmptyOrUnderutilized", consolidate_after=0, budgets=budgets)
    return Disruption(policy="WhenEmpty", consolidate_after=after_empty, budgets=budgets)


def read_node_template(manifest: Mapping[str, Any], notes: ManifestProblems) -> NodeClass:
    """Read an AWSNodeTemplate. Use the result only if ``notes`` has no errors afterwards."""
    spec = read_spec(manifest, notes)
    return NodeClass(**read_metadata(manifest), kind="AWSNodeTemplate", **_read_provider(spec, inline=False))


def read_inline(manifest: Mapping[str, Any], notes: ManifestProblems) -> NodeClass | None:
    """Read the class in ``spec.provider`` of a Provisioner; None without a provider.

    It has the name of the Provisioner.
    """
    spec = manifest.get("spec")
    provider = spec.get("provider") if isinstance(spec, Mapping) else None
    if provider is None:
        return None
    identity = {
        **read_metadata(manifest),
        "conditions": NodeClass("").conditions,
    }  # the conditions of the object are those of the Provisioner
    return NodeClass(
        **identity, kind="Inline", **_read_provider(ManifestFields(provider, "spec.provider", notes), inline=True)
    )


def _read_provider(spec: ManifestFields, *, inline: bool) -> dict[str, Any]:
    if inline:
        spec.text("apiVersion")
        spec.text("kind")
    family_name = spec.text("amiFamily", one_of=LEGACY_FAMILY_NAMES)
    images = tuple(_read_image_terms(spec))
    template = spec.text("launchTemplate", pattern=TEMPLATE_NAME, remedy="give the name of a launch template")
    if template:
        _note_fields_of_template(spec)
    if family_name in ("Custom", "Ubuntu") and not images:
        spec.wrong("amiSelector", f"the family {family_name} needs one, because it has no default images")
    if images and not template and "amiFamily" not in spec:
        spec.wrong("amiFamily", FAMILY_OF_IMAGES)
    subnets = tuple(SubnetTerm(**term) for term in _read_selector(spec, "subnetSelector", SUBNET_ID))
    groups = tuple(SecurityGroupTerm(**term) for term in _read_selector(spec, "securityGroupSelector", GROUP_ID))
    for name, plural in (("subnetSelector", "subnets"), ("securityGroupSelector", "security groups")):
        if not spec.raw(name) and not (template and name in DECIDED_BY_TEMPLATE):
            _note_missing_selector(spec, name, plural, inline=inline)
    read = {
        "subnet_terms": subnets,
        "security_group_terms": groups,
        "image_terms": images,
        "ami_family": next((family for family in get_args(ImageFamily) if family == family_name), None),
        "instance_profile": spec.text("instanceProfile"),
        "block_devices": read_block_devices(spec, "blockDeviceMappings", legacy=True),
        "user_data": spec.text("userData"),
        "tags": read_tags(spec, "tags"),
        "metadata_options": read_metadata_options(spec.sub("metadataOptions"), hop_limit=HOP_LIMIT),
        "detailed_monitoring": bool(spec.boolean("detailedMonitoring")),
        "context": spec.text("context"),
        "launch_template": template,
    }
    spec.close()
    return read


def _note_fields_of_template(spec: ManifestFields) -> None:
    """Note the fields that exclude a launch template, as Karpenter's webhook did, and those that it makes ineffective.

    Metadata options with the default values are stored in objects that nobody gave any.
    """
    options = spec.raw("metadataOptions")
    by_default = isinstance(options, Mapping) and options.items() <= DEFAULT_METADATA_OPTIONS.items()
    for name in DECIDED_BY_TEMPLATE:
        if name in spec and not (name == "metadataOptions" and by_default):
            spec.wrong(name, "it and launchTemplate exclude each other; remove one (the template decides it)")
    remedy = "it has no effect beside launchTemplate, which decides it; remove it"
    if "detailedMonitoring" in spec:
        spec.notes.note(spec.at("detailedMonitoring"), spec.raw("detailedMonitoring"), remedy, "warning")
    if by_default:
        spec.notes.note(spec.at("metadataOptions"), options, remedy, "info")


def _note_missing_selector(spec: ManifestFields, name: str, plural: str, *, inline: bool) -> None:
    """Note a missing selector.

    An AWSNodeTemplate must have its selectors. An inline provider without one selects by the tag of the cluster, as in
    Karpenter's first releases.
    """
    example = "{karpenter.sh/discovery: my-cluster}"
    if inline:
        assumed = f"the {plural} with the tag kubernetes.io/cluster/NAME of the cluster are used"
        spec.notes.missing(spec.at(name), f"it is not set: {assumed}; to choose others, write {example}", "info")
    else:
        spec.wrong(name, f"it is missing; give tags, such as {example}, or {{aws-ids: ...}}")


def _read_selector(spec: ManifestFields, name: str, id_pattern: re.Pattern[str]) -> Iterator[dict[str, Any]]:
    """Yield the terms of a selector map: one for each id, or one for each combination of comma-separated tag values."""
    selector = spec.texts(name)
    by_id = [key for key in selector if key in ID_KEYS]
    if by_id:
        if len(selector) > 1:
            spec.wrong(name, f"{by_id[0]} excludes every other key; use either ids or tags")
        for identifier in split_list(selector[by_id[0]]):
            if not id_pattern.fullmatch(identifier):
                spec.notes.note(
                    f"{spec.at(name)}[{by_id[0]}]",
                    identifier,
                    f"give ids like {id_pattern.pattern}, separated by commas",
                )
            yield {"id": identifier}
    elif selector:
        yield from ({"tags": tags} for tags in combine_values(selector))


def _read_image_terms(spec: ManifestFields) -> Iterator[ImageTerm]:
    selector = spec.texts("amiSelector")
    ids = [identifier for key in ID_KEYS for identifier in split_list(selector.get(key, ""))]
    rest = {key: value for key, value in selector.items() if key not in (*ID_KEYS, "aws::name", "aws::owners")}
    for identifier in ids:
        if not AMI_ID.fullmatch(identifier):
            spec.notes.note(
                spec.at("amiSelector"), identifier, "give image ids like ami-0123456789abcdef0, separated by commas"
            )
        yield ImageTerm(id=identifier)
    if ids or not selector:
        return
    if not rest and not selector.get("aws::name"):
        spec.wrong("amiSelector", "aws::owners alone selects all of their images: give aws::name or tags beside it")
    choices = combine_values(rest) if rest else [{}]
    for tags, name, owner in product(
        choices, split_list(selector.get("aws::name", "")) or [""], split_list(selector.get("aws::owners", "")) or [""]
    ):
        yield ImageTerm(name=name, owner=owner, tags=tags)


def split_list(text: str) -> list[str]:
    """Return the parts of a comma-separated list, without blanks.

    >>> split_list("subnet-1, subnet-2")
    ['subnet-1', 'subnet-2']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def combine_values(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return one map for each combination of the comma-separated values.

    >>> combine_values({"team": "a,b", "stage": "prod"})
    [{'team': 'a', 'stage': 'prod'}, {'team': 'b', 'stage': 'prod'}]
    """
    choices = [[(key, value) for value in split_list(values) or [""]] for key, values in tags.items()]
    return [dict(chosen) for chosen in product(*choices)]

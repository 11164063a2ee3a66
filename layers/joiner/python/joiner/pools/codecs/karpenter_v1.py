"""Reads the current kinds: NodePool (karpenter.sh/v1) and EC2NodeClass (karpenter.k8s.aws/v1), with their defaults.

Source: Karpenter, "NodePools" and "NodeClasses".
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from joiner.cluster import Requirements
from joiner.pools.codecs.consolidation_annotations import read_consolidation_limits
from joiner.pools.codecs.disruption_annotations import read_disruption_settings
from joiner.pools.codecs.idle_annotations import NOT_CONSOLIDATED
from joiner.pools.codecs.instance_options import (
    read_connection_tracking,
    read_nested_virtualization,
    read_network_interfaces,
    read_placement_group,
)
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.codecs.node_class_fields import read_block_devices, read_kubelet, read_metadata_options, read_tags
from joiner.pools.codecs.object_metadata import read_metadata, read_spec
from joiner.pools.codecs.planning_annotations import read_pool_planning
from joiner.pools.codecs.pool_requirements import (
    note_contradictions,
    read_min_values,
    read_pool_labels,
    read_pool_taints,
    read_requirements,
    require_labels,
    split_labels,
)
from joiner.pools.cron_schedules import CronSchedule
from joiner.pools.durations import parse_duration
from joiner.pools.node_class import (
    CapacityReservationTerm,
    ImageFamily,
    ImageTerm,
    NodeClass,
    SecurityGroupTerm,
    SubnetTerm,
)
from joiner.pools.node_pool import (
    CLASS_GROUP,
    ConsolidationPolicy,
    Disruption,
    DisruptionBudget,
    NodeClassRef,
    NodePool,
)

FAMILY_NAMES: tuple[str, ...] = tuple(family for family in get_args(ImageFamily) if family != "Ubuntu")
UBUNTU_REMEDY = (
    "this kind has no such family, as in Karpenter v1: set AL2, whose bootstrap script the EKS images of Ubuntu have, "
    "select the images by id, name or tags in amiSelectorTerms, and give the root volume /dev/sda1 in "
    "blockDeviceMappings; or set Custom and write the whole user data"
)
POLICIES: tuple[ConsolidationPolicy, ...] = get_args(ConsolidationPolicy)
ALIAS = re.compile(
    r"(al2|al2023)@(latest|v[0-9]{8})"
    r"|bottlerocket@(latest|v?[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z]+)?)"
    r"|(windows2019|windows2022|windows2025)@(latest|v?[0-9].*)"
)
ALIAS_REMEDY = 'give family@release, such as "al2023@latest", "al2023@v20261104" or "bottlerocket@v1.50.0"'
ALIAS_FAMILY: Mapping[str, ImageFamily] = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}
SCHEDULE = r"@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(\S+\s+){4}\S+"
REASONS = ("Underutilized", "Empty", "Drifted")
OF_CONSOLIDATION = frozenset({"Underutilized", "Empty"})
DEFAULT_POLICY: ConsolidationPolicy = "WhenEmptyOrUnderutilized"
MONTH = 720 * 3600
MAXIMUM_TERMS = 30
TERMS: Mapping[str, str] = {
    "subnetSelectorTerms": "[{tags: {karpenter.sh/discovery: my-cluster}}]",
    "securityGroupSelectorTerms": "[{tags: {karpenter.sh/discovery: my-cluster}}]",
    "amiSelectorTerms": "[{alias: al2023@latest}]",
}
"""The selectors of a class, with an example of each."""


def read_pool(manifest: Mapping[str, Any], notes: ManifestProblems) -> NodePool:
    """Read a NodePool. Use the result only if ``notes`` has no errors afterwards."""
    spec = read_spec(manifest, notes)
    template = spec.sub("template")
    if "template" not in spec:
        spec.wrong("template", "it is missing: set at least template.spec.nodeClassRef")
    meta, node = template.sub("metadata"), template.sub("spec")
    declared = read_requirements(node, "requirements", legacy=False)
    note_contradictions(declared, notes, node.at("requirements"))
    labels = read_pool_labels(meta, "labels", legacy=False)
    taints, startup_taints = read_pool_taints(node, "taints", "startupTaints")
    pool = NodePool(
        **read_metadata(manifest),
        class_ref=_read_class_ref(node.sub("nodeClassRef")),
        weight=spec.integer("weight", minimum=1, maximum=100) or 0,
        requirements=require_labels(Requirements.from_kube(declared), labels, notes, meta.at("labels")),
        min_values=read_min_values(declared),
        **split_labels(labels),
        annotations=meta.texts("annotations"),
        taints=taints,
        startup_taints=startup_taints,
        limits=spec.limits("limits"),
        used=ManifestFields(manifest.get("status"), "status", notes).resources("resources", signed=True),
        disruption=replace(
            _read_disruption(spec.sub("disruption")),
            limits=read_consolidation_limits(manifest, notes),
            settings=read_disruption_settings(manifest, notes),
        ),
        planning=read_pool_planning(manifest, notes),
        expire_after=node.duration("expireAfter", MONTH),
        termination_grace_period=node.duration("terminationGracePeriod", None),
        replicas=spec.integer("replicas", minimum=0),
        own_annotations=(manifest.get("metadata") or {}).get("annotations") or {},
    )
    if pool.replicas is not None:
        _check_static(spec, pool)
    for fields in (meta, node, template, spec):
        fields.close()
    return pool


def _check_static(spec: ManifestFields, pool: NodePool) -> None:
    if pool.weight:
        spec.wrong("weight", "a pool with replicas takes no weight; remove one of them")
    if set(pool.limits) - {"nodes"}:
        spec.wrong("limits", "a pool with replicas can only be limited in nodes")
    disruption = spec.sub("disruption")
    if pool.disruption.policy != DEFAULT_POLICY:  # the API server sets the defaults, so they say nothing of the user
        disruption.wrong("consolidationPolicy", NOT_CONSOLIDATED, "warning")
    if pool.disruption.consolidate_after != 0:
        disruption.wrong("consolidateAfter", NOT_CONSOLIDATED, "warning")
    for budget in disruption.many("budgets"):
        if (reasons := budget.raw("reasons")) and OF_CONSOLIDATION.issuperset(reasons):
            budget.wrong("reasons", NOT_CONSOLIDATED, "warning")


def _read_class_ref(fields: ManifestFields) -> NodeClassRef:
    group, kind, name = fields.text("group"), fields.text("kind"), fields.text("name")
    for missing in (key for key in ("group", "kind", "name") if key not in fields):
        example = {"group": CLASS_GROUP, "kind": "EC2NodeClass"}.get(missing, "the name of an EC2NodeClass")
        fields.wrong(missing, f"it is missing: write {example}")
    if group is not None and group != CLASS_GROUP:
        fields.wrong("group", f"use {CLASS_GROUP}")
    if kind is not None and kind != "EC2NodeClass":
        fields.wrong("kind", "use EC2NodeClass")
    fields.close()
    return NodeClassRef("EC2NodeClass", name or "")


def _read_disruption(fields: ManifestFields) -> Disruption:
    policy = fields.text("consolidationPolicy", one_of=POLICIES)
    disruption = Disruption(
        policy=next((known for known in POLICIES if known == policy), DEFAULT_POLICY),
        consolidate_after=fields.duration("consolidateAfter", 0),
        budgets=tuple(_read_budget(item) for item in fields.many("budgets")) or (DisruptionBudget(),),
    )
    fields.close()
    return disruption


def _read_budget(item: ManifestFields) -> DisruptionBudget:
    reasons = item.raw("reasons") or []
    for reason in reasons:
        if reason not in REASONS:
            item.wrong("reasons", f"use {', '.join(REASONS)}")
    schedule = item.text(
        "schedule", pattern=SCHEDULE, remedy='give five cron fields, such as "0 9 * * mon-fri", or @daily'
    )
    duration = item.text(
        "duration", pattern=r"([0-9]+(m|h))+(0s)?", remedy='give hours and minutes, such as "8h" or "1h30m"'
    )
    if schedule is not None:
        try:
            if not CronSchedule.parse(schedule).occurs:
                item.wrong("schedule", "it never occurs, so that the budget limits nothing: correct it", "warning")
        except ValueError as reason:
            item.wrong("schedule", f"{reason}; while it is not valid, the budget allows no disruption", "warning")
    if ("schedule" in item) != ("duration" in item):
        item.wrong("schedule" if "schedule" in item else "duration", "schedule and duration must be given together")
    nodes = item.text(
        "nodes", pattern=r"(100|[0-9]{1,2})%|[0-9]+", remedy='give a number ("5") or a percentage ("10%") in quotes'
    )
    item.close()
    return DisruptionBudget(
        nodes=nodes or "10%",
        reasons=tuple(reasons),
        schedule=schedule,
        duration=parse_duration(duration) if duration else None,
    )


def read_ec2_node_class(manifest: Mapping[str, Any], notes: ManifestProblems) -> NodeClass:
    """Read an EC2NodeClass. Use the result only if ``notes`` has no errors afterwards."""
    spec = read_spec(manifest, notes)
    images = _read_image_terms(spec)
    node_class = NodeClass(
        **read_metadata(manifest),
        kind="EC2NodeClass",
        subnet_terms=tuple(SubnetTerm(**_read_term(item, "id")) for item in _terms(spec, "subnetSelectorTerms")),
        security_group_terms=tuple(
            SecurityGroupTerm(**_read_term(item, "id", "name")) for item in _terms(spec, "securityGroupSelectorTerms")
        ),
        image_terms=images,
        ami_family=_read_family(spec, images),
        role=spec.text("role"),
        instance_profile=spec.text("instanceProfile"),
        block_devices=read_block_devices(spec, "blockDeviceMappings", legacy=False),
        user_data=spec.text("userData"),
        tags=read_tags(spec, "tags"),
        metadata_options=read_metadata_options(spec.sub("metadataOptions"), hop_limit=1),
        kubelet=read_kubelet(spec.sub("kubelet")) if "kubelet" in spec else None,
        instance_store_policy=spec.text("instanceStorePolicy", one_of=("RAID0",)),
        detailed_monitoring=bool(spec.boolean("detailedMonitoring")),
        associate_public_ip_address=spec.boolean("associatePublicIPAddress"),
        context=spec.text("context"),
        capacity_reservation_terms=_read_reservation_terms(spec),
        network_interfaces=read_network_interfaces(spec),
        connection_tracking=read_connection_tracking(spec),
        nested_virtualization=read_nested_virtualization(spec),
        ip_prefix_count=spec.integer("ipPrefixCount", minimum=0) or 0,
        placement_group=read_placement_group(spec),
    )
    if "role" in spec and "instanceProfile" in spec:
        spec.wrong("instanceProfile", "role and instanceProfile exclude each other; remove one of them")
    spec.close()
    return node_class


def _terms(spec: ManifestFields, name: str) -> list[ManifestFields]:
    terms = spec.many(name)
    if name not in spec:
        spec.notes.missing(spec.at(name), f"it is missing: write for example {TERMS[name]}")
    elif not 1 <= len(terms) <= MAXIMUM_TERMS:
        spec.wrong(name, f"give 1 to {MAXIMUM_TERMS} terms, such as {TERMS[name]}")
    return terms


def _read_term(item: ManifestFields, *keys: str) -> dict[str, Any]:
    """Read a selector term, which must have exactly one of tags and ``keys``."""
    tags, found = item.texts("tags"), {key: item.text(key) or "" for key in keys}
    item.close()
    if len([value for value in (tags, *found.values()) if value]) != 1:
        item.notes.note(item.path, item.value, f"give exactly one of tags, {', '.join(keys)}")
    return {"tags": tags, **found}


def _read_reservation_terms(spec: ManifestFields) -> tuple[CapacityReservationTerm, ...]:
    name = "capacityReservationSelectorTerms"
    terms, items = [], spec.many(name)
    if len(items) > MAXIMUM_TERMS:
        spec.wrong(name, f"give at most {MAXIMUM_TERMS} terms")
    for item in items:
        term = CapacityReservationTerm(
            tags=item.texts("tags"),
            id=item.text("id", pattern="cr-[0-9a-z]+", remedy='give an id such as "cr-0123456789abcdef0"') or "",
            owner=item.text("ownerID", pattern="[0-9]{12}", remedy="give the 12 digits of an account") or "",
            match=item.text("instanceMatchCriteria", one_of=("open", "targeted")) or "",
        )
        item.close()
        others = bool(term.tags or term.match)
        if bool(term.id) == others or (term.id and term.owner):
            remedy = "give id alone, or tags or instanceMatchCriteria (with ownerID, if wanted)"
            item.notes.note(item.path, item.value, remedy)
        terms.append(term)
    return tuple(terms)


def _read_image_terms(spec: ManifestFields) -> tuple[ImageTerm, ...]:
    terms: list[ImageTerm] = []
    items = _terms(spec, "amiSelectorTerms")
    for item in items:
        term = ImageTerm(
            alias=item.text("alias", pattern=ALIAS.pattern, remedy=ALIAS_REMEDY) or "",
            id=item.text("id", pattern="ami-[0-9a-z]+", remedy='give an image id, such as "ami-0123456789abcdef0"')
            or "",
            name=item.text("name") or "",
            owner=item.text("owner") or "",
            ssm_parameter=item.text("ssmParameter") or "",
            tags=item.texts("tags"),
        )
        item.close()
        combined = bool(term.name or term.owner or term.tags)
        if sum(("alias" in item, "id" in item, "ssmParameter" in item, combined)) != 1:
            item.notes.note(
                item.path,
                item.value,
                "give alias alone, or id alone, or ssmParameter alone, or tags or name (with owner, if wanted)",
            )
        elif term.owner and not (term.name or term.tags):
            item.wrong("owner", "an owner alone selects all of its images: give name or tags beside it")
        if term.alias and len(items) > 1:
            item.wrong("alias", "an alias must be the only term")
        terms.append(term)
    return tuple(terms)


def _read_family(spec: ManifestFields, terms: tuple[ImageTerm, ...]) -> ImageFamily | None:
    remedy = UBUNTU_REMEDY if spec.raw("amiFamily") == "Ubuntu" else ""
    family_name = spec.text("amiFamily", one_of=FAMILY_NAMES, remedy=remedy)
    family = next((known for known in get_args(ImageFamily) if known == family_name), None)
    alias = next((match for term in terms if (match := ALIAS.fullmatch(term.alias))), None)
    if alias is None:
        if family is None and terms and ImageTerm() not in terms:  # an empty term has its own problem
            spec.wrong("amiFamily", "it is missing: without an alias, it decides which user data the images can read")
        return family
    of_alias = ALIAS_FAMILY[alias[0].partition("@")[0]]
    if family not in (None, of_alias, "Custom"):
        spec.wrong("amiFamily", f"the alias is of the family {of_alias}; remove amiFamily or use that")
    return family or of_alias

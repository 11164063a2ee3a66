"""The subnets, security groups and images that a node class selects, and selected resources that the settings do not
allow.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from joiner.launching.node_class_answers import Answer, NodeClassAnswers
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from joiner.launching.node_class_queries import Filters, build_queries
from joiner.launching.node_images import choose_image_family, find_alias
from joiner.launching.placement_group_matching import SELECTOR
from joiner.pools import NodeClass, NodeClassProblem, SecurityGroup, Subnet
from joiner.pools.node_class import field_path
from joiner.pools.resolved_node_class import PLACEMENT_GROUP_READY

RESERVATIONS: Final = "spec.capacityReservationSelectorTerms"
"""The field of an EC2NodeClass; no other kind has it."""

USUAL_GROUPS: Final = 5
"""Security groups of a network interface that every account may have."""

MOST_GROUPS: Final = 16
"""Security groups of a network interface with the highest quota."""


def read_subnets(described: Sequence[Answer], public: bool | None) -> tuple[Subnet, ...]:
    """Return the subnets, those with the most free addresses first."""
    return tuple(sorted({_subnet(one, public) for one in described}, key=lambda subnet: subnet.precedence))


def list_public_subnets(found: NodeClassAnswers) -> list[str]:
    """Return the ids of the subnets whose instances have a public address by default."""
    return sorted({one["SubnetId"] for one in found.subnets if one.get("MapPublicIpOnLaunch")})


def read_security_groups(found: NodeClassAnswers) -> tuple[SecurityGroup, ...]:
    """Return the security groups, sorted by id."""
    groups = {SecurityGroup(one["GroupId"], one.get("GroupName", "")) for one in found.security_groups}
    return tuple(sorted(groups, key=lambda group: group.id))


def _subnet(described: Answer, public: bool | None) -> Subnet:
    """Read a subnet. The class decides about public addresses before the subnet's MapPublicIpOnLaunch."""
    return Subnet(
        described["SubnetId"],
        described["AvailabilityZone"],
        described.get("AvailableIpAddressCount"),
        described.get("AvailabilityZoneId", ""),
        bool(described.get("MapPublicIpOnLaunch")) if public is None else public,
    )


def describe_filters(filters: Sequence[Mapping[str, Any]]) -> str:
    """Return filters as text for a message.

    >>> describe_filters([{"Name": "tag:karpenter.sh/discovery", "Values": ["prod"]}])
    'tag karpenter.sh/discovery = prod'
    """
    words = {"tag-key": "any tag"}
    return " and ".join(
        f"tag {one['Name'][4:]} = {one['Values'][0]}"
        if one["Name"].startswith("tag:")
        else f"{words.get(one['Name'], one['Name'])} {one['Values'][0]}"
        for one in filters
    )


def find_subnet_problems(
    node_class: NodeClass, found: NodeClassAnswers, ceilings: NodeClassPolicy, cluster: str
) -> list[NodeClassProblem]:
    """Return the problem of a class that selects no subnet, or subnets that the settings do not allow."""
    field = field_path(node_class, "subnetSelector")
    if found.subnets:
        beyond = _beyond(found.subnets, "SubnetId", ceilings.subnets)
        message = explain_not_allowed(field, "subnet", "subnets", beyond, ceilings.subnets)
        return [NodeClassProblem("SubnetsReady", "SubnetNotAllowed", message)] if beyond else []
    terms = build_queries(node_class, "", cluster=cluster).subnets
    message = _explain_none_found(field, "subnet", terms, "tag the subnets that nodes may use")
    return [NodeClassProblem("SubnetsReady", "SubnetsNotFound", message)]


def find_group_problems(
    node_class: NodeClass, found: NodeClassAnswers, ceilings: NodeClassPolicy, cluster: str
) -> list[NodeClassProblem]:
    """Return the problems of security groups: none selected, too many, or some that the settings do not allow."""
    field, allowed = field_path(node_class, "securityGroupSelector"), ceilings.security_groups
    if found.security_groups:
        beyond = _beyond(found.security_groups, "GroupId", allowed)
        message = explain_not_allowed(field, "security group", "securityGroups", beyond, allowed)
        refused = [NodeClassProblem("SecurityGroupsReady", "SecurityGroupNotAllowed", message)] if beyond else []
        return [*refused, *_count_problems(field, sorted(each["GroupId"] for each in found.security_groups))]
    terms = build_queries(node_class, "", cluster=cluster).security_groups
    message = _explain_none_found(field, "security group", terms, "tag the security groups that nodes shall have")
    return [NodeClassProblem("SecurityGroupsReady", "SecurityGroupsNotFound", message)]


def _explain_none_found(field: str, kind: str, terms: Sequence[Filters], tagging: str) -> str:
    """Return that no resource meets a term, with the remedy; ``tagging`` helps only terms that select by tags."""
    wanted = "; or ".join(describe_filters(term) for term in terms)
    by_tags = any(one["Name"].startswith("tag") for term in terms for one in term)
    remedy = f"{tagging}, or change the selector" if by_tags else "select one that exists in this region"
    return f"{field}: no {kind} has {wanted}: {remedy}"


def explain_no_image(node_class: NodeClass, ceilings: NodeClassPolicy, version: str) -> str:
    """Return that a class finds no image for this version of Kubernetes: the field, what it names, and the remedy."""
    field = field_path(node_class, "amiSelector")
    family, alias = choose_image_family(node_class), find_alias(node_class)
    if family:
        where = f"{field}: alias {alias}" if alias else f"{field_path(node_class, 'amiFamily')}: {family}"
        return (
            f"{where}: AWS has no {family} image of this release for Kubernetes {version}: use "
            f"{family.lower()}@latest, or a release that exists for it"
        )
    owners = f" among images of {', '.join(ceilings.image_owners)} (the settings' imageOwners)"
    wanted = "; or ".join(_describe_image_terms(node_class))
    return (
        f"{field}: no image has {wanted}{owners if ceilings.image_owners else ''}: select one that exists in this "
        "region, or have its owner allowed"
    )


def _describe_image_terms(node_class: NodeClass) -> list[str]:
    """Return the terms as text. The query for a parameter's image has no term of its own."""
    queries = iter(build_queries(node_class, "", cluster="").images)
    found = []
    for term in node_class.image_terms:
        if term.ssm_parameter:
            found.append(f"the id of the parameter {term.ssm_parameter}")
        elif not term.alias:
            owner = f"the owner {term.owner}" if term.owner else ""
            found.append(" and ".join(filter(None, (describe_filters(next(queries).filters), owner))))
    return found


def find_problems_beyond_settings(found: NodeClassAnswers, ceilings: NodeClassPolicy) -> list[NodeClassProblem]:
    """Return the problems of capacity reservations and placement groups that the settings do not allow."""
    problems = []
    if ceilings.reservations is not None:
        allowed = ceilings.reservations
        if beyond := _beyond(found.reservations, "CapacityReservationId", allowed):
            message = explain_not_allowed(RESERVATIONS, "capacity reservation", "capacityReservations", beyond, allowed)
            problems.append(NodeClassProblem("ValidationSucceeded", "CapacityReservationNotAllowed", message))
    if ceilings.placement_groups is not None:
        allowed = ceilings.placement_groups
        if beyond := _beyond(found.placement_groups, "GroupName", allowed):
            message = explain_not_allowed(SELECTOR, "placement group", "placementGroups", beyond, allowed)
            problems.append(NodeClassProblem(PLACEMENT_GROUP_READY, "PlacementGroupNotAllowed", message))
    return problems


def _count_problems(field: str, groups: Sequence[str]) -> list[NodeClassProblem]:
    """Return the problem of more security groups than a network interface can have.

    The default quota of an account is five; it can be raised to sixteen. Source: Amazon VPC user guide, "Amazon VPC
    quotas" (security groups per network interface).
    """
    if len(groups) <= USUAL_GROUPS:
        return []
    found = f"{field}: it selects {len(groups)} security groups ({', '.join(groups)})"
    if len(groups) > MOST_GROUPS:
        message = f"{found}, and a network interface has at most {MOST_GROUPS}: select fewer"
        return [NodeClassProblem("SecurityGroupsReady", "TooManySecurityGroups", message)]
    message = (
        f"{found}, and EC2 refuses more than {USUAL_GROUPS} for a network interface unless the quota of the account "
        "was raised: select fewer, or request a higher quota of security groups per network interface (L-2AFB9258)"
    )
    return [NodeClassProblem("SecurityGroupsReady", "TooManySecurityGroups", message, "warning")]


def _beyond(described: Sequence[Answer], key: str, allowed: AllowedResources) -> list[str]:
    """Return the ids that the settings do not allow.

    The author of the class selected them, so each one is reported.
    """
    tags = {each[key]: {tag["Key"]: tag["Value"] for tag in each.get("Tags", ())} for each in described}
    return sorted(identifier for identifier in tags if not allowed.allows(identifier, tags[identifier]))


def explain_not_allowed(field: str, kind: str, setting: str, beyond: Sequence[str], allowed: AllowedResources) -> str:
    """Return the problem of resources beyond the setting below ``nodeClasses``, with the remedy: a tag helps only if
    the setting allows some."""
    there = f"nodeClasses.{setting} in clusters/NAME.yaml and deploy"
    if allowed.tags:
        remedy = f"tag it so, select others, or add it to {there}"
    else:
        remedy = f"{'select others, or ' if allowed.ids else ''}name it, or a tag that it has, in {there}"
    return f"{field}: the settings do not allow the {kind} {', '.join(beyond)}; they allow {allowed}: {remedy}"

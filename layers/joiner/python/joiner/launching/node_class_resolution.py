"""Resolve a node class: the subnets, security groups, images and instance profile of its nodes.

A class that cannot be resolved is also a value. Its problems become conditions. Its pools plan no nodes; other pools
continue.
"""

from collections.abc import Sequence

from joiner import names
from joiner.catalogue.ec2_instance_types import ARCHITECTURES
from joiner.launching.additional_cost_computation import compute_node_costs
from joiner.launching.block_devices import VolumeAnswers, find_volume_problems
from joiner.launching.class_manifest_problems import (
    allowed_roles,
    find_assumed_family,
    find_assumed_role,
    find_family_problems,
    find_unmounted_root,
    find_unpriced_licence,
    find_user_data_problems,
    find_windows_role,
    find_wrong_role,
    role_remedy,
)
from joiner.launching.image_families.image_family_registry import default_devices
from joiner.launching.image_families.image_variants import requirements_of
from joiner.launching.image_owners import find_alias_problems, find_owner_problems
from joiner.launching.ipv6_nodes import find_ipv6_problems, select_usable_subnets
from joiner.launching.node_class_answers import Answer, NodeClassAnswers
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.launching.node_images import (
    choose_family,
    list_image_parameters,
    sort_newest_first,
)
from joiner.launching.node_interfaces import find_interface_problems, gives_public_address
from joiner.launching.placement_group_matching import (
    find_placement_problems,
    limit_subnets,
    read_placement_group,
)
from joiner.launching.reservation_matching import find_reservation_problems, read_reservations
from joiner.launching.selected_resources import (
    explain_no_image,
    find_group_problems,
    find_problems_beyond_settings,
    find_subnet_problems,
    list_public_subnets,
    read_security_groups,
    read_subnets,
)
from joiner.launching.subnet_addresses import find_address_problems
from joiner.pools import Image, NodeClass, NodeClassProblem, ResolvedNodeClass, Subnet
from joiner.pools.node_class import field_path


def resolve_node_class(
    node_class: NodeClass,
    found: NodeClassAnswers,
    ceilings: NodeClassPolicy,
    *,
    cluster: str,
    kubernetes_version: str,
    overhead_price: float = 0.0,
) -> ResolvedNodeClass:
    """Return the AWS resources of this class and its problems.

    ``cluster`` is the name of the cluster. ``overhead_price`` is what the running of a node costs in $/h.
    """
    group = read_placement_group(found.placement_groups)
    selected = read_subnets(select_usable_subnets(node_class, found.subnets), gives_public_address(node_class))
    subnets = limit_subnets(selected, group, found.group_zones)
    images = _images(node_class, found, kubernetes_version)
    profile, profile_problems = _instance_profile(node_class, found, ceilings)
    reservations = read_reservations(found.reservations, found.asked_at, group)
    return ResolvedNodeClass(
        node_class.name,
        node_class.kind,
        ami_family=choose_family(node_class),
        subnets=subnets,
        security_groups=read_security_groups(found),
        images=images,
        instance_profile=profile,
        problems=(
            *find_subnet_problems(node_class, found, ceilings, cluster),
            *find_address_problems(node_class, subnets),
            *find_ipv6_problems(node_class, found.subnets),
            *find_group_problems(node_class, found, ceilings, cluster),
            *_all_image_problems(node_class, found, images, ceilings, kubernetes_version),
            *profile_problems,
            *_declared_problems(node_class, found, ceilings),
            *find_reservation_problems(node_class, reservations),
            *find_problems_beyond_settings(found, ceilings),
            *find_placement_problems(node_class, group, selected, found.group_zones),
        ),
        generation=node_class.generation,
        costs=compute_node_costs(node_class, _region(subnets), overhead_price),
        reservations=reservations,
        placement_group=group,
    )


def _region(subnets: Sequence[Subnet]) -> str:
    return next((names.region_of(subnet.zone) for subnet in subnets), "")


def _all_image_problems(
    node_class: NodeClass,
    found: NodeClassAnswers,
    images: Sequence[Image],
    ceilings: NodeClassPolicy,
    kubernetes_version: str,
) -> list[NodeClassProblem]:
    """Return the problems of the images: owners that are not allowed, images that do not suit, and missing ones."""
    field = field_path(node_class, "amiSelector")
    described = (*found.images, *found.parameter_images)
    return [
        *(
            find_owner_problems(node_class, ceilings, field=field)
            or find_alias_problems(described, ceilings, field=field)
        ),
        *_image_problems(node_class, images, ceilings, kubernetes_version),
        *_missing_images(node_class, images, ceilings),
        *_missing_parameters(node_class, images, found),
    ]


def _declared_problems(
    node_class: NodeClass, found: NodeClassAnswers, ceilings: NodeClassPolicy
) -> list[NodeClassProblem]:
    """Return the problems of user data, volumes and network interfaces that the class declares."""
    return [
        *find_user_data_problems(node_class),
        *find_windows_role(node_class, ceilings),
        *find_unmounted_root(node_class),
        *_volume_problems(node_class, found, ceilings),
        *find_interface_problems(node_class, list_public_subnets(found)),
    ]


def _volume_problems(
    node_class: NodeClass, found: NodeClassAnswers, ceilings: NodeClassPolicy
) -> list[NodeClassProblem]:
    answers = VolumeAnswers((*found.images, *found.parameter_images), found.snapshots, found.ebs_defaults)
    devices = node_class.block_devices or default_devices(choose_family(node_class))
    return find_volume_problems(devices, answers, ceilings, field=field_path(node_class, "blockDeviceMappings"))


def _images(node_class: NodeClass, found: NodeClassAnswers, version: str) -> tuple[Image, ...]:
    if parameters := list_image_parameters(node_class, version):
        named = ((parameter, found.parameters.get(parameter.name)) for parameter in parameters)
        return tuple(Image(image, parameter.arch, parameter.requirements) for parameter, image in named if image)
    described = {one["ImageId"]: one for one in found.images if one.get("Architecture") in ARCHITECTURES}
    return sort_newest_first(_image(one, found.asked_at) for one in described.values())


def _image(described: Answer, asked_at: str) -> Image:
    arch = ARCHITECTURES[described["Architecture"]]
    deprecation = str(described.get("DeprecationTime") or "")
    return Image(
        id=described["ImageId"],
        arch=arch,
        requirements=requirements_of(arch),
        name=described.get("Name", ""),
        created=str(described.get("CreationDate") or ""),
        deprecated=bool(deprecation) and deprecation <= asked_at,
    )


def _missing_images(
    node_class: NodeClass, images: Sequence[Image], ceilings: NodeClassPolicy
) -> list[NodeClassProblem]:
    """Return warnings for images that do not exist or have an owner that is not allowed.

    Only for images named by id, and only if other terms found an image.
    """
    missing = [term.id for term in node_class.image_terms if term.id and term.id not in {image.id for image in images}]
    if not missing or not images:
        return []
    owners = ", ".join(ceilings.image_owners) or "anybody"
    message = (
        f"{field_path(node_class, 'amiSelector')}: no image {', '.join(missing)} of {owners}: only the "
        f"images of the other terms are used"
    )
    return [NodeClassProblem("AMIsReady", "ImageNotFound", message, severity="warning")]


def _missing_parameters(
    node_class: NodeClass, images: Sequence[Image], found: NodeClassAnswers
) -> list[NodeClassProblem]:
    """Return a warning for parameters that do not exist; only if other terms found an image."""
    missing = [
        term.ssm_parameter
        for term in node_class.image_terms
        if term.ssm_parameter and term.ssm_parameter not in found.parameters
    ]
    if not missing or not images:
        return []
    message = (
        f"{field_path(node_class, 'amiSelector')}: there is no parameter {', '.join(missing)}: only the images of the "
        f"other terms are used"
    )
    return [NodeClassProblem("AMIsReady", "ParameterNotFound", message, severity="warning")]


def refuse_after_lookup(node_class: NodeClass, refusal: str) -> ResolvedNodeClass:
    """Return a class without parts, because AWS refused a query for them; `refusal` is its answer."""
    nothing = ResolvedNodeClass(node_class.name, node_class.kind, generation=node_class.generation)
    remedy = "put the class right, or allow the role of resolve_node_classes what it lacks"
    return nothing.with_problems([NodeClassProblem("ValidationSucceeded", "LookupFailed", f"{refusal}: {remedy}")])


def refuse_after_defect(node_class: NodeClass, defect: str) -> ResolvedNodeClass:
    """Return a class without parts, because Joiner could not read it or what AWS answered about it; `defect` says why.

    Pools of other classes go on.
    """
    nothing = ResolvedNodeClass(node_class.name, node_class.kind, generation=node_class.generation)
    message = f"Joiner cannot use the class or an answer of AWS about it ({defect}): change the class, and report this"
    return nothing.with_problems([NodeClassProblem("ValidationSucceeded", "ResolutionFailed", message)])


def _image_problems(
    node_class: NodeClass, images: Sequence[Image], ceilings: NodeClassPolicy, version: str
) -> list[NodeClassProblem]:
    problems = find_family_problems(node_class, version)
    if any(problem.condition == "AMIsReady" and problem.severity == "error" for problem in problems):
        return problems
    if images:
        return [*problems, *find_assumed_family(node_class), *find_unpriced_licence(node_class)]
    return [*problems, NodeClassProblem("AMIsReady", "AMIsNotFound", explain_no_image(node_class, ceilings, version))]


def _instance_profile(
    node_class: NodeClass, found: NodeClassAnswers, ceilings: NodeClassPolicy
) -> tuple[str, list[NodeClassProblem]]:
    """Return the instance profile of the nodes, and problems.

    It is the profile of the class, the profile of its role, or the default. It never has a role that the settings do
    not name.
    """
    of_role = ceilings.profile_of(node_class.role.rpartition("/")[2]) if node_class.role else ""
    profile = node_class.instance_profile or of_role or ceilings.instance_profile
    wrong = _wrong_with_profile(node_class.instance_profile, found, ceilings) if node_class.instance_profile else None
    wrong = wrong or (find_wrong_role(node_class.role, ceilings) if node_class.role else None)
    if not profile:
        wrong = wrong or ("InstanceProfileMissing", "there is no default instance profile: name one in instanceProfile")
    if not wrong:
        return profile, find_assumed_role(node_class, ceilings)
    reason, message = wrong
    field = "instanceProfile" if node_class.instance_profile or not node_class.role else "role"
    return "", [NodeClassProblem("InstanceProfileReady", reason, f"{field_path(node_class, field)}: {message}")]


def _wrong_with_profile(profile: str, found: NodeClassAnswers, ceilings: NodeClassPolicy) -> tuple[str, str] | None:
    roles = found.profile_roles.get(profile)
    if roles is None:
        message = f"there is no instance profile {profile}: create it, or leave the field out for the default one"
        return "InstanceProfileNotFound", message
    if not roles:
        return "InstanceProfileEmpty", f"the instance profile {profile} has no role: add one to it"
    refused_role = next((role for role in roles if role not in allowed_roles(ceilings)), None)
    return (
        ("RoleNotAllowed", f"the instance profile {profile} has the role {refused_role}; {role_remedy(ceilings)}")
        if refused_role
        else None
    )

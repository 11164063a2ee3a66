"""The problems of a node class that its manifest alone shows, without a query to AWS.

``resolve_node_class`` reports them in a cluster, and ``find_manifest_problems`` in a plan from files.
"""

from collections.abc import Mapping
from dataclasses import replace

from joiner.catalogue.family_capacity import family_capacity
from joiner.launching.block_devices import find_declared_volume_problems
from joiner.launching.image_families.image_family import FamilyOfImages, refuse, warn
from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES, SNAPSHOTS_GIB, default_devices
from joiner.launching.image_owners import find_owner_problems
from joiner.launching.ipv6_nodes import find_ipv6_problems
from joiner.launching.named_resources import find_refused_resources
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.launching.node_images import (
    PUBLIC_PARAMETERS,
    choose_family,
    choose_image_family,
    find_alias,
    is_public_parameter,
)
from joiner.launching.node_interfaces import find_interface_problems
from joiner.launching.user_data import LIMIT_BYTES
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import field_path


def find_manifest_problems(node_class: NodeClass, ceilings: NodeClassPolicy | None = None) -> list[NodeClassProblem]:
    """Return what the manifest of a class shows: errors, for which a cluster launches no node, warnings, assumptions.

    ``ceilings`` are the limits of the settings; None if they are unknown.

    >>> script = NodeClass("default", ami_family="Bottlerocket", user_data="reboot")
    >>> [problem.reason for problem in find_manifest_problems(script)]
    ['InvalidUserData']
    """
    of_family = default_devices(choose_family(node_class))
    devices, root = node_class.block_devices or of_family, of_family[0].device_name if of_family else ""
    volumes = field_path(node_class, "blockDeviceMappings")
    owners = find_owner_problems(node_class, ceilings, field=field_path(node_class, "amiSelector")) if ceilings else []
    return [
        *owners,
        *find_family_problems(node_class),
        *find_assumed_family(node_class),
        *(find_refused_resources(node_class, ceilings) if ceilings else []),
        *(_role_problems(node_class, ceilings) if ceilings else []),
        *(find_windows_role(node_class, ceilings) if ceilings else []),
        *find_user_data_problems(node_class),
        *find_interface_problems(node_class),
        *find_ipv6_problems(node_class),
        *find_unmounted_root(node_class),
        *find_disabled_metadata(node_class),
        *find_declared_volume_problems(
            devices, ceilings, field=volumes, root=root, snapshots=_published_snapshots(node_class)
        ),
    ]


def _published_snapshots(node_class: NodeClass) -> Mapping[str, int] | None:
    """Return the sizes in GiB of the snapshots of AWS's images by device; None for a class that selects others."""
    family = choose_image_family(node_class)
    return None if family is None else SNAPSHOTS_GIB.get(family, {})


def find_unmounted_root(node_class: NodeClass) -> list[NodeClassProblem]:
    """Return the warning of a volume that is marked as the root volume, the one with the kubelet's files, and that
    nothing mounts: AWS's images keep these files on their root device, and only user data could change that.

    Source: Karpenter, "NodeClasses" (spec.blockDeviceMappings, rootVolume).
    """
    family = choose_family(node_class)
    marked = next((one.device_name for one in node_class.block_devices if one.root), "")
    root = default_devices(family)[0].device_name if default_devices(family) else ""
    named = not marked or not root or marked == root or family_capacity(node_class).fixed_pods_device
    if named or node_class.user_data or _published_snapshots(node_class) is None:
        return []
    message = (
        f"rootVolume of {marked} says that it has the kubelet's files, and plans count its size for pods: the images "
        f"have them on {root}: set rootVolume there, or mount the volume by userData"
    )
    return [warn(node_class, "blockDeviceMappings", "RootVolumeNotMounted", message)]


def find_disabled_metadata(node_class: NodeClass) -> list[NodeClassProblem]:
    """Return the warning of a class whose nodes cannot read the instance metadata: the bootstrap of every family reads
    the instance, its credentials and its addresses there. User data of a custom image may do without.

    Source: EKS, "Customize managed nodes with launch templates"; awslabs/amazon-eks-ami, nodeadm.
    """
    if node_class.metadata_options.http_endpoint != "disabled" or choose_family(node_class) == "Custom":
        return []
    message = "nodes read the instance metadata to join, and cannot without it: set it to enabled"
    return [warn(node_class, "metadataOptions.httpEndpoint", "MetadataDisabled", message)]


def find_family_problems(node_class: NodeClass, version: str = "") -> list[NodeClassProblem]:
    """Return the problems of a class's image family; ``version`` is that of the cluster, if it is known."""
    family, alias, of_images = choose_family(node_class), find_alias(node_class), choose_image_family(node_class)
    images_field = field_path(node_class, "amiSelector")
    if family not in IMAGE_FAMILIES:
        remedy = f"set amiFamily to one of {', '.join(IMAGE_FAMILIES)}"
        message = f"{family} is not supported yet: {remedy}"
        return [NodeClassProblem("AMIsReady", "FamilyNotSupported", message, about=field_path(node_class, "amiFamily"))]
    if alias and of_images is None:
        message = f"the alias {alias} is not supported yet: use al2023@latest, or name the image by id"
        return [NodeClassProblem("AMIsReady", "TermNotSupported", message, about=images_field)]
    if private := _find_private_parameter(node_class):
        return [private]
    ended = IMAGE_FAMILIES[of_images].explain_missing_images(version) if of_images else ""
    images = [NodeClassProblem("AMIsReady", "NoImagesForVersion", ended, about=images_field)] if ended else []
    return [*images, *_problems_of_family(node_class, IMAGE_FAMILIES[family])]


def _problems_of_family(node_class: NodeClass, family: FamilyOfImages) -> list[NodeClassProblem]:
    """Return what a class of this family cannot have. User data that EC2 does not take is not read: to parse a megabyte
    takes seconds, and `find_user_data_problems` refuses it.
    """
    if not find_user_data_problems(node_class):
        return [*family.find_problems(node_class)]
    where = field_path(node_class, "userData")
    found = family.find_problems(replace(node_class, user_data=None))
    return [problem for problem in found if not problem.message.startswith(where)]


def _find_private_parameter(node_class: NodeClass) -> NodeClassProblem | None:
    """Return the problem of the first parameter that the role of `resolve_node_classes` may not read; None without."""
    for index, term in enumerate(node_class.image_terms):
        if term.ssm_parameter and not is_public_parameter(term.ssm_parameter):
            field = f"{field_path(node_class, 'amiSelector')}[{index}].ssmParameter"
            message = (
                f"{field}: {term.ssm_parameter}: only the public parameters of AWS, {PUBLIC_PARAMETERS}..., can be "
                f"read, and no setting allows others: name the image by id, name or tags"
            )
            return NodeClassProblem(
                "AMIsReady", "TermNotSupported", message, about=field_path(node_class, "amiSelector")
            )
    return None


def find_assumed_family(node_class: NodeClass) -> list[NodeClassProblem]:
    """Return the assumption about a class that names no family."""
    if node_class.ami_family is not None or node_class.launch_template:
        return []
    message = (
        f"{field_path(node_class, 'amiFamily')} is not set: AL2023 is used (older software took AL2, of which there "
        "are no images from Kubernetes 1.33 on)"
    )
    return [NodeClassProblem("AMIsReady", "FamilyAssumed", message, "info", field_path(node_class, "amiFamily"))]


def find_assumed_role(node_class: NodeClass, ceilings: NodeClassPolicy | None) -> list[NodeClassProblem]:
    """Return the assumption about a class with neither role nor instance profile."""
    if node_class.role or node_class.instance_profile:
        return []
    named = next(iter(allowed_roles(ceilings)), "") if ceilings else ""
    default = (
        f"nodes have {named}, the first role of the settings" if named else "nodes have the default of the settings"
    )
    unset = (
        "role and instanceProfile are"
        if node_class.kind == "EC2NodeClass"
        else f"{field_path(node_class, 'instanceProfile')} is"
    )
    message = f"{unset} not set: {default} (nodeRoles.names)"
    field = "role" if node_class.kind == "EC2NodeClass" else "instanceProfile"
    return [NodeClassProblem("InstanceProfileReady", "RoleAssumed", message, "info", field_path(node_class, field))]


def find_unpriced_licence(node_class: NodeClass) -> list[NodeClassProblem]:
    """Return that the prices of Windows nodes are those of Linux: the catalogue has no prices of licences."""
    if not choose_family(node_class).startswith("Windows"):
        return []
    message = (
        "plans, limits and ceilings have the prices of Linux for its nodes, without the licence of Windows, which EC2 "
        "bills by vCPU: add it with a NodeOverlay (priceAdjustment)"
    )
    where = field_path(node_class, "amiSelector" if find_alias(node_class) else "amiFamily")
    return [NodeClassProblem("AMIsReady", "LicenceNotPriced", message, "info", where)]


def find_user_data_problems(node_class: NodeClass) -> list[NodeClassProblem]:
    """Return the problem of user data that is no Unicode, or larger than EC2's limit even without Joiner's part."""
    try:
        size = len((node_class.user_data or "").encode())
    except UnicodeEncodeError as error:
        message = f"U+{ord(error.object[error.start]):04X} is half a character: write the whole one, or remove it"
        return [refuse(node_class, "userData", "InvalidUserData", message)]
    if size <= LIMIT_BYTES:
        return []
    message = f"it has {size} bytes, and EC2 takes {LIMIT_BYTES}: shorten it"
    return [refuse(node_class, "userData", "UserDataSizeLimitExceeded", message)]


def _role_problems(node_class: NodeClass, ceilings: NodeClassPolicy) -> list[NodeClassProblem]:
    wrong = find_wrong_role(node_class.role, ceilings) if node_class.role else None
    if not wrong:
        return []
    reason, message = wrong
    return [NodeClassProblem("InstanceProfileReady", reason, f"{field_path(node_class, 'role')}: {message}")]


def find_windows_role(node_class: NodeClass, ceilings: NodeClassPolicy) -> list[NodeClassProblem]:
    """Return the warning of a class whose nodes run Windows with a role that EKS admits for Linux only. The role of an
    instance profile is not known."""
    if ceilings.windows_roles is None or not family_capacity(node_class).windows_build or node_class.instance_profile:
        return []
    role = (node_class.role or next(iter(ceilings.node_roles), "")).rpartition("/")[2]
    if role in {each.rpartition("/")[2] for each in ceilings.windows_roles}:
        return []
    message = (
        f"the access entry of {role} is of the type for Linux, with which pods of Windows nodes get no network: name a "
        "role of nodeRoles.windowsNames, or add this one there, in clusters/NAME.yaml, and deploy"
    )
    about = field_path(node_class, "role")
    return [NodeClassProblem("InstanceProfileReady", "RoleForLinux", message, "warning", about=about)]


def find_wrong_role(declared: str, ceilings: NodeClassPolicy) -> tuple[str, str] | None:
    """Return reason and message for a role that the settings do not allow or that has no instance profile."""
    role, allowed = declared.rpartition("/")[2], allowed_roles(ceilings)
    if role not in allowed:
        return "RoleNotAllowed", f"nodes may not have the role {role}; {role_remedy(ceilings)}"
    if not ceilings.profile_of(role):
        message = f"the deployment made no instance profile for {role}: deploy again, or name one in instanceProfile"
        return "InstanceProfileMissing", message
    return None


def allowed_roles(ceilings: NodeClassPolicy) -> tuple[str, ...]:
    """Return the names of the roles that nodes may have."""
    return tuple(role.rpartition("/")[2] for role in ceilings.node_roles)


def role_remedy(ceilings: NodeClassPolicy) -> str:
    """Return the allowed roles and how to allow another."""
    named = ", ".join(allowed_roles(ceilings)) or "none"
    return (
        f"the settings (nodeRoles) name {named}: add it there, in clusters/NAME.yaml, and deploy; or use one of those"
    )

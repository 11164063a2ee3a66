"""The permissions that calls of EC2 need.

Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2". A launch needs
permissions in two steps: CreateFleet for the request itself, then RunInstances for each pool in the name of the caller.
A pool whose launch is denied is an entry of the answer's `Errors` (`UnauthorizedOperation`), as are other refusals of
one pool. A resource that does not exist needs no permission: the call itself answers that it does not exist.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from joiner_local.aws.iam import account_lookups
from joiner_local.aws.iam.policy_evaluation import RequiredPermission
from joiner_local.aws.local_aws import REGION

Tags = Mapping[str, str]

BY_PREFIX: Final = {
    "i": "instance",
    "vol": "volume",
    "eni": "network-interface",
    "lt": "launch-template",
    "fleet": "fleet",
    "sir": "spot-instances-request",
    "sg": "security-group",
    "subnet": "subnet",
    "snap": "snapshot",
    "ami": "image",
    "cr": "capacity-reservation",
    "pg": "placement-group",
}
PUBLIC: Final = ("image", "snapshot")


def arn(kind: str, identifier: str = "*") -> str:
    """Return the ARN of a resource of EC2 with the account that owns it; images belong to no account.

    >>> arn("instance", "i-1"), arn("image", "ami-1")
    ('arn:aws:ec2:us-east-1:123456789012:instance/i-1', 'arn:aws:ec2:us-east-1::image/ami-1')
    """
    return f"arn:aws:ec2:{REGION}:{'' if kind in PUBLIC else account_lookups.owner(identifier)}:{kind}/{identifier}"


def ec2_required_permissions(operation: str, params: Mapping[str, Any]) -> Iterator[RequiredPermission] | None:
    """Return the permissions of the call itself; None for a call that is not known here."""
    if operation.startswith(("Describe", "GetEbs", "GetSpot")):
        return iter([RequiredPermission(f"ec2:{operation}", "*")])
    table = TABLE.get(operation)
    return None if table is None else table(params)


def _create_launch_template(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    return _created(
        "ec2:CreateLaunchTemplate", "launch-template", _tags_of(params, "launch-template"), "CreateLaunchTemplate"
    )


def _delete_launch_template(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    if (template := _template(params)) is not None:
        yield RequiredPermission(
            "ec2:DeleteLaunchTemplate", arn("launch-template", template.id), resource_tag_keys(template.id)
        )


def _terminate_instances(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    for each in params["InstanceIds"]:
        if account_lookups.has_instance(each):
            yield RequiredPermission("ec2:TerminateInstances", arn("instance", each), resource_tag_keys(each))


def _get_console_output(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    if account_lookups.has_instance(params["InstanceId"]):
        tags = resource_tag_keys(params["InstanceId"])
        yield RequiredPermission("ec2:GetConsoleOutput", arn("instance", params["InstanceId"]), tags)


def _create_fleet(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    yield from _created("ec2:CreateFleet", "fleet", _tags_of(params, "fleet"), "CreateFleet")
    complete = True
    for config in params.get("LaunchTemplateConfigs") or []:
        specification = config.get("LaunchTemplateSpecification") or {}
        if (template := _template(specification)) is None:
            complete = False
            continue
        yield RequiredPermission("ec2:CreateFleet", arn("launch-template", template.id), resource_tag_keys(template.id))
        for override in config.get("Overrides") or [{}]:
            data = {**_data(template, specification), **override}
            for each in used_resources(data):
                yield RequiredPermission("ec2:CreateFleet", each.resource, each.context)
    for kind in ("instance", "volume", "network-interface"):
        tags = _all_tags(params, kind)
        if complete or tags:  # a template that a dry run names, but did not create, may have the tags
            yield RequiredPermission("ec2:CreateFleet", arn(kind), request_tag_keys(tags))


def _run_instances(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    specification = params.get("LaunchTemplate") or {}
    template = _template(specification)
    data = {
        **(_data(template, specification) if template else {}),
        **{key: value for key, value in params.items() if key != "TagSpecifications"},
    }
    kinds = ("instance", "volume", "network-interface", "spot-instances-request")
    tags = {kind: {**_tags_of(data, kind), **_tags_of(params, kind)} for kind in kinds}
    spot = bool(data.get("InstanceMarketOptions"))
    yield from launch_permissions(data, template.id if template else None, tags, spot=spot)


def launch_permissions(
    data: Mapping[str, Any], template: str | None, tags: Mapping[str, Tags], *, spot: bool
) -> Iterator[RequiredPermission]:
    """Return the permissions of RunInstances for the data of a template with its override, and of what EC2 does for the
    caller."""
    if template:
        yield RequiredPermission("ec2:RunInstances", arn("launch-template", template), resource_tag_keys(template))
    for each in used_resources(data):
        yield RequiredPermission("ec2:RunInstances", each.resource, each.context)
    for kind in ("instance", "volume", "network-interface", *(["spot-instances-request"] if spot else [])):
        yield from _created("ec2:RunInstances", kind, tags.get(kind) or {}, "RunInstances")
    for role in account_lookups.roles_of_profile(data.get("IamInstanceProfile") or {}):
        yield RequiredPermission("iam:PassRole", role, {"iam:passedtoservice": ("ec2.amazonaws.com",)})


def used_resources(data: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    """Return the image, subnets, groups and snapshots of a launch as permissions without an action."""
    backend = account_lookups.ec2()
    if (image := data.get("ImageId")) in backend.amis:
        yield RequiredPermission(
            "",
            arn("image", str(image)),
            {**resource_tag_keys(str(image)), "ec2:owner": (account_lookups.shown_owner(backend.amis[image]),)},
        )
    subnets, groups = (
        set(filter(None, [data.get("SubnetId")])),
        set(data.get("SecurityGroupIds") or data.get("SecurityGroups") or ()),
    )
    for interface in data.get("NetworkInterfaces") or []:
        subnets |= {interface["SubnetId"]} if interface.get("SubnetId") else set()
        groups |= set(interface.get("Groups") or ())
    for each in sorted(subnets):
        yield RequiredPermission("", arn("subnet", each), {**resource_tag_keys(each), "ec2:subnetid": (each,)})
    for each in sorted(groups):
        yield RequiredPermission(
            "", arn("security-group", each), {**resource_tag_keys(each), "ec2:securitygroupid": (each,)}
        )
    if group := account_lookups.placement_group(data.get("Placement") or {}):
        yield RequiredPermission("", group[0], _tag_keys(group[1]))
    specification = data.get("CapacityReservationSpecification") or {}
    if reservation := (specification.get("CapacityReservationTarget") or {}).get("CapacityReservationId"):
        yield RequiredPermission("", arn("capacity-reservation", str(reservation)), resource_tag_keys(str(reservation)))
    for mapping in data.get("BlockDeviceMappings") or []:
        if snapshot := (mapping.get("Ebs") or {}).get("SnapshotId"):
            found = backend.snapshots.get(snapshot)
            owner = {"ec2:owner": (account_lookups.shown_owner(found),)} if found is not None else {}
            yield RequiredPermission("", arn("snapshot", snapshot), {**resource_tag_keys(snapshot), **owner})


def _create_tags(params: Mapping[str, Any]) -> Iterator[RequiredPermission]:
    tags = {each["Key"]: each.get("Value", "") for each in params.get("Tags") or []}
    for each in params.get("Resources") or []:
        kind = BY_PREFIX.get(each.partition("-")[0], "*")
        yield RequiredPermission(
            "ec2:CreateTags", arn(kind, each), {**request_tag_keys(tags), **resource_tag_keys(each)}
        )


def _created(action: str, kind: str, tags: Tags, creating: str) -> Iterator[RequiredPermission]:
    """Return the permissions to create a resource, and to tag it at its creation."""
    yield RequiredPermission(action, arn(kind), request_tag_keys(tags))
    if tags:
        yield RequiredPermission(
            "ec2:CreateTags", arn(kind), {**request_tag_keys(tags), "ec2:createaction": (creating,)}
        )


def request_tag_keys(tags: Tags) -> dict[str, Sequence[str]]:
    """Return the tags of a request as condition keys."""
    requested: dict[str, Sequence[str]] = {f"aws:requesttag/{key}".lower(): (value,) for key, value in tags.items()}
    return {**requested, "aws:tagkeys": tuple(tags)} if tags else requested


def resource_tag_keys(resource: str) -> dict[str, Sequence[str]]:
    """Return the tags of a resource as condition keys."""
    return _tag_keys(account_lookups.tags(resource))


def _tag_keys(tags: Tags) -> dict[str, Sequence[str]]:
    """Return the tags of a resource as condition keys, in both spellings."""
    return {f"{prefix}:resourcetag/{key}".lower(): (value,) for prefix in ("aws", "ec2") for key, value in tags.items()}


def _tags_of(params: Mapping[str, Any], kind: str) -> dict[str, str]:
    specifications = [each for each in params.get("TagSpecifications") or [] if each.get("ResourceType") == kind]
    return {tag["Key"]: tag.get("Value", "") for each in specifications for tag in each.get("Tags") or []}


def _all_tags(params: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Return the tags for one kind of resource in the request and its templates."""
    tags: dict[str, str] = {}
    for config in params.get("LaunchTemplateConfigs") or []:
        specification = config.get("LaunchTemplateSpecification") or {}
        if (template := _template(specification)) is not None:
            tags |= _tags_of(_data(template, specification), kind)
    return {**tags, **_tags_of(params, kind)}


def _template(specification: Mapping[str, Any]) -> Any | None:
    found = list(account_lookups.ec2().launch_templates.values())  # other requests make and delete some meanwhile
    return next(
        (
            each
            for each in found
            if each.id == specification.get("LaunchTemplateId") or each.name == specification.get("LaunchTemplateName")
        ),
        None,
    )


def _data(template: Any, specification: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of the template's version in the request; the call itself refuses an unknown version."""
    latest, asked = template.latest_version_number, str(specification.get("Version") or "$Default")
    number = int(asked) if asked.isdigit() else latest if asked == "$Latest" else template.default_version_number
    data: Mapping[str, Any] = template.versions[min(number, latest) - 1].data
    return data


TABLE: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[RequiredPermission]]]] = {
    "CreateFleet": _create_fleet,
    "CreateLaunchTemplate": _create_launch_template,
    "CreateTags": _create_tags,
    "DeleteLaunchTemplate": _delete_launch_template,
    "RunInstances": _run_instances,
    "TerminateInstances": _terminate_instances,
    "GetConsoleOutput": _get_console_output,
}

"""What calls of EC2 ask for. Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2".

A launch asks in two steps. CreateFleet is asked for by the request itself. What a fleet launches is RunInstances in the caller's name: a
pool whose launch is not allowed is an entry of the answer's `Errors` (`UnauthorizedOperation`), as other refusals of one pool are.
A permission for what does not exist is not asked for: the call itself answers that it does not exist.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from joiner_local.aws.iam import facts
from joiner_local.aws.iam.evaluation import Question
from joiner_local.aws.local_aws import ACCOUNT, REGION

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
}
PUBLIC: Final = ("image", "snapshot")


def arn(kind: str, identifier: str = "*") -> str:
    """
    >>> arn("instance", "i-1"), arn("image", "ami-1")
    ('arn:aws:ec2:us-east-1:123456789012:instance/i-1', 'arn:aws:ec2:us-east-1::image/ami-1')
    """
    return f"arn:aws:ec2:{REGION}:{'' if kind in PUBLIC else ACCOUNT}:{kind}/{identifier}"


def questions(operation: str, params: Mapping[str, Any]) -> Iterator[Question] | None:
    """All that the call itself asks for; None for a call that is not known here."""
    if operation.startswith(("Describe", "GetEbs")):
        return iter([Question(f"ec2:{operation}", "*")])
    table = TABLE.get(operation)
    return None if table is None else table(params)


def _create_launch_template(params: Mapping[str, Any]) -> Iterator[Question]:
    return _created("ec2:CreateLaunchTemplate", "launch-template", _tags_of(params, "launch-template"), "CreateLaunchTemplate")


def _terminate_instances(params: Mapping[str, Any]) -> Iterator[Question]:
    for each in params["InstanceIds"]:
        if facts.has_instance(each):
            yield Question("ec2:TerminateInstances", arn("instance", each), owned(each))


def _create_fleet(params: Mapping[str, Any]) -> Iterator[Question]:
    yield from _created("ec2:CreateFleet", "fleet", _tags_of(params, "fleet"), "CreateFleet")
    complete = True
    for config in params.get("LaunchTemplateConfigs") or []:
        said = config.get("LaunchTemplateSpecification") or {}
        if (template := _template(said)) is None:
            complete = False
            continue
        yield Question("ec2:CreateFleet", arn("launch-template", template.id), owned(template.id))
        for override in config.get("Overrides") or [{}]:
            data = {**_data(template, said), **override}
            for each in used(data):
                yield Question("ec2:CreateFleet", each.resource, each.context)
    for kind in ("instance", "volume", "network-interface"):
        tags = _all_tags(params, kind)
        if complete or tags:  # a template that a dry run names, but did not create, may have the tags
            yield Question("ec2:CreateFleet", arn(kind), asked_tags(tags))


def _run_instances(params: Mapping[str, Any]) -> Iterator[Question]:
    said = params.get("LaunchTemplate") or {}
    template = _template(said)
    data = {**(_data(template, said) if template else {}), **{key: value for key, value in params.items() if key != "TagSpecifications"}}
    tags = {kind: {**_tags_of(data, kind), **_tags_of(params, kind)} for kind in ("instance", "volume", "network-interface")}
    spot = bool(data.get("InstanceMarketOptions"))
    yield from launch(data, template.id if template else None, tags, spot=spot)


def launch(data: Mapping[str, Any], template: str | None, tags: Mapping[str, Tags], *, spot: bool) -> Iterator[Question]:
    """RunInstances of what a template with an override over it says, and what it does in the caller's name."""
    if template:
        yield Question("ec2:RunInstances", arn("launch-template", template), owned(template))
    for each in used(data):
        yield Question("ec2:RunInstances", each.resource, each.context)
    for kind in ("instance", "volume", "network-interface", *(["spot-instances-request"] if spot else [])):
        yield from _created("ec2:RunInstances", kind, tags.get(kind) or {}, "RunInstances")
    for role in facts.roles_of_profile(data.get("IamInstanceProfile") or {}):
        yield Question("iam:PassRole", role, {"iam:passedtoservice": ("ec2.amazonaws.com",)})


def used(data: Mapping[str, Any]) -> Iterator[Question]:
    """The image, subnet, groups and snapshots that a launch names; the action of the questions is empty."""
    backend = facts.ec2()
    if (image := data.get("ImageId")) in backend.amis:
        yield Question("", arn("image", str(image)), {**owned(str(image)), "ec2:owner": (facts.image_owner(str(image)),)})
    subnets, groups = set(filter(None, [data.get("SubnetId")])), set(data.get("SecurityGroupIds") or data.get("SecurityGroups") or ())
    for interface in data.get("NetworkInterfaces") or []:
        subnets |= {interface["SubnetId"]} if interface.get("SubnetId") else set()
        groups |= set(interface.get("Groups") or ())
    for each in sorted(subnets):
        yield Question("", arn("subnet", each), {**owned(each), "ec2:subnetid": (each,)})
    for each in sorted(groups):
        yield Question("", arn("security-group", each), {**owned(each), "ec2:securitygroupid": (each,)})
    for mapping in data.get("BlockDeviceMappings") or []:
        if snapshot := (mapping.get("Ebs") or {}).get("SnapshotId"):
            found = backend.snapshots.get(snapshot)
            owner = {"ec2:owner": (str(found.owner_id),)} if found is not None else {}
            yield Question("", arn("snapshot", snapshot), {**owned(snapshot), **owner})


def _create_tags(params: Mapping[str, Any]) -> Iterator[Question]:
    tags = {each["Key"]: each.get("Value", "") for each in params.get("Tags") or []}
    for each in params.get("Resources") or []:
        kind = BY_PREFIX.get(each.partition("-")[0], "*")
        yield Question("ec2:CreateTags", arn(kind, each), {**asked_tags(tags), **owned(each)})


def _created(action: str, kind: str, tags: Tags, creating: str) -> Iterator[Question]:
    """What makes a resource, and what tags it as it is made."""
    yield Question(action, arn(kind), asked_tags(tags))
    if tags:
        yield Question("ec2:CreateTags", arn(kind), {**asked_tags(tags), "ec2:createaction": (creating,)})


def asked_tags(tags: Tags) -> dict[str, Sequence[str]]:
    """Tags that a request sets, as condition keys."""
    said: dict[str, Sequence[str]] = {f"aws:requesttag/{key}".lower(): (value,) for key, value in tags.items()}
    return {**said, "aws:tagkeys": tuple(tags)} if tags else said


def owned(resource: str) -> dict[str, Sequence[str]]:
    """Tags that a resource carries, as condition keys, in both spellings."""
    carried = (facts.tags(resource) or {}).items()
    return {f"{prefix}:resourcetag/{key}".lower(): (value,) for prefix in ("aws", "ec2") for key, value in carried}


def _tags_of(said: Mapping[str, Any], kind: str) -> dict[str, str]:
    specifications = [each for each in said.get("TagSpecifications") or [] if each.get("ResourceType") == kind]
    return {tag["Key"]: tag.get("Value", "") for each in specifications for tag in each.get("Tags") or []}


def _all_tags(params: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Of the request and of its templates."""
    tags: dict[str, str] = {}
    for config in params.get("LaunchTemplateConfigs") or []:
        said = config.get("LaunchTemplateSpecification") or {}
        if (template := _template(said)) is not None:
            tags |= _tags_of(_data(template, said), kind)
    return {**tags, **_tags_of(params, kind)}


def _template(said: Mapping[str, Any]) -> Any | None:
    found = facts.ec2().launch_templates.values()
    return next((each for each in found if each.id == said.get("LaunchTemplateId") or each.name == said.get("LaunchTemplateName")), None)


def _data(template: Any, said: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the asked version says; an unknown version is the call's to refuse."""
    latest, asked = template.latest_version_number, str(said.get("Version") or "$Default")
    number = int(asked) if asked.isdigit() else latest if asked == "$Latest" else template.default_version_number
    data: Mapping[str, Any] = template.versions[min(number, latest) - 1].data
    return data


TABLE: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Question]]]] = {
    "CreateFleet": _create_fleet,
    "CreateLaunchTemplate": _create_launch_template,
    "CreateTags": _create_tags,
    "RunInstances": _run_instances,
    "TerminateInstances": _terminate_instances,
}

"""Launch templates: checks of EC2 that moto lacks.

EC2 refuses user data that is not base64 in CreateLaunchTemplate, and an unknown id in DeleteLaunchTemplate. Tags of a
template (`TagSpecifications` of the request, type launch-template) are not tags of what it launches; moto writes them
into the template's data.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses import EC2Response
from moto.ec2.utils import parse_user_data

from joiner_local.aws.attribute_patches import wrap_attribute
from joiner_local.aws.ec2.fleet_requests import user_data_problem

LISTED_AT_ONCE: Final = 200
"""Templates in one answer. Source: EC2 API reference, DescribeLaunchTemplates."""


def install() -> None:
    """Patch moto's operations on launch templates."""
    listed = EC2Response.describe_launch_templates
    wrap_attribute(EC2Response, "describe_launch_templates", _describe_templates, listed)
    for name, patched in (
        ("delete_launch_template", _delete),
        ("describe_launch_template_versions", _describe_versions),
        ("create_launch_template", _create),
        ("create_launch_template_version", _create_version),
    ):
        original = getattr(EC2Response, name)
        wrap_attribute(EC2Response, name, _around(original, patched), original)


Operation = Callable[[Any], ActionResult]


def _around(original: Operation, patched: Callable[[Any, Operation], ActionResult]) -> Operation:
    @functools.wraps(original)
    def operation(response: Any) -> ActionResult:
        return patched(response, original)

    return operation


def _create(response: Any, original: Operation) -> ActionResult:
    _check(response)
    answer = original(response)
    name = response._get_param("LaunchTemplateName")
    data = response.ec2_backend.get_launch_template_by_name(name).default_version().data
    data["TagSpecifications"] = [
        s for s in data.get("TagSpecifications", []) if s.get("ResourceType") != "launch-template"
    ]
    return answer


def _create_version(response: Any, original: Operation) -> ActionResult:
    _check(response)
    data = response._get_param("LaunchTemplateData", {})
    data["UserData"] = parse_user_data(data.get("UserData"))
    return original(response)


def _describe_versions(response: Any, original: Operation) -> ActionResult:
    answer = original(response)
    versions = [
        {**each, "LaunchTemplateData": shown(each["LaunchTemplateData"])}
        for each in answer.result["LaunchTemplateVersions"]
    ]
    return ActionResult({"LaunchTemplateVersions": versions})


def _describe_templates(response: Any) -> ActionResult:
    """Page by page; moto leaves out all templates after the first fifteen."""
    size = min(response._get_int_param("MaxResults", LISTED_AT_ONCE), LISTED_AT_ONCE)
    start = int(response._get_param("NextToken") or 0)
    asked = {
        "template_names": response._get_param("LaunchTemplateNames", []),
        "template_ids": response._get_param("LaunchTemplateIds", []),
        "filters": response._filters_from_querystring(),
    }
    found = response.ec2_backend.describe_launch_templates(**asked)
    owner = f"arn:{response.partition}:iam::{response.current_account}:root"
    following = {"NextToken": str(start + size)} if start + size < len(found) else {}
    return ActionResult({"LaunchTemplates": [_listed(each, owner) for each in found[start : start + size]]} | following)


def _delete(response: Any, original: Operation) -> ActionResult:
    template = response._get_param("LaunchTemplateId")
    if template and template not in response.ec2_backend.launch_templates:
        raise EC2ClientError(
            "InvalidLaunchTemplateId.NotFound",
            f"The specified launch template, with template ID {template}, does not exist.",
        )
    return original(response)


def _listed(template: Any, owner: str) -> dict[str, Any]:
    return {
        "CreateTime": template.create_time,
        "CreatedBy": owner,
        "DefaultVersionNumber": template.default_version_number,
        "LatestVersionNumber": template.latest_version_number,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Tags": template.get_tags(),
    }


def shown(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a version's data as EC2 shows it: in another order, and with fields that were not set.

    >>> shown({"SecurityGroupIds": ["sg-1", "sg-2"], "MetadataOptions": {"HttpTokens": "required"}})["MetadataOptions"]
    {'State': 'applied', 'HttpTokens': 'required'}
    """
    described = dict(data)
    if "MetadataOptions" in described:
        described["MetadataOptions"] = {"State": "applied", **described["MetadataOptions"]}
    if "SecurityGroupIds" in described:
        described["SecurityGroupIds"] = list(reversed(described["SecurityGroupIds"]))
    described["TagSpecifications"] = [
        {**each, "Tags": list(reversed(each.get("Tags", [])))} for each in described.get("TagSpecifications") or []
    ]
    return {key: value for key, value in described.items() if value is not None}


def _check(response: Any) -> None:
    user_data = response._get_param("LaunchTemplateData.UserData")
    if user_data and (problem := user_data_problem(str(user_data))):
        raise EC2ClientError(*problem)

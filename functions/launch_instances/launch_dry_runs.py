"""Dry runs of a launch: EC2's answers to the requests of a launch, sent with this function's own role.

Nothing is created. `joiner accept` requests dry runs. EC2 answers `DryRunOperation` if the role has the permission,
else `UnauthorizedOperation`; boto3 raises both as errors. Source: EC2 API reference, "Common query parameters",
`DryRun`.
"""

from collections.abc import Mapping
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from joiner.launching import Launch
from joiner.names import SPOT

FROM_TEMPLATE: Final = (
    "BlockDeviceMappings",
    "CapacityReservationSpecification",
    "CpuOptions",
    "IamInstanceProfile",
    "ImageId",
    "InstanceMarketOptions",
    "MetadataOptions",
    "Monitoring",
    "NetworkInterfaces",
    "Placement",
    "SecurityGroupIds",
)
"""The fields that RunInstances accepts in the template's form."""


def send_dry_runs(client: Any, launch: Launch) -> dict[str, dict[str, str]]:
    """Return EC2's answers: ``{"launch-template" | "run-instances" | "create-fleet": {"code", "message"}}``."""
    template = launch.templates[0]
    tags = _tags(template.tags)
    specification = [{"ResourceType": "launch-template", "Tags": tags}]
    asked = {
        "launch-template": (
            client.create_launch_template,
            {
                "LaunchTemplateName": template.name,
                "LaunchTemplateData": template.data,
                "TagSpecifications": specification,
            },
        ),
        "run-instances": (client.run_instances, build_run_request(launch)),
        "create-fleet": (client.create_fleet, dict(launch.request)),
    }
    return {name: _answer(call, arguments) for name, (call, arguments) in asked.items()}


def build_run_request(launch: Launch) -> dict[str, Any]:
    """Return the RunInstances request for the first offering, as the fleet would launch it.

    It has the fields of the launch template itself: EC2 reads the keys of conditions, such as
    `ec2:MetadataHttpTokens`, from the request and not from a template (karpenter-provider-aws#9256).
    """
    data = launch.templates[0].data
    offer = launch.request["LaunchTemplateConfigs"][0]["Overrides"][0]
    fields = {name: data[name] for name in FROM_TEMPLATE if name in data}
    if "NetworkInterfaces" in fields:
        fields["NetworkInterfaces"] = [{**each, "SubnetId": offer["SubnetId"]} for each in fields["NetworkInterfaces"]]
    else:
        fields["SubnetId"] = offer["SubnetId"]
    fleet_tags = [each for each in launch.request["TagSpecifications"] if each["ResourceType"] != "fleet"]
    spot = {"InstanceMarketOptions": {"MarketType": SPOT}} if launch.capacity_type == SPOT else {}
    return {
        **spot,
        **fields,
        "InstanceType": offer["InstanceType"],
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [*fleet_tags, *data["TagSpecifications"]],
    }


def _answer(call: Any, arguments: Mapping[str, Any]) -> dict[str, str]:
    try:
        call(DryRun=True, **arguments)
    except ClientError as error:
        return {
            "code": str(error.response["Error"].get("Code")),
            "message": str(error.response["Error"].get("Message")),
        }
    except BotoCoreError as error:
        return {"code": type(error).__name__, "message": str(error)}
    return {"code": "NoDryRun", "message": "EC2 answered as if it were no dry run"}


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]

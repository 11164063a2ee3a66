"""Everything that a test needs to launch instances: a seeded cluster, one launch template of its own, and short calls
of CreateFleet.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from joiner_local.aws.account_setup.cluster_network import Network

IMAGE_PARAMETER = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/{}/standard/recommended/image_id"


@dataclass(frozen=True, slots=True)
class LaunchPad:
    """`ec2` and `ssm` are boto3 clients. All instances go into the network's subnets, zone a first."""

    ec2: Any
    ssm: Any
    network: Network
    template: str

    @classmethod
    def build(cls, ec2: Any, ssm: Any, network: Network, name: str, **data: Any) -> "LaunchPad":
        data.setdefault("SecurityGroupIds", [network.security_group])
        ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
        return cls(ec2, ssm, network, name)

    def image(self, architecture: str = "x86_64") -> str:
        value: str = self.ssm.get_parameter(Name=IMAGE_PARAMETER.format(architecture))["Parameter"]["Value"]
        return value

    def override(self, instance_type: str = "m5.large", zone: str = "a", **more: Any) -> dict[str, Any]:
        return {
            "InstanceType": instance_type,
            "SubnetId": self.network.subnets[f"us-east-1{zone}"],
            "AvailabilityZone": f"us-east-1{zone}",
            "ImageId": self.image(),
            "IamInstanceProfile": {"Name": self.network.instance_profile},
            **more,
        }

    def fleet(
        self,
        overrides: Sequence[dict[str, Any]],
        count: int = 1,
        *,
        spot: bool = False,
        strategy: str = "",
        user_data: bytes = b"",
        **more: Any,
    ) -> dict[str, Any]:
        """Call CreateFleet of type instant; return its response."""
        specification = {"LaunchTemplateName": self.template, "Version": "$Latest"}
        if user_data:
            specification["LaunchTemplateSpecificationUserData"] = base64.b64encode(user_data).decode()
        if strategy:
            more["SpotOptions" if spot else "OnDemandOptions"] = {"AllocationStrategy": strategy}
        answer: dict[str, Any] = self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": specification, "Overrides": list(overrides)}],
            TargetCapacitySpecification={
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": "spot" if spot else "on-demand",
            },
            **more,
        )
        return answer

    def launch(
        self, override: dict[str, Any] | None = None, count: int = 1, *, spot: bool = False, user_data: bytes = b""
    ) -> list[str]:
        """Launch instances, assert that it succeeds, and return their ids."""
        answer = self.fleet([override or self.override()], count, spot=spot, user_data=user_data)
        assert answer["Errors"] == []
        return launched(answer)

    def instance(self, instance_id: str) -> dict[str, Any]:
        instance: dict[str, Any] = self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0][
            "Instances"
        ][0]
        return instance

    def ids(self, filters: Sequence[dict[str, Any]]) -> set[str]:
        """Return the ids of all instances that the filters select."""
        pages = self.ec2.get_paginator("describe_instances").paginate(Filters=list(filters))
        return {each["InstanceId"] for page in pages for one in page["Reservations"] for each in one["Instances"]}

    def state(self, instance_id: str) -> str:
        state: str = self.instance(instance_id)["State"]["Name"]
        return state


def launched(answer: dict[str, Any]) -> list[str]:
    return [instance for group in answer["Instances"] for instance in group["InstanceIds"]]


def chosen(answer: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return type, zone and number of the instances that a fleet launched."""
    return [
        (group["InstanceType"], group["AvailabilityZone"], len(group["InstanceIds"])) for group in answer["Instances"]
    ]


def errors(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return code, type and zone of the pools that a fleet did not launch from."""
    overrides = [(error["ErrorCode"], error["LaunchTemplateAndOverrides"]["Overrides"]) for error in answer["Errors"]]
    return [(code, override["InstanceType"], override["AvailabilityZone"]) for code, override in overrides]


def tags(resource: dict[str, Any]) -> dict[str, str]:
    """Return the tags of a resource, without those that EC2 adds itself."""
    found = resource.get("Tags", []) or resource.get("TagSet", [])
    return {tag["Key"]: tag["Value"] for tag in found if not tag["Key"].startswith("aws:")}

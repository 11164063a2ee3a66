"""Stacks for tests: deployed through boto3, their history read from the events."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.local.running_aws import RunningAws


@dataclass(slots=True)
class StackUnderTest:
    """A stack with a unique name. Operations return its status when they have ended."""

    aws: RunningAws
    name: str = field(default_factory=lambda: RunningAws.fresh("stack"))
    stack_id: str = ""

    def create(self, resources: Mapping[str, Any], **sections: Any) -> str:
        template = json.dumps({"Resources": resources, **sections})
        self.stack_id = self.cloudformation.create_stack(StackName=self.name, TemplateBody=template)["StackId"]
        return self.status

    def update(self, resources: Mapping[str, Any], **sections: Any) -> str:
        self.cloudformation.update_stack(
            StackName=self.name, TemplateBody=json.dumps({"Resources": resources, **sections})
        )
        return self.status

    def delete(self, **options: Any) -> str:
        self.cloudformation.delete_stack(StackName=self.name, **options)
        return self.status

    @property
    def cloudformation(self) -> Any:
        return self.aws.client("cloudformation")

    @property
    def described(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cloudformation.describe_stacks(StackName=self.stack_id)["Stacks"][0]
        return found

    @property
    def status(self) -> str:
        return str(self.described["StackStatus"])

    @property
    def outputs(self) -> dict[str, str]:
        return {output["OutputKey"]: output["OutputValue"] for output in self.described.get("Outputs", [])}

    @property
    def _events(self) -> list[dict[str, Any]]:
        """Return every resource's events since the last operation began, in their order."""
        events = list(reversed(self.cloudformation.describe_stack_events(StackName=self.stack_id)["StackEvents"]))
        begun = max(i for i, event in enumerate(events) if event.get("ResourceStatusReason") == "User Initiated")
        return events[begun + 1 :]

    @property
    def story(self) -> list[str]:
        """Return those events as `LogicalId STATUS`."""
        return [f"{event['LogicalResourceId']} {event['ResourceStatus']}" for event in self._events]

    def of(self, logical_id: str) -> list[str]:
        return [line.split()[1] for line in self.story if line.startswith(f"{logical_id} ")]

    def reason(self, logical_id: str) -> str:
        """Return why a resource failed first."""
        own = [event for event in self._events if event["LogicalResourceId"] == logical_id]
        return next(str(event["ResourceStatusReason"]) for event in own if event["ResourceStatus"].endswith("_FAILED"))

    @property
    def failures(self) -> dict[str, str]:
        """Return the reasons by resource, for the message of a failed test."""
        failed = [event for event in self._events if event["ResourceStatus"].endswith("_FAILED")]
        return {event["LogicalResourceId"]: event.get("ResourceStatusReason", "") for event in failed}

    def physical_id(self, logical_id: str) -> str:
        found = self.cloudformation.describe_stack_resource(StackName=self.stack_id, LogicalResourceId=logical_id)
        return str(found["StackResourceDetail"]["PhysicalResourceId"])


def parameter(value: Any, **more: Any) -> dict[str, Any]:
    """Return an SSM parameter, the smallest resource."""
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **more}


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def ref(name: str) -> dict[str, str]:
    return {"Ref": name}


def att(name: str, attribute: str) -> dict[str, list[str]]:
    return {"Fn::GetAtt": [name, attribute]}

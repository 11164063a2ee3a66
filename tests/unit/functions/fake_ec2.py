"""EC2 for a scale-up, behind the real adapter: instant fleets with their tokens, instances with their tags.

A test declares which offerings are short. The fleet takes the first of its offers that is not, as "lowest-price" does
with priorities.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

Answer = dict[str, Any]
Fault = Callable[[str, Callable[[], Answer]], Answer]


def refused(operation: str, code: str, message: str = "refused", status: int = 400) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


def lost(operation: str) -> ReadTimeoutError:
    return ReadTimeoutError(endpoint_url=f"https://ec2/{operation}")


@dataclass
class FakeEc2Client:
    """The methods of a boto3 client of EC2 that `joiner.adapters.ec2_client` uses; `asked` lists every call."""

    short: set[tuple[str, str]] = field(default_factory=set)
    """Type and zone of offerings that have no capacity."""
    instances: dict[str, Answer] = field(default_factory=dict)
    templates: dict[str, Answer] = field(default_factory=dict)
    fleets: dict[str, Answer] = field(default_factory=dict)
    fleet_requests: list[Mapping[str, Any]] = field(default_factory=list)
    statuses: dict[str, Answer] = field(default_factory=dict)
    """What DescribeInstanceStatus shows of instances in trouble."""
    asked: list[str] = field(default_factory=list)
    fault: Fault | None = None
    consoles: dict[str, str] = field(default_factory=dict)
    """Console outputs, by instance id."""
    lock: Lock = field(default_factory=Lock)
    """Several threads launch at once, and each instance needs an id of its own."""

    def get_console_output(self, **asked: Any) -> Answer:
        return self._do("GetConsoleOutput", lambda: self._console(asked["InstanceId"]))

    def _console(self, instance: str) -> Answer:
        if instance not in self.instances:
            raise refused("GetConsoleOutput", "InvalidInstanceID.NotFound")
        return {"InstanceId": instance, "Output": self.consoles[instance]} if instance in self.consoles else {}

    def create_launch_template(self, **asked: Any) -> Answer:
        return self._do("CreateLaunchTemplate", lambda: self._template(asked))

    def describe_launch_template_versions(self, **asked: Any) -> Answer:
        return self._do("DescribeLaunchTemplateVersions", lambda: self._versions(asked["LaunchTemplateName"]))

    def create_fleet(self, **asked: Any) -> Answer:
        return self._do("CreateFleet", lambda: self._fleet(asked))

    def create_tags(self, **asked: Any) -> Answer:
        return self._do("CreateTags", lambda: self._tag(asked))

    def terminate_instances(self, **asked: Any) -> Answer:
        return self._do("TerminateInstances", lambda: self._terminate(asked["InstanceIds"]))

    def get_paginator(self, operation: str) -> "FakePages | FakeStatusPages":
        assert operation in ("describe_instances", "describe_instance_status")
        return FakePages(self) if operation == "describe_instances" else FakeStatusPages(self)

    def _do(self, operation: str, do: Callable[[], Answer]) -> Answer:
        self.asked.append(operation)
        return self.fault(operation, do) if self.fault else do()

    def _template(self, asked: Mapping[str, Any]) -> Answer:
        name = asked["LaunchTemplateName"]
        with self.lock:
            if name in self.templates:
                raise refused("CreateLaunchTemplate", "InvalidLaunchTemplateName.AlreadyExistsException")
            self.templates[name] = asked["LaunchTemplateData"]
        return {}

    def _versions(self, name: str) -> Answer:
        return {"LaunchTemplateVersions": [{"VersionNumber": 1, "LaunchTemplateData": self.templates[name]}]}

    def _fleet(self, asked: Mapping[str, Any]) -> Answer:
        token = asked["ClientToken"]
        with self.lock:
            if token not in self.fleets:
                self.fleet_requests.append(asked)
                self.fleets[token] = self._launched(asked)
            return self.fleets[token]

    def _launched(self, asked: Mapping[str, Any]) -> Answer:
        configs = asked["LaunchTemplateConfigs"]
        missing = [
            name
            for config in configs
            if (name := config["LaunchTemplateSpecification"]["LaunchTemplateName"]) not in self.templates
        ]
        if missing:
            raise refused("CreateFleet", "InvalidLaunchTemplateName.NotFoundException", missing[0])
        offers = [(config, override) for config in configs for override in config["Overrides"]]
        open_offers = [
            (config, each)
            for config, each in offers
            if (each["InstanceType"], each["AvailabilityZone"]) not in self.short
        ]
        errors = [
            {
                "ErrorCode": "InsufficientInstanceCapacity",
                "ErrorMessage": "none left",
                "LaunchTemplateAndOverrides": {"Overrides": each},
            }
            for _, each in offers
            if (each["InstanceType"], each["AvailabilityZone"]) in self.short
        ]
        if not open_offers:
            return {"Instances": [], "Errors": errors}
        config, chosen = min(open_offers, key=lambda offer: float(offer[1]["Priority"]))
        count = asked["TargetCapacitySpecification"]["TotalTargetCapacity"]
        made = [self._run(config, chosen, asked) for _ in range(count)]
        group = {
            "InstanceIds": made,
            "InstanceType": chosen["InstanceType"],
            "LaunchTemplateAndOverrides": {"Overrides": chosen},
        }
        return {"Instances": [group], "Errors": errors}

    def _run(self, config: Mapping[str, Any], chosen: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
        instance = f"i-{len(self.instances):04d}"
        tags = next(each["Tags"] for each in asked["TagSpecifications"] if each["ResourceType"] == "instance")
        template = self.templates[config["LaunchTemplateSpecification"]["LaunchTemplateName"]]
        self.instances[instance] = {
            "InstanceId": instance,
            "InstanceType": chosen["InstanceType"],
            "Placement": {"AvailabilityZone": chosen["AvailabilityZone"]},
            "ImageId": template["ImageId"],
            "SubnetId": chosen["SubnetId"],
            "SecurityGroups": [{"GroupId": group} for group in template["SecurityGroupIds"]],
            "State": {"Name": "running"},
            "LaunchTime": datetime(2026, 11, 21, 12, tzinfo=UTC),
            "Tags": [dict(tag) for tag in tags],
        }
        return instance

    def _terminate(self, ids: list[str]) -> Answer:
        if unknown := [each for each in ids if each not in self.instances]:
            raise refused("TerminateInstances", "InvalidInstanceID.NotFound", unknown[0])
        for each in ids:
            self.instances[each]["State"] = {"Name": "terminated"}
        return {}

    def _tag(self, asked: Mapping[str, Any]) -> Answer:
        for instance in asked["Resources"]:
            if instance not in self.instances:
                raise refused("CreateTags", "InvalidInstanceID.NotFound")
            self.instances[instance]["Tags"] += asked["Tags"]
        return {}


@dataclass
class FakePages:
    """DescribeInstances, in one page."""

    client: FakeEc2Client

    def paginate(
        self, *, Filters: Sequence[Mapping[str, Any]] = (), InstanceIds: Sequence[str] = ()
    ) -> Iterator[Answer]:
        yield self.client._do(
            "DescribeInstances", lambda: self._named(InstanceIds) if InstanceIds else self._page(Filters)
        )

    def _named(self, ids: Sequence[str]) -> Answer:
        if unknown := [each for each in ids if each not in self.client.instances]:
            raise refused("DescribeInstances", "InvalidInstanceID.NotFound", unknown[0])
        return {"Reservations": [{"Instances": [self.client.instances[each] for each in ids]}]}

    def _page(self, filters: Sequence[Mapping[str, Any]]) -> Answer:
        found = [each for each in self.client.instances.values() if all(_matches(each, wanted) for wanted in filters)]
        return {"Reservations": [{"Instances": found}]}


@dataclass
class FakeStatusPages:
    """DescribeInstanceStatus of running instances, in one page."""

    client: FakeEc2Client

    def paginate(self, *, Filters: Sequence[Mapping[str, Any]]) -> Iterator[Answer]:
        yield self.client._do("DescribeInstanceStatus", lambda: self._page(Filters))

    def _page(self, filters: Sequence[Mapping[str, Any]]) -> Answer:
        running = [each for each in self.client.statuses if self.client.instances[each]["State"]["Name"] == "running"]
        shown = [{"InstanceId": each, **self.client.statuses[each]} for each in running]
        return {"InstanceStatuses": [each for each in shown if all(_in_trouble(each, wanted) for wanted in filters)]}


def _in_trouble(status: Answer, wanted: Mapping[str, Any]) -> bool:
    if wanted["Name"] == "event.code":
        return any(each["Code"] in wanted["Values"] for each in status.get("Events", ()))
    part = {"instance-status.status": "InstanceStatus", "system-status.status": "SystemStatus"}[wanted["Name"]]
    return status.get(part, {}).get("Status") in wanted["Values"]


def _matches(instance: Answer, wanted: Mapping[str, Any]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    if wanted["Name"] == "instance-state-name":
        return instance["State"]["Name"] in wanted["Values"]
    if wanted["Name"] == "capacity-reservation-id":
        return instance.get("CapacityReservationId") in wanted["Values"]
    if wanted["Name"] == "instance-id":
        return instance["InstanceId"] in wanted["Values"]
    if wanted["Name"] == "tag-key":
        return any(key in tags for key in wanted["Values"])
    return tags.get(wanted["Name"].removeprefix("tag:")) in wanted["Values"]

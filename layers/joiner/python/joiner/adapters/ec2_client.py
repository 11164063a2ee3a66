"""Joiner's EC2 calls: Describe calls (always by pages), CreateFleet, launch templates, tags and TerminateInstances.

Answers stay EC2's own dictionaries where another package reads them (`joiner.launching`, `joiner.catalogue`); instances
become values here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.adapters.ec2_errors import (
    UNKNOWN_INSTANCE,
    Ec2Error,
    NoAnswer,
    ResourceNotFound,
    TemplateDiffers,
    translate_errors,
)
from joiner.adapters.ec2_instances import Answer, Instance, launched_for, list_tags
from joiner.adapters.parallel_calls import call_each
from joiner.launching.fleet_request import TEMPLATE_VERSION
from joiner.launching.launch_template_comparison import compare_launch_templates
from joiner.launching.unused_launch_templates import StoredLaunchTemplate
from joiner.launching.user_launch_templates import DescribedTemplate
from joiner.lifecycle.instance_health import EVENT_CODES, IMPAIRED, InstanceStatus
from joiner.names import CLUSTER_NAME_TAG, LAUNCH, NODEPOOL, cluster_tag, template_prefix
from joiner.pools import LaunchTemplateVersion

ALIVE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
NO_LATEST_OUTPUT: Final = "UnsupportedOperation"  # of GetConsoleOutput, for types without Nitro
UNKNOWN_GROUP: Final = "InvalidPlacementGroup"  # the beginning of the codes for a group that does not exist
TAGGED_AT_ONCE: Final = 500
NAMED_AT_ONCE: Final = 200  # values of all filters of one call
TERMINATED_AT_ONCE: Final = 500  # EC2 accepts 1,000 ids; half of them keeps a refused call small


@dataclass(frozen=True, slots=True)
class Terminated:
    """The results of a termination, by instance id; each instance is in one of the three parts.

    `ended`: EC2 accepted the termination; `absent`: EC2 does not know the instance; `refused`: all others, with the
    reason.
    """

    ended: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    refused: Mapping[str, Ec2Error] = field(default_factory=dict)


class Ec2:
    """One region of one account. `fleets` is the client for CreateFleet, which takes longer than other calls and must
    not be sent twice.
    """

    def __init__(self, client: Any, fleets: Any = None) -> None:
        self._client = client
        self._fleets = fleets or client

    # Describe calls

    def pages(self, operation: str, result: str, **asked: Any) -> list[Answer]:
        """Return all results of a Describe call, page by page (EC2 throttles unpaginated calls first)."""
        with translate_errors():
            paginator = self._client.get_paginator(operation)
            return [item for page in paginator.paginate(**asked) for item in page.get(result, ())]

    def zones_by_id(self) -> dict[str, str]:
        """Return the names of the zones of the region, by their ids."""
        with translate_errors():
            found = self._client.describe_availability_zones()["AvailabilityZones"]
        return {str(each["ZoneId"]): str(each["ZoneName"]) for each in found}

    def instances_of_launch(self, launch_id: str) -> list[Instance]:
        """Return the instances, not terminated, that have a launch's tag, by id.

        DescribeInstances lags behind CreateFleet by seconds: an empty answer does not prove that nothing was launched.
        """
        return self._instances([{"Name": f"tag:{LAUNCH}", "Values": [launch_id]}])

    def instances_of_cluster(self, cluster: str, *, ended: bool = False) -> list[Instance]:
        """Return the instances that Joiner launched for a cluster and may terminate; with `ended` also terminated ones.

        They have the launch tag and the three tags that the condition of `ec2:TerminateInstances` requires
        (infra/aws_permissions.py).
        """
        owned = [
            {"Name": f"tag:{cluster_tag(cluster)}", "Values": ["owned"]},
            {"Name": "tag-key", "Values": [NODEPOOL]},
        ]
        return self._instances([*launched_for(cluster), *owned], ended=ended)

    def instances_left_of_cluster(self, cluster: str) -> list[Instance]:
        """Return the instances, not terminated, that Joiner launched for a cluster, also those without the other tags
        that termination requires.

        Used to check whether any instance remains before Joiner is removed.
        """
        return self._instances(launched_for(cluster))

    def instances(self, ids: Iterable[str]) -> list[Instance]:
        """Return those of `ids` that are not terminated, by id."""
        wanted, at_once = sorted(set(ids)), NAMED_AT_ONCE - len(ALIVE)  # the states are values of the same call
        parts = (wanted[start : start + at_once] for start in range(0, len(wanted), at_once))
        return [found for part in parts for found in self._instances([{"Name": "instance-id", "Values": part}])]

    def instances_of_reservations(self, ids: Iterable[str]) -> dict[str, list[str]]:
        """Return the ids of the instances, not terminated, that were launched into each of these reservations."""
        wanted = sorted(set(ids))
        filters = [
            {"Name": "capacity-reservation-id", "Values": wanted},
            {"Name": "instance-state-name", "Values": list(ALIVE)},
        ]
        reservations = self.pages("describe_instances", "Reservations", Filters=filters) if wanted else []
        found: dict[str, list[str]] = {each: [] for each in wanted}
        for one in (one for each in reservations for one in each["Instances"]):
            found.setdefault(str(one.get("CapacityReservationId") or ""), []).append(str(one["InstanceId"]))
        return found

    def _instances(self, filters: Sequence[Mapping[str, Any]], *, ended: bool = False) -> list[Instance]:
        living = [] if ended else [{"Name": "instance-state-name", "Values": list(ALIVE)}]
        reservations = self.pages("describe_instances", "Reservations", Filters=[*filters, *living])
        found = [Instance.from_ec2(each) for reservation in reservations for each in reservation["Instances"]]
        return sorted((each for each in found if ended or each.alive), key=lambda instance: instance.id)

    def in_any_state(self, ids: Iterable[str]) -> dict[str, Instance]:
        """Return those of `ids` that EC2 still shows, in any state: a terminated one for about an hour."""
        wanted = sorted(set(ids))
        found: dict[str, Instance] = {}
        for start in range(0, len(wanted), NAMED_AT_ONCE):
            named = {"Name": "instance-id", "Values": wanted[start : start + NAMED_AT_ONCE]}
            reservations = self.pages("describe_instances", "Reservations", Filters=[named])
            found |= {one.id: one for each in reservations for one in map(Instance.from_ec2, each["Instances"])}
        return found

    def find_by_id(self, ids: Iterable[str]) -> dict[str, Instance]:
        """Return what `in_any_state` returns, and describe instances that no filter finds by their id. EC2 does not
        know an instance that is missing in the result. It has ended, unless it was launched seconds ago: EC2's answers
        lag.
        """
        wanted = set(ids)
        found = self.in_any_state(wanted) if wanted else {}
        named = (self._named(each) for each in sorted(wanted - set(found)))
        return found | {each.id: each for each in named if each is not None}

    def _named(self, instance: str) -> Instance | None:
        try:
            reservations = self.pages("describe_instances", "Reservations", InstanceIds=[instance])
        except Ec2Error as reason:
            if reason.code in UNKNOWN_INSTANCE:
                return None
            raise
        return next((Instance.from_ec2(one) for each in reservations for one in each["Instances"]), None)

    def troubled_instances(self) -> list[InstanceStatus]:
        """Return the running instances of the region that are impaired or have a scheduled event.

        EC2 cannot filter by tags here, so the instances of others are included. Filters of one call must all match,
        so there is one call for each kind of trouble; a healthy account answers each with an empty page.
        """
        troubles = (
            ("instance-status.status", (IMPAIRED,)),
            ("system-status.status", (IMPAIRED,)),
            ("event.code", EVENT_CODES),
        )
        filters = [[{"Name": name, "Values": list(values)}] for name, values in troubles]
        answers = call_each(
            filters, lambda each: self.pages("describe_instance_status", "InstanceStatuses", Filters=each), Ec2Error
        )
        found: dict[str, InstanceStatus] = {}
        for _, answer in answers:
            if isinstance(answer, Ec2Error):
                raise answer
            found |= {status.instance: status for status in map(InstanceStatus.from_ec2, answer)}
        return [found[each] for each in sorted(found)]

    def console_output(self, instance: str) -> str:
        """Return what an instance wrote to its console; empty if it has written nothing.

        Only types on Nitro have the latest output; for others it is that of the last boot.
        """
        try:
            return self._console_output(instance, Latest=True)
        except Ec2Error as refusal:
            if refusal.code != NO_LATEST_OUTPUT:
                raise
            return self._console_output(instance)

    def _console_output(self, instance: str, **asked: bool) -> str:
        with translate_errors():
            return str(self._client.get_console_output(InstanceId=instance, **asked).get("Output") or "")

    def subnets(self, filters: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Return the answer of DescribeSubnets."""
        return self.pages("describe_subnets", "Subnets", Filters=list(filters))

    def security_groups(self, filters: Sequence[Mapping[str, Any]]) -> list[Answer]:
        """Return the answer of DescribeSecurityGroups."""
        return self.pages("describe_security_groups", "SecurityGroups", Filters=list(filters))

    def images(self, filters: Sequence[Mapping[str, Any]], owners: Sequence[str] = ()) -> list[Answer]:
        """Return the answer of DescribeImages, deprecated images included."""
        asked: dict[str, Any] = {"Filters": list(filters), "IncludeDeprecated": True}
        return self.pages("describe_images", "Images", **asked, **({"Owners": list(owners)} if owners else {}))

    def capacity_reservations(self, filters: Sequence[Mapping[str, Any]], ids: Sequence[str] = ()) -> list[Answer]:
        """Return the answer of DescribeCapacityReservations; nothing for an id that does not exist."""
        named: dict[str, Any] = {"CapacityReservationIds": list(ids)} if ids else {}
        try:
            return self.pages("describe_capacity_reservations", "CapacityReservations", Filters=list(filters), **named)
        except ResourceNotFound:
            return []

    def placement_group(self, name: str = "", identifier: str = "") -> list[Answer]:
        """Return the answer of DescribePlacementGroups for one group; nothing if it does not exist."""
        asked: dict[str, Any] = {"GroupIds": [identifier]} if identifier else {"GroupNames": [name]}
        try:
            with translate_errors():
                found: list[Answer] = self._client.describe_placement_groups(**asked)["PlacementGroups"]
        except Ec2Error as refusal:
            if refusal.code.startswith(UNKNOWN_GROUP):
                return []
            raise
        return found

    def zones_of_placement_group(self, name: str) -> list[str]:
        """Return the zones of the instances in a placement group, each once."""
        filters = [
            {"Name": "placement-group-name", "Values": [name]},
            {"Name": "instance-state-name", "Values": list(ALIVE)},
        ]
        found = self.pages("describe_instances", "Reservations", Filters=filters)
        return sorted({one["Placement"]["AvailabilityZone"] for group in found for one in group["Instances"]})

    def snapshots(self, ids: Iterable[str]) -> list[Answer]:
        """Return those of `ids` that this account can see, as DescribeSnapshots shows them."""
        wanted = sorted(set(ids))
        return (
            self.pages("describe_snapshots", "Snapshots", Filters=[{"Name": "snapshot-id", "Values": wanted}])
            if wanted
            else []
        )

    def ebs_defaults(self) -> tuple[str, bool]:
        """Return two settings of the region: the default key of volumes, and whether every volume is encrypted."""
        with translate_errors():
            key = str(self._client.get_ebs_default_kms_key_id()["KmsKeyId"])
            return key, bool(self._client.get_ebs_encryption_by_default()["EbsEncryptionByDefault"])

    # Launching

    def ensure_launch_template(self, name: str, data: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Create a launch template, or check that the one of this name has the wanted content.

        Any principal with ec2:CreateLaunchTemplate may have made one of this name, with user data that would run under
        our node role. `TemplateDiffers` if version 1, which launches use, has other content.
        """
        specifications = [{"ResourceType": "launch-template", "Tags": list_tags(tags)}] if tags else []
        with translate_errors():
            try:
                self._client.create_launch_template(
                    LaunchTemplateName=name, LaunchTemplateData=dict(data), TagSpecifications=specifications
                )
            except ClientError as reason:
                if reason.response["Error"]["Code"] != "InvalidLaunchTemplateName.AlreadyExistsException":
                    raise
                self._check_template(name, data)

    def _check_template(self, name: str, wanted: Mapping[str, Any]) -> None:
        answer = self._client.describe_launch_template_versions(LaunchTemplateName=name, Versions=[TEMPLATE_VERSION])
        found = answer.get("LaunchTemplateVersions") or ()
        wrong = (
            compare_launch_templates(wanted, found[0]["LaunchTemplateData"])
            if found
            else (f"version {TEMPLATE_VERSION} is gone",)
        )
        if wrong:
            raise TemplateDiffers(name, wrong)

    def launch_templates(self, cluster: str) -> list[StoredLaunchTemplate]:
        """Return the launch templates that Joiner created for a cluster and may delete: they have its tags, which other
        principals may write, and names that only templates of this cluster have."""
        tagged = [
            {"Name": f"tag:{cluster_tag(cluster)}", "Values": ["owned"]},
            {"Name": f"tag:{CLUSTER_NAME_TAG}", "Values": [cluster]},
            {"Name": "tag-key", "Values": [NODEPOOL]},
        ]
        found = self.pages("describe_launch_templates", "LaunchTemplates", Filters=tagged)
        return [
            StoredLaunchTemplate(each["LaunchTemplateId"], each["LaunchTemplateName"], each["CreateTime"])
            for each in found
            if each["LaunchTemplateName"].startswith(template_prefix(cluster))
        ]

    def user_template(self, name: str) -> DescribedTemplate | None:
        """Return the description of a launch template, with its tags and without its content; None if there is none."""
        try:
            found = self.pages("describe_launch_templates", "LaunchTemplates", LaunchTemplateNames=[name])
        except ResourceNotFound:
            return None
        return DescribedTemplate.from_ec2(found[0]) if found else None

    def template_version(self, template: DescribedTemplate) -> LaunchTemplateVersion | None:
        """Return the latest version of a launch template, with its user data; None if it is gone."""
        asked = {"LaunchTemplateId": template.id, "Versions": [str(template.latest)]}
        try:
            found = self.pages("describe_launch_template_versions", "LaunchTemplateVersions", **asked)
        except ResourceNotFound:
            return None
        return template.with_version(found[0]) if found else None

    def delete_launch_template(self, template: str) -> None:
        """Delete a launch template by id, with all its versions; ResourceNotFound if it does not exist."""
        with translate_errors():
            self._client.delete_launch_template(LaunchTemplateId=template)

    def create_fleet(self, request: Mapping[str, Any]) -> Answer:
        """Send one CreateFleet unchanged; the answer contains both instances and errors."""
        with translate_errors():
            return dict(self._fleets.create_fleet(**request))

    def tag(self, resources: Iterable[str], tags: Mapping[str, str]) -> None:
        """Tag instances (and the resources attached to them)."""
        wanted = sorted(set(resources))
        with translate_errors():
            for start in range(0, len(wanted), TAGGED_AT_ONCE):
                self._client.create_tags(Resources=wanted[start : start + TAGGED_AT_ONCE], Tags=list_tags(tags))

    def terminate(self, instances: Iterable[str]) -> Terminated:
        """Terminate instances; return the result for each. No error of EC2 is raised.

        One call names up to 500. EC2 refuses a whole call for one instance of it (one with termination protection, an
        unknown id, or tags that IAM does not accept); such a call is halved until the refused instances are alone.
        Calls that were throttled or lost are not sent again: their instances count as refused, and after a throttle
        nothing more is sent. Source: EC2 API reference, TerminateInstances.
        """
        wanted = sorted(set(instances))
        left = [wanted[start : start + TERMINATED_AT_ONCE] for start in range(0, len(wanted), TERMINATED_AT_ONCE)][::-1]
        ended: list[str] = []
        absent: list[str] = []
        refused: dict[str, Ec2Error] = {}
        while left:
            some = left.pop()
            reason = self._refusal(some)
            if reason is None:
                ended += some
            elif reason.throttled:
                refused |= dict.fromkeys([*some, *(each for part in left for each in part)], reason)
                break
            elif isinstance(reason, NoAnswer):
                refused |= dict.fromkeys(some, reason)
            elif len(some) > 1:
                half = len(some) // 2
                left += [some[half:], some[:half]]
            elif isinstance(reason, ResourceNotFound):
                absent += some
            else:
                refused[some[0]] = reason
        return Terminated(tuple(ended), tuple(absent), refused)

    def _refusal(self, instances: Sequence[str]) -> Ec2Error | None:
        try:
            with translate_errors():
                self._client.terminate_instances(InstanceIds=list(instances))
        except Ec2Error as reason:
            return reason
        return None


class Parameters:
    """SSM's public parameters: the recommended images."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def values(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values of the parameters that exist, by name."""
        wanted = sorted(set(names))
        found: dict[str, str] = {}
        with translate_errors():
            for start in range(0, len(wanted), 10):  # GetParameters accepts ten names
                answer = self._client.get_parameters(Names=wanted[start : start + 10])
                found |= {each["Name"]: each["Value"] for each in answer["Parameters"]}
        return found

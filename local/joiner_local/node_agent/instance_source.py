"""What the agent reads from AWS: instances, their user data, their types and images. It uses public APIs only.

Changes arrive through EventBridge (a rule and a queue of the agent) and, because events may be lost, through a poll
every two seconds. The state is always read from EC2: an event only triggers the reading.
"""

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from joiner_local.aws_sessions import aws_session
from joiner_local.node_agent.device_plugins import registered_devices
from joiner_local.node_agent.node_capacity import InstanceHardware
from joiner_local.node_agent.node_objects import Ec2Instance
from joiner_local.node_agent.node_registration import Unbootable

log = logging.getLogger(__name__)

RESYNC: Final = 2.0  # seconds
SHARE: Final = 0.05  # share of the time that polls may take: with a thousand instances a poll is slow
FRESH: Final = 5.0  # seconds for which a description of the cluster or a profile is cached, for many nodes at once
ALIVE: Final = ["pending", "running", "stopping", "stopped", "shutting-down"]
QUEUE: Final = "local-node-agent"
PATTERN: Final = {"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"]}
AT_ONCE: Final = 100
ATTACHED_WITHIN: Final = 5.0  # seconds

# Called with an instance's id and its state, each time that the state has changed.
Changed = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """The fields of DescribeCluster that a node's owner uses."""

    name: str
    endpoint: str
    version: str
    ip_family: str = "ipv4"


@dataclass
class InstanceReader:
    """The AWS account of the nodes. Threads may share it; what never changes is read once."""

    endpoint: str
    region: str
    _images: dict[str, str] = field(default_factory=dict)
    _types: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _recent: dict[str, tuple[float, Any]] = field(default_factory=dict)

    def _recently(self, what: str, ask: Callable[[], Any]) -> Any:
        until, answer = self._recent.get(what, (0.0, None))
        if time.monotonic() >= until:
            answer = ask()
            self._recent[what] = (time.monotonic() + FRESH, answer)
        return answer

    def client(self, service: str) -> Any:
        session = aws_session()
        config = Config(max_pool_connections=32, retries={"total_max_attempts": 3})
        # the name of any service
        return session.client(service, endpoint_url=self.endpoint, config=config)  # type: ignore[call-overload]

    @cached_property
    def ec2(self) -> Any:
        return self.client("ec2")

    @cached_property
    def iam(self) -> Any:
        return self.client("iam")

    @cached_property
    def sts(self) -> Any:
        return self.client("sts")

    @cached_property
    def eks(self) -> Any:
        return self.client("eks")

    @cached_property
    def zone_ids(self) -> dict[str, str]:
        return {
            zone["ZoneName"]: zone["ZoneId"] for zone in self.ec2.describe_availability_zones()["AvailabilityZones"]
        }

    def cluster(self, name: str) -> JoinedCluster:
        described = self._recently(f"cluster {name}", lambda: self.eks.describe_cluster(name=name))["cluster"]
        family = described["kubernetesNetworkConfig"].get("ipFamily", "ipv4")
        return JoinedCluster(name, described["endpoint"].rstrip("/"), described["version"], family)

    def role_of_profile(self, name: str) -> str:
        """Return the ARN of the role in an instance profile, "" if it has none."""
        described = self._recently(f"profile {name}", lambda: self.iam.get_instance_profile(InstanceProfileName=name))
        return next((str(role["Arn"]) for role in described["InstanceProfile"]["Roles"]), "")

    def assume_role(self, role: str, session: str) -> dict[str, str]:
        credentials: dict[str, str] = self.sts.assume_role(RoleArn=role, RoleSessionName=session)["Credentials"]
        return credentials

    def instances(self, ids: Sequence[str]) -> Iterator[Ec2Instance]:
        for start in range(0, len(ids), AT_ONCE):
            answer = self.ec2.describe_instances(InstanceIds=list(ids[start : start + AT_ONCE]))
            yield from (
                Ec2Instance.from_ec2(described)
                for reservation in answer["Reservations"]
                for described in reservation["Instances"]
            )

    def states(self, ids: Sequence[str] = ()) -> dict[str, str]:
        """Return the states of these instances, or of all that are not terminated."""
        which: dict[str, Any] = (
            {"InstanceIds": list(ids)} if ids else {"Filters": [{"Name": "instance-state-name", "Values": ALIVE}]}
        )
        pages = self.ec2.get_paginator("describe_instance_status").paginate(IncludeAllInstances=True, **which)
        return {
            each["InstanceId"]: each["InstanceState"]["Name"] for page in pages for each in page["InstanceStatuses"]
        }

    def user_data(self, instance_id: str) -> bytes:
        described = self.ec2.describe_instance_attribute(InstanceId=instance_id, Attribute="userData")
        return base64.b64decode(described.get("UserData", {}).get("Value", ""))

    def image_name(self, image_id: str) -> str:
        if image_id not in self._images:
            self._images[image_id] = self.ec2.describe_images(ImageIds=[image_id])["Images"][0].get("Name", "")
        return self._images[image_id]

    def machine(self, instance: Ec2Instance, data_device: str = "") -> InstanceHardware:
        """Return the hardware of an instance. `data_device` is the volume with the files of pods; "": the root."""
        if instance.instance_type not in self._types:
            found = self.ec2.describe_instance_types(InstanceTypes=[instance.instance_type])["InstanceTypes"]
            self._types[instance.instance_type] = found[0]
        volume = self.ec2.describe_volumes(VolumeIds=[self._volume(instance, data_device)])["Volumes"][0]
        info = self._types[instance.instance_type]
        devices = registered_devices(info, self.image_name(instance.image_id), instance.efa_interfaces)
        return replace(InstanceHardware.from_ec2(info, root_gib=volume["Size"]), devices=devices)

    def _volume(self, instance: Ec2Instance, device: str) -> str:
        """Return a volume. An instance is visible a moment before its volumes are attached."""
        end = time.monotonic() + ATTACHED_WITHIN
        while not (found := instance.volumes.get(device or instance.root_device)) and time.monotonic() < end:
            time.sleep(0.1)
            (instance,) = self.instances([instance.id])
        if not found:
            raise Unbootable(f"the instance has no volume {device or instance.root_device}")
        return found

    def terminate(self, instance_id: str) -> None:
        self.ec2.terminate_instances(InstanceIds=[instance_id])


@dataclass(slots=True)
class InstanceChange:
    """Call `changed` for every instance, until the process ends."""

    aws: InstanceReader
    changed: Changed
    _known: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        threading.Thread(target=self._resync, name="resync", daemon=True).start()
        threading.Thread(target=self._listen, name="events", daemon=True).start()

    def _describe(self, ids: Collection[str] = ()) -> None:
        with self._lock:  # read and report under one lock: an older result must not follow a newer one
            found = self.aws.states(sorted(ids))
            gone = {} if ids else dict.fromkeys(self._known.keys() - found.keys(), "terminated")
            for identity, state in {**found, **gone}.items():
                if self._known.get(identity) != state:
                    self._known[identity] = state
                    self.changed(identity, state)

    def _resync(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self._describe()
            except (ClientError, BotoCoreError):
                log.warning("could not list the instances", exc_info=True)
            time.sleep(max(RESYNC, (time.monotonic() - began) / SHARE))

    def _listen(self) -> None:
        while True:
            try:
                sqs, queue = self._subscribe()
                while True:
                    self._receive(sqs, queue)
            except (ClientError, BotoCoreError):
                log.warning("no events for now", exc_info=True)
                time.sleep(RESYNC)

    def _subscribe(self) -> tuple[Any, str]:
        sqs, events = self.aws.client("sqs"), self.aws.client("events")
        queue = sqs.create_queue(QueueName=QUEUE)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
        events.put_rule(Name=QUEUE, EventPattern=json.dumps(PATTERN), State="ENABLED")
        events.put_targets(Rule=QUEUE, Targets=[{"Id": "queue", "Arn": arn}])
        return sqs, queue

    def _receive(self, sqs: Any, queue: str) -> None:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=10).get("Messages", [])
        ids = {json.loads(message["Body"])["detail"]["instance-id"] for message in messages}
        if ids:
            self._describe(ids)
            receipts = [
                {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]} for index, message in enumerate(messages)
            ]
            sqs.delete_message_batch(QueueUrl=queue, Entries=receipts)

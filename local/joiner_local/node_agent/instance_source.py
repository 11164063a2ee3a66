"""What the agent reads from AWS: instances, their metadata, their types and images.

An instance reads its own metadata without an AWS API (`joiner_local.aws.ec2.instance_metadata`), here for many at once.
All else comes from public APIs.

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
from joiner_local.knob_client import turn_knob
from joiner_local.node_agent.device_plugins import registered_devices
from joiner_local.node_agent.node_capacity import InstanceHardware
from joiner_local.node_agent.node_objects import Ec2Instance
from joiner_local.shared_answers import SharedAnswers

log = logging.getLogger(__name__)

RESYNC: Final = 2.0  # seconds
SHARE: Final = 0.05  # share of the time that polls may take: with a thousand instances a poll is slow
FRESH: Final = 5.0  # seconds for which the description of the cluster is cached, for many nodes at once
ALIVE: Final = ["pending", "running", "stopping", "stopped", "shutting-down"]
QUEUE: Final = "local-node-agent"
PATTERN: Final = {
    "source": ["aws.ec2"],
    "detail-type": ["EC2 Instance State-change Notification"],
    "detail": {"state": [{"anything-but": "pending"}]},  # nothing happens before an instance runs
}
AT_ONCE: Final = 100

# Called with the new states of instances by their ids.
Changed = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True, slots=True)
class JoinedCluster:
    """The fields of DescribeCluster that a node's owner uses."""

    name: str
    endpoint: str
    version: str
    ip_family: str = "ipv4"


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """What an instance knows of itself: when it was launched (epoch seconds), its user data, the sizes of its volumes
    in GiB by device name, and the credentials of its profile's role (None: it has no role)."""

    launched: float
    user_data: bytes
    volumes: Mapping[str, int]
    credentials: Mapping[str, str] | None = None

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> "InstanceMetadata":
        return cls(
            answer["launched"], base64.b64decode(answer["userData"]), answer["volumes"], answer.get("credentials")
        )


@dataclass
class InstanceReader:
    """The AWS account of the nodes. Threads may share it; what never changes is read once."""

    endpoint: str
    region: str
    _answers: SharedAnswers = field(default_factory=SharedAnswers)

    def client(self, service: str) -> Any:
        session = aws_session()
        config = Config(max_pool_connections=32, retries={"total_max_attempts": 3})
        # the name of any service
        return session.client(service, endpoint_url=self.endpoint, config=config)  # type: ignore[call-overload]

    @cached_property
    def ec2(self) -> Any:
        return self.client("ec2")

    @cached_property
    def eks(self) -> Any:
        return self.client("eks")

    @cached_property
    def zone_ids(self) -> dict[str, str]:
        return {
            zone["ZoneName"]: zone["ZoneId"] for zone in self.ec2.describe_availability_zones()["AvailabilityZones"]
        }

    def cluster(self, name: str) -> JoinedCluster:
        answer = self._answers.get(f"cluster {name}", lambda: self.eks.describe_cluster(name=name), fresh=FRESH)
        described = answer["cluster"]
        family = described["kubernetesNetworkConfig"].get("ipFamily", "ipv4")
        return JoinedCluster(name, described["endpoint"].rstrip("/"), described["version"], family)

    def instances(self, ids: Sequence[str]) -> Iterator[Ec2Instance]:
        """Yield those of these instances that EC2 shows."""
        for start in range(0, len(ids), AT_ONCE):
            named = [{"Name": "instance-id", "Values": list(ids[start : start + AT_ONCE])}]
            yield from (
                Ec2Instance.from_ec2(described)
                for reservation in self.ec2.describe_instances(Filters=named)["Reservations"]
                for described in reservation["Instances"]
            )

    def metadata(self, ids: Sequence[str]) -> dict[str, InstanceMetadata]:
        """Return the metadata of those of these instances that EC2 knows."""
        found = turn_knob(self.endpoint, "instance-metadata", {"instanceIds": list(ids)})["instances"]
        return {identity: InstanceMetadata.from_answer(answer) for identity, answer in found.items()}

    def states(self, ids: Sequence[str] = ()) -> dict[str, str]:
        """Return the states of these instances, or of all that are not terminated."""
        which: dict[str, Any] = (
            {"InstanceIds": list(ids)} if ids else {"Filters": [{"Name": "instance-state-name", "Values": ALIVE}]}
        )
        pages = self.ec2.get_paginator("describe_instance_status").paginate(IncludeAllInstances=True, **which)
        return {
            each["InstanceId"]: each["InstanceState"]["Name"] for page in pages for each in page["InstanceStatuses"]
        }

    def image_name(self, image_id: str) -> str:
        images = self._answers.get(f"image {image_id}", lambda: self.ec2.describe_images(ImageIds=[image_id]))["Images"]
        return str(images[0].get("Name", ""))

    def machine(self, instance: Ec2Instance, volume_gib: int) -> InstanceHardware:
        """Return the hardware of an instance. `volume_gib` is the size of the volume with the files of pods."""
        kind = instance.instance_type
        found = self._answers.get(kind, lambda: self.ec2.describe_instance_types(InstanceTypes=[kind]))["InstanceTypes"]
        devices = registered_devices(found[0], self.image_name(instance.image_id), instance.efa_interfaces)
        return replace(InstanceHardware.from_ec2(found[0], root_gib=volume_gib), devices=devices)

    def terminate(self, instance_id: str) -> None:
        self.ec2.terminate_instances(InstanceIds=[instance_id])


@dataclass(slots=True)
class InstanceChange:
    """Call `changed` for the instances whose state has changed, until the process ends."""

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
            changes = {each: state for each, state in {**found, **gone}.items() if self._known.get(each) != state}
            self._known |= changes
            if changes:
                self.changed(changes)

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

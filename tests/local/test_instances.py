"""The lifecycle of an instance in EC2: its states, an event for each, interruptions, and what TerminateInstances
refuses.
"""

import base64
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.aws_sessions import aws_session
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws, eventually

pytestmark = pytest.mark.local

EventsOf = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def pad(local_aws: RunningAws) -> LaunchPad:
    network = seed_network(local_aws.endpoint, "instances")
    return LaunchPad.build(local_aws.client("ec2"), local_aws.client("ssm"), network, local_aws.fresh("template"))


@pytest.fixture
def events_of(local_aws: RunningAws) -> EventsOf:
    """Return what a rule for all events of EC2 received about an instance so far: states, or the kinds of events."""
    url, arn = local_aws.queue()
    allow = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
    }
    local_aws.client("sqs").set_queue_attributes(
        QueueUrl=url, Attributes={"Policy": json.dumps({"Statement": [allow]})}
    )
    rule = local_aws.fresh("rule")
    local_aws.client("events").put_rule(Name=rule, EventPattern=json.dumps({"source": ["aws.ec2"]}))
    local_aws.client("events").put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": arn}])
    events: list[dict[str, Any]] = []

    def about(instance_id: str) -> list[Any]:
        messages = local_aws.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        events.extend(json.loads(message["Body"]) for message in messages)
        for message in messages:
            local_aws.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        mine = [event for event in events if event["detail"]["instance-id"] == instance_id]
        return sorted((event["detail"].get("state", event["detail-type"]) for event in mine), key=ORDER.index)

    return about


WARNED, ADVISED = "EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"
RECLAIMED = "EC2 Capacity Reservation Instance Interruption Warning"
ORDER = ["pending", "running", WARNED, ADVISED, RECLAIMED, "stopping", "stopped", "shutting-down", "terminated"]


@pytest.fixture
def long_pending(local_aws: RunningAws) -> Iterator[None]:
    """Instances are pending for three seconds, which a busy machine does not miss."""
    before = local_aws.knob("instances")["pendingSeconds"]
    local_aws.knob("instances", pendingSeconds=3)
    yield
    local_aws.knob("instances", pendingSeconds=before)


@pytest.mark.usefixtures("long_pending")
def test_an_instance_is_pending_then_runs_then_ends_and_each_step_is_an_event(
    pad: LaunchPad, events_of: EventsOf
) -> None:
    (identity,) = pad.launch()
    assert pad.state(identity) == "pending"
    eventually(lambda: pad.state(identity) == "running")

    (change,) = pad.ec2.terminate_instances(InstanceIds=[identity])["TerminatingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    eventually(lambda: pad.state(identity) == "terminated")

    eventually(lambda: events_of(identity) == ["pending", "running", "shutting-down", "terminated"])


@pytest.mark.usefixtures("long_pending")
def test_no_instance_of_a_large_launch_runs_before_the_launch_is_complete(pad: LaunchPad) -> None:
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    with ThreadPoolExecutor(1) as beside:
        launch = beside.submit(pad.launch, count=40)
        seen = set[str]()
        while not launch.done():
            seen |= pad.ids(running)

    assert len(launch.result()) == 40
    assert not seen & set(launch.result())


def test_volumes_and_addresses_go_with_the_instance(pad: LaunchPad) -> None:
    (identity,) = pad.launch()
    by_instance = [{"Name": "attachment.instance-id", "Values": [identity]}]
    assert len(pad.ec2.describe_volumes(Filters=by_instance)["Volumes"]) == 1

    pad.ec2.terminate_instances(InstanceIds=[identity])

    eventually(lambda: not pad.ec2.describe_volumes(Filters=by_instance)["Volumes"])
    eventually(lambda: not pad.ec2.describe_network_interfaces(Filters=by_instance)["NetworkInterfaces"])


def test_a_call_with_an_unknown_id_terminates_no_instance(pad: LaunchPad) -> None:
    (identity,) = pad.launch()

    with pytest.raises(ClientError) as error:
        pad.ec2.terminate_instances(InstanceIds=[identity, "i-0123456789abcdef0"])

    assert error.value.response["Error"]["Code"] == "InvalidInstanceID.NotFound"
    assert pad.state(identity) in ("pending", "running")


def test_terminating_twice_is_no_error(pad: LaunchPad) -> None:
    (identity,) = pad.launch()
    pad.ec2.terminate_instances(InstanceIds=[identity])
    eventually(lambda: pad.state(identity) == "terminated")

    (change,) = pad.ec2.terminate_instances(InstanceIds=[identity])["TerminatingInstances"]

    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("terminated", "terminated")


def test_a_stopped_instance_starts_again(pad: LaunchPad, events_of: EventsOf) -> None:
    (identity,) = pad.launch()
    eventually(lambda: pad.state(identity) == "running")

    pad.ec2.stop_instances(InstanceIds=[identity])
    eventually(lambda: pad.state(identity) == "stopped")
    pad.ec2.start_instances(InstanceIds=[identity])
    eventually(lambda: pad.state(identity) == "running")

    eventually(lambda: events_of(identity) == ["pending", "pending", "running", "running", "stopping", "stopped"])


def test_a_spot_instance_is_warned_before_it_is_reclaimed(
    local_aws: RunningAws, pad: LaunchPad, events_of: EventsOf
) -> None:
    (identity,) = pad.launch(spot=True)
    eventually(lambda: pad.state(identity) == "running")

    local_aws.knob("interrupt", instanceId=identity, grace=1)
    eventually(lambda: WARNED in events_of(identity))
    assert pad.state(identity) == "running"

    eventually(lambda: pad.state(identity) == "terminated")
    assert pad.instance(identity)["StateReason"]["Code"] == "Server.SpotInstanceTermination"


def test_a_rebalance_recommendation_changes_nothing(local_aws: RunningAws, pad: LaunchPad, events_of: EventsOf) -> None:
    (identity,) = pad.launch(spot=True)

    local_aws.knob("rebalance", instanceId=identity)

    eventually(lambda: events_of(identity) == ["pending", "running", ADVISED])
    assert pad.state(identity) == "running"


def test_an_on_demand_instance_cannot_be_interrupted(local_aws: RunningAws, pad: LaunchPad) -> None:
    (identity,) = pad.launch()

    with pytest.raises(AssertionError, match="is not a Spot Instance"):
        local_aws.knob("interrupt", instanceId=identity)


def test_an_instance_passes_its_checks_and_has_no_event_until_a_knob_changes_it(
    local_aws: RunningAws, pad: LaunchPad
) -> None:
    (identity,) = pad.launch()
    eventually(lambda: pad.state(identity) == "running")
    (healthy,) = pad.ec2.describe_instance_status(InstanceIds=[identity])["InstanceStatuses"]
    assert (healthy["InstanceStatus"]["Status"], healthy["SystemStatus"]["Status"], healthy.get("Events", [])) == (
        "ok",
        "ok",
        [],
    )

    local_aws.knob("impair", instanceId=identity, check="system")
    local_aws.knob("schedule-event", instanceId=identity, code="instance-stop", startsIn=3600)

    (troubled,) = pad.ec2.describe_instance_status(InstanceIds=[identity])["InstanceStatuses"]
    assert (troubled["InstanceStatus"]["Status"], troubled["SystemStatus"]["Status"]) == ("ok", "impaired")
    assert [each["Code"] for each in troubled["Events"]] == ["instance-stop"]
    local_aws.knob("impair", instanceId=identity, check="system", status="ok")
    local_aws.knob("schedule-event", instanceId=identity, clear=True)
    assert _in_trouble(pad, "system-status.status", "impaired") == _in_trouble(pad, "event.code", "instance-stop") == []


def _in_trouble(pad: LaunchPad, name: str, value: str) -> list[str]:
    pages = pad.ec2.get_paginator("describe_instance_status").paginate(
        Filters=[{"Name": name, "Values": [value]}], PaginationConfig={"PageSize": 5}
    )
    return [each["InstanceId"] for page in pages for each in page["InstanceStatuses"]]


def test_statuses_are_filtered_and_shown_page_by_page(local_aws: RunningAws, pad: LaunchPad) -> None:
    instances = pad.launch(count=7)
    eventually(lambda: {pad.state(each) for each in instances} == {"running"})
    for each in instances[1:]:
        local_aws.knob("impair", instanceId=each)

    assert sorted(_in_trouble(pad, "instance-status.status", "impaired")) == sorted(instances[1:])
    for each in instances[1:]:
        local_aws.knob("impair", instanceId=each, status="ok")


def test_an_instance_that_does_not_run_has_no_status_unless_all_are_asked_for(pad: LaunchPad) -> None:
    (identity,) = pad.launch()
    pad.ec2.stop_instances(InstanceIds=[identity])
    eventually(lambda: pad.state(identity) == "stopped")

    assert pad.ec2.describe_instance_status(InstanceIds=[identity])["InstanceStatuses"] == []
    (shown,) = pad.ec2.describe_instance_status(InstanceIds=[identity], IncludeAllInstances=True)["InstanceStatuses"]
    assert shown["SystemStatus"]["Status"] == "not-applicable"


def test_an_instance_of_an_interruptible_reservation_is_warned_before_it_is_reclaimed(
    local_aws: RunningAws, pad: LaunchPad, events_of: EventsOf
) -> None:
    (identity,) = pad.launch()
    eventually(lambda: pad.state(identity) == "running")

    local_aws.knob("reclaim", instanceId=identity, grace=1)

    eventually(lambda: RECLAIMED in events_of(identity))
    eventually(lambda: pad.state(identity) == "terminated")


def test_an_instance_reads_its_launch_its_user_data_its_volumes_and_its_credentials(
    pad: LaunchPad, local_aws: RunningAws
) -> None:
    (identity,) = pad.launch(user_data=b"#!/bin/sh")
    described = pad.instance(identity)

    known = local_aws.knob("instance-metadata", instanceIds=[identity, "i-0123456789abcdef0"])["instances"]

    metadata = known.pop(identity)
    assert known == {}
    assert int(metadata["launched"]) == int(described["LaunchTime"].timestamp())
    assert base64.b64decode(metadata["userData"]) == b"#!/bin/sh"
    volumes = pad.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [identity]}])["Volumes"]
    assert metadata["volumes"] == {volumes[0]["Attachments"][0]["Device"]: volumes[0]["Size"]}
    given = metadata["credentials"]
    session = aws_session(given["accessKeyId"], given["secretAccessKey"], given["token"])
    caller = session.client("sts", endpoint_url=local_aws.endpoint).get_caller_identity()
    assert caller["Arn"].endswith(f"/{identity}")


def test_a_started_instance_has_a_new_launch_time(pad: LaunchPad, local_aws: RunningAws) -> None:
    (identity,) = pad.launch()
    eventually(lambda: pad.state(identity) == "running")
    before = local_aws.knob("instance-metadata", instanceIds=[identity])["instances"][identity]["launched"]

    pad.ec2.stop_instances(InstanceIds=[identity])
    eventually(lambda: pad.state(identity) == "stopped")
    pad.ec2.start_instances(InstanceIds=[identity])

    after = local_aws.knob("instance-metadata", instanceIds=[identity])["instances"][identity]["launched"]
    assert after > before

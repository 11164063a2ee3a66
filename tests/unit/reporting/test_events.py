"""Events: their content, their object, and that a repeated message creates no second event."""

from datetime import UTC, datetime, timedelta

from joiner.cluster import Resources
from joiner.launching import CapacityShortage, LaunchFailure, LaunchOutcome, PairedInstance
from joiner.planning import ExistingNode, Offer, PendingPod, Reason
from joiner.pools import InvalidManifest, NodeClassRef, NodePool
from joiner.reporting import launch_events, plan_events, registration_events
from joiner.reporting.events import Event, Subject
from tests.unit.lifecycle.joining_nodes import NOON, claim, node, pod

POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="pool-1")


def test_an_event_is_what_the_api_server_takes() -> None:
    event = Event(Subject.pod(pod("web")), "TriggeredScaleUp", "ScaleUp", "a node is made for it")

    manifest = dict(event.to_kube(datetime(2026, 11, 21, 5, 17, 28, 123456, UTC), "up-20261121T051728"))
    metadata = dict(manifest.pop("metadata"))

    assert metadata.pop("name").startswith("web.")
    assert metadata == {"namespace": "default"}
    assert manifest == {
        "eventTime": "2026-11-21T05:17:28.123456Z",
        "firstTimestamp": "2026-11-21T05:17:28Z",
        "lastTimestamp": "2026-11-21T05:17:28Z",
        "count": 1,
        "reportingComponent": "joiner.dev/joiner",
        "reportingInstance": "up-20261121T051728",
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": "default",
            "uid": "uid-of-web",
        },
        "reason": "TriggeredScaleUp",
        "action": "ScaleUp",
        "message": "a node is made for it",
        "type": "Normal",
    }


def test_the_same_text_within_minutes_is_the_same_event() -> None:
    event = Event(Subject.pod(pod("web")), "NotTriggerScaleUp", "ScaleUp", "no pool")

    def name(event: Event, after: timedelta) -> str:
        return str(event.to_kube(NOON + after, "up-1")["metadata"]["name"])

    assert name(event, timedelta()) == name(event, timedelta(minutes=9))
    assert name(event, timedelta()) != name(event, timedelta(minutes=11))
    assert name(event, timedelta()) != name(
        Event(event.subject, event.reason, event.action, "another reason"), timedelta()
    )


def test_a_long_note_and_a_long_name_are_cut_to_what_kubernetes_takes() -> None:
    long = Event(Subject("v1", "Pod", "p" * 253, "u", "default"), "R", "A", "n" * 2000).to_kube(NOON, "i" * 300)

    assert len(long["message"].encode()) == 1024
    assert len(long["metadata"]["name"]) <= 253
    assert len(long["reportingInstance"]) == 128


def test_events_of_objects_without_a_namespace_stand_in_default() -> None:
    assert Event(Subject.claim(claim()), "R", "A", "n").namespace == "default"
    assert Subject.node(node()).uid == "node-1"


def test_the_event_of_a_pending_pod_names_each_pools_reason_and_does_not_call_the_doorbell() -> None:
    reasons = (
        Reason("NodePool/a", "limit cpu 10 is reached"),
        Reason("NodePool/b", "it does not tolerate team=x:NoSchedule"),
    )

    event = plan_events.report_no_node(pod("web"), PendingPod("default/web", reasons))

    assert event.reason != "FailedScheduling"
    assert event.kind == "Warning"
    assert event.note == (
        "No node can be made for it. NodePool/a: limit cpu 10 is reached; NodePool/b: it does not tolerate "
        "team=x:NoSchedule"
    )


def test_the_pools_that_are_nearest_to_holding_a_pod_are_named_first() -> None:
    others = [Reason(f"pool-{number}", "did not tolerate taint team=x:NoSchedule") for number in range(8)]
    own = Reason("own", "no instance type has enough resources", Offer(4.6, "m5.24xlarge", "us-east-1a", "on-demand"))

    note = plan_events.report_no_node(pod("web"), PendingPod("default/web", (*others, own))).note

    assert note.startswith("No node can be made for it. own: no instance type has enough resources")
    assert note.endswith("; and 3 more pools")


def test_pools_that_the_pod_itself_excludes_are_named_last() -> None:
    others = [Reason(f"pool-{number}", "did not tolerate taint team=x:NoSchedule") for number in range(8)]
    broken = Reason("own", "its class EC2NodeClass/own is being deleted: create it again after that, or name another")

    note = plan_events.report_no_node(pod("web"), PendingPod("default/web", (*others, broken))).note

    assert note.startswith("No node can be made for it. own: its class EC2NodeClass/own is being deleted")


def test_a_limit_of_which_more_is_used_by_now_is_no_news() -> None:
    def name(used: int, pool: str = "a") -> str:
        reasons = (Reason(f"NodePool/{pool}", f"limit cpu 10 of NodePool/{pool}: {used} used"),)
        return str(
            plan_events.report_no_node(pod("web"), PendingPod("default/web", reasons)).to_kube(NOON, "up-1")[
                "metadata"
            ]["name"]
        )

    assert name(8) == name(9)
    assert name(8) != name(8, "b")


def test_the_event_of_a_pod_that_is_too_large_names_the_nearest_offering_and_what_it_lacks() -> None:
    def event(instance_type: str, lacks: Resources) -> Event:
        near = Offer(4.608, instance_type, "us-east-1a", "on-demand")
        large = Reason("default", "no instance type has enough resources", near, lacks)
        limited = Reason("small", "all available instance types exceed limits for nodepool", near)
        return plan_events.report_no_node(pod("web"), PendingPod("default/web", (large, limited)))

    first, later = (
        event("m5.24xlarge", Resources.of(cpu="4500m", memory="16Gi")),
        event("m5a.24xlarge", Resources.of(cpu=5)),
    )

    assert first.note == (
        "No node can be made for it. default: no instance type has enough resources (nearest: m5.24xlarge in "
        "us-east-1a, "
        "short of 4.5 cpu and 16 GiB memory); small: all available instance types exceed limits for nodepool"
    )
    assert first.note != later.note
    assert first.to_kube(NOON, "up-1")["metadata"]["name"] == later.to_kube(NOON, "up-2")["metadata"]["name"]


def test_the_event_of_a_pod_reports_that_there_is_no_pool() -> None:
    assert "there is no NodePool" in plan_events.report_no_node(pod("web"), PendingPod("default/web", ())).note


def test_the_event_of_a_pod_names_the_in_flight_node_that_it_fits() -> None:
    event = plan_events.report_nominated(pod("web"), ExistingNode("", "default-a", ("default/web",), {}))

    assert (event.reason, event.note) == ("Nominated", "It fits the node of claim default-a, which is on its way")


def test_the_event_of_a_pod_names_the_instance_that_it_waits_for_and_how_long() -> None:
    booting = claim("default-a", provider_id="").as_launched(
        PairedInstance("i-1", "default-a", "m5.large", "us-east-1a", "spot"), at=NOON
    )
    event = plan_events.report_nominated(pod("web"), ExistingNode("", "default-a", ("default/web",), {}), booting)

    assert event.note == (
        "It fits the node of claim default-a, which is on its way (instance i-1; it is given up if it has not "
        "joined by "
        "2026-11-21T12:15:00Z)"
    )


def test_events_of_a_pool_name_missing_capacity_and_the_remedy_of_a_refusal() -> None:
    outcome = LaunchOutcome(
        short=(CapacityShortage("spot", "m5.large", "us-east-1a", "InsufficientInstanceCapacity"),),
        failed=(
            LaunchFailure(
                "UnauthorizedOperation", "Unauthorized", "You are not authorized", "give the role ec2:RunInstances"
            ),
        ),
        unmet=("default-a",),
    )

    short, refused = launch_events.report_outcome(outcome, [], Subject.pool(POOL))

    assert (short.reason, short.kind) == ("InsufficientCapacityError", "Warning")
    assert "m5.large in us-east-1a (spot): InsufficientInstanceCapacity" in short.note
    assert refused.note == "EC2 refused: You are not authorized (UnauthorizedOperation). give the role ec2:RunInstances"


def test_errors_are_reported_and_assumptions_are_not() -> None:
    mistake = InvalidManifest("NodePool/default", "spec.weight", "0", "give a number of at least 1")
    assumed = InvalidManifest("NodePool/default", "spec.x", "", "assumed", "info")

    assert [event.note for event in plan_events.report_invalid_manifests(Subject.pool(POOL), [mistake, assumed])] == [
        "spec.weight is 0: give a number of at least 1"
    ]


def test_registration_is_reported_on_node_claim_and_pods() -> None:
    events = [
        *registration_events.report_registered(claim(), node()),
        *registration_events.report_initialized(claim(), node()),
        registration_events.report_placed(pod("web"), node(), claim()),
    ]

    assert [(event.subject.kind, event.reason) for event in events] == [
        ("Node", "Registered"),
        ("NodeClaim", "Registered"),
        ("Node", "Initialized"),
        ("NodeClaim", "Initialized"),
        ("Pod", "Scheduled"),
    ]
    assert (
        registration_events.report_registration_timeout(claim()).kind
        == registration_events.report_trouble(claim(), "MultipleNodesFound", "several nodes").kind
        == "Warning"
    )

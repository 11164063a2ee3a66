"""Pages, throttling, slow answers and outages of the API server and of AWS, in a deployed app: pods get their nodes,
empty nodes are removed, and every invariant holds afterwards.

The faults are injected before the local AWS and in a proxy before the API server (`local/joiner_local/aws/
fault_injection`); they concern the calls of functions and state machines only.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from joiner_local.demo.change_watch import until
from tests.e2e.stack_actions import Actor
from tests.e2e.stack_manifests import deployment

pytestmark = pytest.mark.e2e

SHORT_LIFE: Final = {"spec": {"ttlSecondsAfterEmpty": 1}}
PROVISIONER: Final = "/apis/karpenter.sh/v1alpha5/provisioners/default"
EVERYTHING: Final[dict[str, Any]] = {"caller": "*", "times": None}


@pytest.fixture
def troubled(deployed: Actor) -> Iterator[Actor]:
    """Scenario c's pool, whose empty nodes go after a second; the API server is behind the proxy."""
    stack = deployed.world.stack
    deployed.knob("faults/guard", cluster=stack.cluster, pki=str(stack.root / "pki"))
    deployed.record_cluster()
    deployed.clean()
    deployed.apply("c-template.yaml")
    deployed.world.kube.merge(PROVISIONER, SHORT_LIFE)
    deployed.rest()
    yield deployed
    for knob, asked in (("set", {}), ("pages", {"size": 0}), ("twice", {"machines": []})):
        deployed.knob(f"faults/{knob}", **asked)
    deployed.clean()


def go_up_and_down(actor: Actor, *, pods: int = 3) -> None:
    """Pods of different types get nodes; when they have ended, their nodes are removed."""
    actor.create(*(deployment(f"app-{number}", cpu="1500m", nodeSelector=ONE_NODE) for number in range(pods)))
    actor.wait_running(pods)
    actor.rest()
    actor.assert_at_rest()
    assert len(actor.nodes()) == len(actor.claims()) == len(actor.instances()) == pods

    actor.end(*(f"app-{number}" for number in range(pods)))
    until(actor.gone_after_a_sweep, what="the empty nodes gone", limit=120)
    actor.rest()
    actor.assert_at_rest()


ONE_NODE: Final = {"node.kubernetes.io/instance-type": "c5.large"}
"""A type whose nodes hold one of the pods."""


def test_a_life_cycle_reads_every_page_of_every_list(troubled: Actor) -> None:
    troubled.knob("faults/pages", size=2)

    go_up_and_down(troubled)

    pages = troubled.knob("faults/pages", size=0)
    assert pages["unread"] == []
    paged = {(caller, call) for caller, call in pages["paged"]}
    assert paged >= {
        ("find_pending_pods", "kube LIST pods"),
        ("find_pending_pods", "kube LIST machines"),
        ("check_registration", "kube LIST nodes"),
        ("check_registration", "kube LIST pods"),
        ("survey_cluster", "kube LIST nodes"),
        ("survey_cluster", "kube LIST machines"),
        ("survey_instances", "ec2 DescribeInstances"),
        ("resolve_node_classes", "ec2 DescribeSubnets"),
    }, sorted(paged)


@pytest.mark.long("refused pages in unit tests, refused writes here")
def test_an_api_server_that_refuses_every_third_call_for_a_second_delays_only(troubled: Actor) -> None:
    """API priority and fairness answers 429 with Retry-After: lists wait here, other calls in the state machine."""
    troubled.knob("faults/set", rules=[EVERYTHING | {"call": "kube LIST *", "how": "throttled", "times": 1, "nth": n}
                                        for n in range(1, 90, 3)])  # fmt: skip

    go_up_and_down(troubled)

    assert troubled.knob("faults/set")["struck"] >= 5


WRITES: Final = (
    "kube POST machines",
    "kube PATCH machines/status",
    "kube PATCH nodes",
    "kube POST pods/binding",
    "kube POST pods/eviction",
    "kube PATCH machines",
)
"""Every kind of write of a life cycle: create, patch, bind, evict; the last removes the finalizer."""


def test_an_api_server_that_refuses_writes_for_a_second_delays_only(troubled: Actor) -> None:
    """The first two writes of each kind get 429 with Retry-After. One claim is deleted while its pod runs, so that a
    pod is evicted.
    """
    troubled.create(*(deployment(f"app-{number}", cpu="1500m", nodeSelector=ONE_NODE) for number in range(2)))
    rules = [EVERYTHING | {"call": call, "how": "throttled", "times": 2} for call in WRITES]
    troubled.knob("faults/set", rules=rules)
    troubled.wait_running(2)
    troubled.rest()
    first = {each["metadata"]["name"] for each in troubled.claims()}
    leaving = min(first)

    troubled.world.kube.delete(f"/apis/karpenter.sh/v1alpha5/machines/{leaving}")
    until(
        lambda: troubled.sweep() == "SUCCEEDED" and leaving not in names(troubled.claims()), what="it gone", limit=120
    )
    troubled.wait_running(2)
    troubled.rest()
    troubled.assert_at_rest()

    assert dict(zip(WRITES, troubled.knob("faults/set")["each"], strict=True)) == dict.fromkeys(WRITES, 2)
    assert len(names(troubled.claims()) & first) == 1
    assert len(troubled.nodes()) == len(troubled.claims()) == len(troubled.instances()) == 2


@pytest.mark.long("throttled tables and buckets of the local AWS")
def test_throttled_tables_and_buckets_delay_only(troubled: Actor) -> None:
    rules = [
        EVERYTHING | {"call": call, "how": "throttled", "times": 1, "nth": nth}
        for call in ("dynamodb *", "s3 *")
        for nth in range(1, 60, 3)
    ]
    troubled.knob("faults/set", rules=rules)

    go_up_and_down(troubled)

    struck = troubled.knob("faults/set")["each"]
    assert sum(struck[: len(struck) // 2]) >= 5
    assert sum(struck[len(struck) // 2 :]) >= 2


@pytest.mark.long("slow answers of the local AWS")
def test_slow_answers_exceed_no_time_limit(troubled: Actor) -> None:
    """Every call of the API server takes half a second longer, and every call of AWS a quarter."""
    slow = [("kube *", 0.5), ("ec2 *", 0.25), ("dynamodb *", 0.25), ("s3 *", 0.25)]
    troubled.knob(
        "faults/set", rules=[EVERYTHING | {"call": call, "how": "slow", "after": after} for call, after in slow]
    )

    go_up_and_down(troubled)

    assert all(count >= 5 for count in troubled.knob("faults/set")["each"])


def begin_to_launch(actor: Actor) -> list[dict[str, Any]]:
    """Create three pods that need a node each; return the earlier executions as soon as claims are recorded."""
    known = actor.executions()
    actor.create(*(deployment(f"app-{number}", cpu="1500m", nodeSelector=ONE_NODE) for number in range(3)))
    until(lambda: any("Record node claims" in actor.states_of(each["executionArn"])
                      for each in actor.since(known)), what="a plan", limit=90)  # fmt: skip
    return known


def complete_by_sweeps(actor: Actor, known: list[dict[str, Any]]) -> None:
    """Sweep until the three pods run on three nodes; executions since `known` may have failed."""
    actor.stopped |= {each["executionArn"] for each in actor.since(known)}
    until(lambda: actor.sweep() == "SUCCEEDED" and actor.running() == 3, what="the pods running", limit=120)
    actor.rest()
    actor.assert_at_rest()
    assert len(actor.nodes()) == len(actor.claims()) == len(actor.instances()) == 3


@pytest.mark.long("the API server is restarted")
def test_after_an_outage_of_the_api_server_a_sweep_completes_what_began(troubled: Actor) -> None:
    known = begin_to_launch(troubled)
    troubled.knob("faults/set", **EVERYTHING, call="kube *", how="timed out")
    until(lambda: troubled.knob("faults/struck")["struck"] >= 3, what="three calls without an answer", limit=150)
    assert troubled.knob("faults/set")["struck"] >= 3, "the outage ends"

    complete_by_sweeps(troubled, known)


def test_an_api_server_that_is_restarted_during_a_scale_up_loses_no_pod_and_no_node(troubled: Actor) -> None:
    """The program is ended and started again; etcd keeps its content. The scheduler, the controllers and the kubelets
    lose their watches, too.
    """
    known = begin_to_launch(troubled)
    troubled.knob("faults/record", on=True)
    troubled.world.stack.restart_api_server()
    assert troubled.knob("faults/record", on=False)["calls"], "no function asked while the API server was restarted"

    complete_by_sweeps(troubled, known)


@pytest.mark.long("each of the faults alone")
def test_two_faults_at_once_launch_nothing_twice(troubled: Actor) -> None:
    """The answer of a launch is lost while the table is throttled and the claims cannot be written."""
    rules = [
        EVERYTHING | {"call": "ec2 CreateFleet", "how": "answer lost", "times": 1},
        EVERYTHING | {"call": "kube PATCH machines/status", "how": "throttled", "times": 2},
        EVERYTHING | {"call": "dynamodb UpdateItem LAUNCH", "how": "throttled", "times": 2},
    ]
    troubled.knob("faults/set", rules=rules)

    go_up_and_down(troubled)

    assert all(troubled.knob("faults/set")["each"])


@pytest.mark.long("functions that run twice, in unit tests")
def test_an_express_execution_that_runs_twice_acts_once(troubled: Actor) -> None:
    arns = [troubled.outputs["SweepArn"], troubled.outputs["RetireEmptyArn"]]
    troubled.knob("faults/twice", machines=[arn.rpartition(":")[2] for arn in arns])
    before = troubled.instances_ever()  # EC2 forgets ended instances meanwhile

    go_up_and_down(troubled)

    assert len(troubled.instances_ever() - before) == 3
    for arn in arns:
        listed = troubled.knob("express-executions", stateMachineArn=arn)["executions"]
        names = [each["name"] for each in listed]
        assert any(names.count(name) == 2 for name in names), "no execution ran twice"
        assert {each["status"] for each in listed if names.count(each["name"]) == 2} == {"SUCCEEDED"}


def names(manifests: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(each["metadata"]["name"]) for each in manifests}

"""Each class is resolved by itself: a mistake in one does not stop the pools of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import pytest

from functions.resolve_node_classes import handler as resolve_node_classes
from joiner.adapters import documents, sweep_documents
from joiner.adapters.ec2_client import Ec2, Parameters
from joiner.adapters.ec2_errors import Ec2Error, Ec2Throttled, NoAnswer
from joiner.adapters.instance_profiles import InstanceProfiles
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.adapters.payload import Execution, Task
from joiner.adapters.shared_calls import AnswerMemory
from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from tests.unit.functions.fake_ec2 import lost, refused
from tests.unit.functions.simulated_cluster import SimulatedCluster, arn
from tests.unit.functions.small_account import CLUSTER, NODECLASS, NODEPOOL, NOON

FOUND = {
    "describe_subnets": {
        "Subnets": [{"SubnetId": "subnet-a", "AvailabilityZone": "us-east-1a", "AvailableIpAddressCount": 9}]
    },
    "describe_security_groups": {"SecurityGroups": [{"GroupId": "sg-1"}]},
}
ALL_LOOKUPS = ["describe_security_groups", "describe_subnets", "get_ebs_default_kms_key_id", "get_parameters"]
MISTAKE = {"instanceProfile": "a/b"}
"""A profile with a slash, which IAM refuses to look up."""
NODE_CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: "


@dataclass
class FakeAccount:
    """EC2, SSM and IAM with one of everything; IAM validates names of profiles as the real one does."""

    error: Exception = field(default_factory=lambda: refused("GetInstanceProfile", "ValidationError", "invalid name"))
    asked: list[str] = field(default_factory=list)
    failing: list[Exception] = field(default_factory=list)
    """Errors of the next lookups of subnets."""
    images: dict[str, Any] = field(default_factory=lambda: {"Images": []})
    nothing: set[str] = field(default_factory=set)
    """Operations that find nothing."""
    absent: set[str] = field(default_factory=set)
    """Parts of the names of parameters, and ids of snapshots, that do not exist yet."""
    together: Barrier | None = None
    """Subnets and security groups are returned when both were asked for."""

    def get_paginator(self, operation: str) -> "AnsweredPages":
        return AnsweredPages(self, operation)

    def get_parameters(self, *, Names: list[str]) -> Any:
        self.asked.append("get_parameters")
        found = [name for name in Names if not any(one in name for one in self.absent)]
        return {"Parameters": [{"Name": name, "Value": f"ami-{number}"} for number, name in enumerate(found)]}

    def get_ebs_default_kms_key_id(self) -> Any:
        self.asked.append("get_ebs_default_kms_key_id")
        return {"KmsKeyId": "alias/aws/ebs"}

    def get_ebs_encryption_by_default(self) -> Any:
        return {"EbsEncryptionByDefault": False}

    def get_instance_profile(self, *, InstanceProfileName: str) -> Any:
        self.asked.append("get_instance_profile")
        if "/" in InstanceProfileName:
            raise self.error
        return {"InstanceProfile": {"Roles": [{"RoleName": "nodes"}]}}


@dataclass
class AnsweredPages:
    account: FakeAccount
    operation: str

    def paginate(self, **asked: Any) -> list[Any]:
        self.account.asked.append(self.operation)
        if self.operation == "describe_subnets" and self.account.failing:
            raise self.account.failing.pop()
        if self.account.together and self.operation in ("describe_subnets", "describe_security_groups"):
            self.account.together.wait(timeout=30)
        if self.operation == "describe_snapshots":
            ids = [one for one in asked["Filters"][0]["Values"] if one not in self.account.absent]
            return [{"Snapshots": [{"SnapshotId": one, "VolumeSize": 8, "State": "completed"} for one in ids]}]
        if self.operation in self.account.nothing:
            return [{}]
        return [self.account.images if self.operation == "describe_images" else FOUND[self.operation]]


def answer(
    cluster: SimulatedCluster,
    account: FakeAccount,
    *,
    every: bool = False,
    bad_is_named: bool = True,
    time_left: TimeLeft = UNBOUNDED,
    now: datetime = NOON,
    validates: bool = True,
    spec: Mapping[str, Any] = MISTAKE,
    memory: AnswerMemory | None = None,
    turn: int = 1,
) -> tuple[dict[str, Any], Any]:
    """Return the response for three classes: no pool names the third, and one has a mistake, the fields of `spec`."""
    lease = cluster._take_lease("up-1") or cluster.ledger.lease().number
    task = Task(Execution("up-1", arn("up-1"), ""), CLUSTER, lease, turn)
    bad = {
        **NODECLASS,
        "metadata": {"name": "bad", "uid": "class-2"},
        "spec": {**NODECLASS["spec"], **spec},
    }
    unnamed = {**NODECLASS, "metadata": {"name": "unnamed", "uid": "class-3"}}
    template = {
        "spec": {**NODEPOOL["spec"]["template"]["spec"], "nodeClassRef": {"kind": "EC2NodeClass", "name": "bad"}}
    }
    template["spec"]["nodeClassRef"]["group"] = "karpenter.k8s.aws"
    bad_pool = {**NODEPOOL, "metadata": {"name": "bad", "uid": "pool-2"}, "spec": {"template": template}}
    pools = [bad_pool, dict(NODEPOOL)] if bad_is_named else [dict(NODEPOOL)]
    lists = {"nodepools": pools, "ec2nodeclasses": [bad, dict(NODECLASS), unnamed]}
    snapshot = documents.put_snapshot(cluster.store, task, lists, assignments={}, assigned={}, in_flight=())
    resolver = resolve_node_classes.NodeClassResolver(
        cluster.ledger,
        cluster.store,
        ec2=Ec2(account),
        parameters=Parameters(account),
        profiles=InstanceProfiles(lambda: account),
        ceilings=NodeClassPolicy(
            ("nodes",),
            "nodes-profile",
            subnets=AllowedResources(("subnet-a",)),
            security_groups=AllowedResources(("sg-1",)),
        ),
        time_left=time_left,
        validates=validates,
        memory=memory,
    )
    summary = resolver.answer(task, snapshot, now, 2**33, every=every)
    return summary, documents.get_node_classes(cluster.store, summary["classes"])


def test_a_class_whose_lookup_is_refused_reports_it_and_the_others_go_on(cluster: SimulatedCluster) -> None:
    summary, classes = answer(cluster, FakeAccount())

    assert (summary["ready"], summary["refused"]) == (1, 1)
    (problem,) = classes["EC2NodeClass/bad"].problems
    assert (problem.condition, problem.reason) == ("ValidationSucceeded", "LookupFailed")
    assert problem.message.startswith("ValidationError: invalid name: put the class right")
    assert classes["EC2NodeClass/default"].ready


@pytest.mark.parametrize("named", [True, False], ids=["of a pool", "of no pool"])
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"userData": f'{NODE_CONFIG}!!bool "abc"'}, "InvalidUserData"),
        ({"userData": f'{NODE_CONFIG}!!timestamp "abc"'}, "InvalidUserData"),
        (
            {"userData": f"[settings]\na = {'9' * 5000}", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
            "InvalidUserData",
        ),
        (
            {"userData": f"a = {'[' * 3000}", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
            "InvalidUserData",
        ),
        ({"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "own-*"}]}, "ResolutionFailed"),
    ],
)
def test_a_class_that_cannot_be_read_reports_it_and_the_others_go_on(
    cluster: SimulatedCluster, spec: Mapping[str, Any], reason: str, named: bool
) -> None:
    account = FakeAccount(images={"Images": [{"Architecture": "x86_64"}]})  # an image without the id it must have

    _, classes = answer(cluster, account, every=True, bad_is_named=named, spec=spec)

    assert [one.reason for one in classes["EC2NodeClass/bad"].problems if one.severity == "error"] == [reason]
    assert classes["EC2NodeClass/default"].ready


@pytest.mark.parametrize(
    ("every", "resolved"),
    [
        (False, {"EC2NodeClass/bad", "EC2NodeClass/default"}),
        (True, {"EC2NodeClass/bad", "EC2NodeClass/default", "EC2NodeClass/unnamed"}),
    ],
)
def test_a_class_that_no_pool_names_is_resolved_if_every_class_is(
    cluster: SimulatedCluster, every: bool, resolved: set[str]
) -> None:
    assert set(answer(cluster, FakeAccount(), every=every)[1]) == resolved


@pytest.mark.parametrize(
    ("error", "raised"),
    [(refused("GetInstanceProfile", "Throttling"), Ec2Throttled), (lost("GetInstanceProfile"), NoAnswer)],
    ids=["throttled", "no answer"],
)
def test_a_lookup_whose_error_is_not_of_the_class_is_tried_again(
    cluster: SimulatedCluster, error: Exception, raised: type[Ec2Error]
) -> None:
    with pytest.raises(raised):
        answer(cluster, FakeAccount(error))


@pytest.mark.parametrize(
    ("time_left", "resolved"),
    [
        (UNBOUNDED, {"EC2NodeClass/default", "EC2NodeClass/unnamed"}),
        (TimeLeft(lambda: 1.0), {"EC2NodeClass/default"}),
    ],
    ids=["a throttled class", "no time"],
)
def test_a_class_that_no_pool_names_does_not_stop_the_others(
    cluster: SimulatedCluster, time_left: TimeLeft, resolved: set[str]
) -> None:
    account = FakeAccount(refused("GetInstanceProfile", "Throttling"))

    _, classes = answer(cluster, account, every=True, bad_is_named=False, time_left=time_left)

    assert set(classes) == resolved


@pytest.mark.parametrize("every", [True, False])
def test_a_resolution_of_every_class_stores_the_free_addresses_of_classes_that_pools_name(
    cluster: SimulatedCluster, every: bool
) -> None:
    answer(cluster, FakeAccount(), every=every)

    found = "EC2NodeClass/default/us-east-1a/8" if every else ""
    assert sweep_documents.get_free_addresses(cluster.store) == found


def test_what_several_classes_select_is_read_once(cluster: SimulatedCluster) -> None:
    account = FakeAccount()

    _, classes = answer(cluster, account, every=True)

    assert classes["EC2NodeClass/default"].ready and classes["EC2NodeClass/unnamed"].ready
    assert sorted(account.asked) == [*ALL_LOOKUPS[:3], "get_instance_profile", "get_parameters"]


def test_lookups_of_a_class_run_at_the_same_time(cluster: SimulatedCluster) -> None:
    _, classes = answer(cluster, FakeAccount(together=Barrier(2)), bad_is_named=False)

    assert classes["EC2NodeClass/default"].ready


def test_a_lookup_that_failed_for_one_class_is_sent_again_for_another(cluster: SimulatedCluster) -> None:
    account = FakeAccount(failing=[refused("DescribeSubnets", "UnauthorizedOperation")])

    _, classes = answer(cluster, account, every=True, bad_is_named=False)

    assert not classes["EC2NodeClass/default"].ready
    assert classes["EC2NodeClass/unnamed"].ready


@pytest.mark.parametrize(
    ("following", "asked"),
    [
        ({"now": NOON + timedelta(seconds=60)}, ALL_LOOKUPS[:3]),
        ({"now": NOON + timedelta(seconds=61)}, ALL_LOOKUPS),
        ({"turn": 2}, ALL_LOOKUPS),
        ({"every": True}, ALL_LOOKUPS),
    ],
    ids=["within a minute", "later", "after a refused launch", "to detect drift"],
)
def test_answers_within_a_minute_are_remembered_except_what_launches_change(
    cluster: SimulatedCluster, following: Mapping[str, Any], asked: Sequence[str]
) -> None:
    account, memory = FakeAccount(), AnswerMemory()
    _, first = answer(cluster, account, memory=memory, bad_is_named=False, spec={})
    account.asked.clear()

    _, again = answer(cluster, account, memory=memory, bad_is_named=False, spec={}, **following)

    assert sorted(account.asked) == asked
    assert again["EC2NodeClass/default"] == first["EC2NodeClass/default"]


def test_nothing_found_is_not_remembered(cluster: SimulatedCluster) -> None:
    account, memory = FakeAccount(), AnswerMemory()
    account.nothing.add("describe_security_groups")
    _, first = answer(cluster, account, memory=memory, bad_is_named=False)
    account.nothing.clear()

    _, again = answer(cluster, account, memory=memory, bad_is_named=False)

    assert (first["EC2NodeClass/default"].ready, again["EC2NodeClass/default"].ready) == (False, True)


SNAPSHOTS = ("snap-0123456789abcdef0", "snap-0123456789abcdef1")


@pytest.mark.parametrize(
    ("absent", "asked_again"),
    [("arm64", "get_parameters"), (SNAPSHOTS[1], "describe_snapshots"), ("", "")],
    ids=["a parameter", "a snapshot", "nothing"],
)
def test_an_answer_without_all_that_was_asked_for_is_not_remembered(
    cluster: SimulatedCluster, absent: str, asked_again: str
) -> None:
    account, memory = FakeAccount(absent={absent} - {""}), AnswerMemory()
    volumes = [
        {"deviceName": f"/dev/xvd{letter}", "ebs": {"snapshotID": snapshot}}
        for letter, snapshot in zip("bc", SNAPSHOTS, strict=True)
    ]
    spec = {"blockDeviceMappings": volumes}
    answer(cluster, account, memory=memory, spec=spec)
    account.asked.clear()
    account.absent.clear()

    answer(cluster, account, memory=memory, spec=spec)

    assert {"get_parameters", "describe_snapshots"} & {*account.asked} == {asked_again} - {""}

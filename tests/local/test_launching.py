"""The functions that call EC2, against the local AWS: classes resolved, one fleet for one launch, after any earlier
attempts.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from functions.launch_instances import handler as launch_instances
from functions.resolve_node_classes import handler as resolve_node_classes
from infra.node_class_limits import node_class_limits
from infra.settings import Settings
from joiner.adapters import documents
from joiner.adapters.ec2_client import Ec2, Parameters
from joiner.adapters.ec2_errors import ResourceNotFound
from joiner.adapters.executions import GONE, Executions
from joiner.adapters.instance_profiles import InstanceProfiles
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import LeaseLost
from joiner.adapters.pause import Pause
from joiner.adapters.payload import Execution, Task
from joiner.adapters.store import NoSuchDocument, Store
from joiner.catalogue import Catalogue, InstanceType
from joiner.cluster import Resources
from joiner.launching import Launch, LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.pools import (
    NodeClaimTemplate,
    NodeClass,
    NodeClassRef,
    NodePool,
    ResolvedNodeClass,
    SecurityGroupTerm,
    SubnetTerm,
    build_node_claim,
)
from joiner_local.aws.account_setup.cluster_network import Network, seed_network
from joiner_local.aws.local_aws import ACCOUNT
from tests.local.running_aws import RunningAws
from tests.unit.functions.simulated_cluster import arn
from tests.unit.functions.small_account import CLUSTER, NODECLASS, NODEPOOL, NOON

pytestmark = pytest.mark.local

TAGS = {"karpenter.sh/discovery": "launching"}
NODE_CLASS = NodeClass(
    "default",
    subnet_terms=(SubnetTerm(TAGS),),
    security_group_terms=(SecurityGroupTerm(TAGS),),
    instance_profile=None,
    uid="class-1",
)
POOL = NodePool("default", NodeClassRef("EC2NodeClass", "default"), uid="pool-1")
M5 = InstanceType("m5.large", {"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.large"})


class LaunchAccount:
    """An account with a network, a table with a held lease, and a bucket."""

    def __init__(self, aws: RunningAws, network: Network) -> None:
        self.aws, self.network = aws, network
        name = aws.table("joiner")
        aws.client("s3").create_bucket(Bucket=name)
        self.ledger = Ledger(aws.client("dynamodb"), name)
        self.store = Store(aws.client("s3"), name)
        self.ec2 = Ec2(aws.client("ec2"))
        self.task = self.take_lease("up-1")

    def take_lease(self, execution: str) -> Task:
        values = {":me": arn(execution), ":until": 2**33, ":one": 1}
        item = self.ledger._update(
            "LEASE", "scale-up", "SET holder = :me, leaseUntil = :until ADD leaseNumber :one", values
        )
        return Task(
            Execution(execution, arn(execution), ""),
            replace(CLUSTER, name="launching"),
            int(item["leaseNumber"]["N"]),
            1,
        )

    def ceilings(self) -> NodeClassPolicy:
        """Return the ceilings of the default settings, as the deployment passes them to the function."""
        plain = NodeClassPolicy(
            ("KarpenterNodeRole-launching",), self.network.instance_profile, ("amazon", "self"), account=ACCOUNT
        )
        return plain.with_limits(node_class_limits(Settings(cluster="launching", region="us-east-1")))

    def resolver(self, ceilings: NodeClassPolicy | None = None) -> resolve_node_classes.NodeClassResolver:
        """Return the resolver of the deployed function, with the default ceilings or others."""
        return resolve_node_classes.NodeClassResolver(
            self.ledger,
            self.store,
            ec2=self.ec2,
            parameters=Parameters(self.aws.client("ssm")),
            profiles=InstanceProfiles(lambda: self.aws.client("iam")),
            ceilings=ceilings or self.ceilings(),
        )

    def resolve(
        self, *, ceilings: NodeClassPolicy | None = None, **node_class: Any
    ) -> tuple[dict[str, Any], dict[str, ResolvedNodeClass]]:
        spec = {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": TAGS}],
            "securityGroupSelectorTerms": [{"tags": TAGS}],
        }
        lists: dict[str, list[dict[str, Any]]] = {
            "nodepools": [dict(NODEPOOL)],
            "ec2nodeclasses": [{**NODECLASS, "spec": spec | node_class}],
        }
        snapshot = documents.put_snapshot(self.store, self.task, lists, assignments={}, assigned={}, in_flight=())
        answer = self.resolver(ceilings).answer(self.task, snapshot, NOON, 2**33)
        return answer, documents.get_node_classes(self.store, answer["classes"])

    def launch(self, *suffixes: str) -> tuple[str, Launch]:
        """Return the key and the launch of equal claims."""
        resolved = self.resolve()[1]["EC2NodeClass/default"]
        claims = [
            build_node_claim(
                POOL, NodeClaimTemplate(requests=Resources.of(cpu=1)), suffix=suffix, lease=1, execution="up-1"
            )
            for suffix in suffixes
        ]
        offers = tuple(LaunchOffering(0.096, "m5.large", zone) for zone in ("us-east-1a", "us-east-1b"))
        wanted = [ClaimToLaunch(claim, POOL, NODE_CLASS, resolved, "on-demand", offers) for claim in claims]
        (launch,), refusals = group_launches(
            wanted, Catalogue.of([M5]), self.task.cluster, execution=self.ledger._table
        )
        assert refusals == ()
        return documents.put_launches(self.store, self.task, [launch]), launch

    def send(self, key: str, task: Task | None = None) -> dict[str, Any]:
        launcher = launch_instances.Launcher(
            self.ledger, self.store, self.ec2, Pause(self.aws.client("ssm"), "launching")
        )
        answer: dict[str, Any] = launcher.answer(task or self.task, key, 0, NOON, 2**33)
        return answer


@pytest.fixture(scope="module")
def network(local_aws: RunningAws) -> Network:
    return seed_network(local_aws.endpoint, "launching")


@pytest.fixture
def account(local_aws: RunningAws, network: Network) -> Iterator[LaunchAccount]:
    yield LaunchAccount(local_aws, network)
    local_aws.knob("capacity", clear=True)


def test_a_class_is_resolved_from_what_ec2_and_ssm_have(account: LaunchAccount) -> None:
    answer, classes = account.resolve()
    found = classes["EC2NodeClass/default"]

    assert (answer["ready"], answer["refused"]) == (1, 0), found.problems
    assert {subnet.id for subnet in found.subnets} == set(account.network.subnets.values())
    assert [group.id for group in found.security_groups] == [account.network.security_group]
    assert {image.arch for image in found.images} == {"amd64", "arm64"}
    assert found.instance_profile == account.network.instance_profile


@pytest.mark.parametrize(
    ("mistake", "condition"),
    [
        ({"subnetSelectorTerms": [{"tags": {"nobody": "has"}}]}, "SubnetsReady"),
        ({"securityGroupSelectorTerms": [{"tags": {"nobody": "has"}}]}, "SecurityGroupsReady"),
        ({"instanceProfile": "nobody-made-it"}, "InstanceProfileReady"),
    ],
    ids=["subnets", "security groups", "an instance profile"],
)
def test_a_class_for_which_something_is_missing_reports_what(
    account: LaunchAccount, mistake: dict[str, Any], condition: str
) -> None:
    answer, classes = account.resolve(**mistake)

    assert (answer["ready"], answer["refused"]) == (0, 1)
    assert [
        problem.condition for problem in classes["EC2NodeClass/default"].problems if problem.severity == "error"
    ] == [condition]


def test_a_launch_gives_each_claim_its_instance_with_its_tags(account: LaunchAccount) -> None:
    key, launch = account.launch("a", "b")

    answer = account.send(key)

    assert answer == {"launch": launch.id, "launched": 2, "short": 0, "failed": 0, "errors": []}
    instances = account.ec2.instances_of_launch(launch.id)
    assert sorted(each.tags["karpenter.sh/nodeclaim"] for each in instances) == ["default-a", "default-b"]
    assert {each.instance_type for each in instances} == {"m5.large"}
    pairings = account.ledger.pairings(each.id for each in instances)
    assert {pairing.instance: pairing.claim for pairing in pairings.values()} == {
        each.id: each.tags["karpenter.sh/nodeclaim"] for each in instances
    }
    assert launch.id in {each.launch for each in account.ec2.instances_of_cluster("launching")}


def test_a_launch_that_is_sent_again_launches_nothing_more(account: LaunchAccount) -> None:
    key, launch = account.launch("a")

    assert account.send(key) == account.send(key)
    assert len(account.ec2.instances_of_launch(launch.id)) == 1


def test_a_launch_whose_answer_was_lost_is_found_by_its_tag(account: LaunchAccount) -> None:
    key, launch = account.launch("a")
    for template in launch.templates:
        account.ec2.ensure_launch_template(template.name, template.data, template.tags)
    account.ledger.begin_launch(
        documents.record_of(launch, lease_number=account.task.lease_number, execution=account.task.execution.arn)
    )
    account.ec2.create_fleet(launch.request)  # and the function was killed here

    answer = account.send(key, account.take_lease("up-2"))

    assert answer["launched"] == 1
    assert len(account.ec2.instances_of_launch(launch.id)) == 1


def test_nothing_is_launched_under_a_lease_that_moved_on(account: LaunchAccount) -> None:
    key, launch = account.launch("a")
    account.take_lease("up-2")

    with pytest.raises(LeaseLost):
        account.send(key)
    assert account.ec2.instances_of_launch(launch.id) == []


def test_an_offering_that_is_short_is_remembered_and_the_claim_may_be_planned_again(account: LaunchAccount) -> None:
    for zone in ("us-east-1a", "us-east-1b"):
        account.aws.knob("capacity", instanceType="m5.large", zone=zone, available=0)
    key, _ = account.launch("a")

    answer = account.send(key)

    assert (answer["launched"], answer["short"], answer["errors"]) == (0, 1, ["InsufficientInstanceCapacity"])
    assert {mark.offering.zone for mark in account.ledger.unavailable(int(NOON.timestamp()))} == {
        "us-east-1a",
        "us-east-1b",
    }
    assert account.ledger.unavailable(int(NOON.timestamp()) + 181) == []


def test_instances_are_ended_and_those_that_are_gone_already_are_no_error(account: LaunchAccount) -> None:
    key, launch = account.launch("a")
    account.send(key)
    (instance,) = account.ec2.instances_of_launch(launch.id)

    done = account.ec2.terminate([instance.id, "i-00000000000000000"])

    assert (done.ended, done.absent, done.refused) == ((instance.id,), ("i-00000000000000000",), {})
    assert account.ec2.instances_of_launch(launch.id) == []


def test_a_missing_object_is_not_found(account: LaunchAccount) -> None:
    with pytest.raises(ResourceNotFound):
        account.ec2.pages("describe_subnets", "Subnets", SubnetIds=["subnet-00000000000000000"])
    with pytest.raises(NoSuchDocument):
        account.store.get("plans/none/1.json.gz")
    machine = "arn:aws:states:us-east-1:123456789012:execution:nobody:up-1"
    assert Executions(account.aws.client("stepfunctions")).status(machine) == GONE

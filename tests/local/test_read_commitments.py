"""Reserved instances and savings plans of the account, read from the local AWS into a catalogue, and a plan that uses
them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.refresh_catalogue.account_commitments import AccountReader
from functions.refresh_catalogue.handler import CatalogueRefresh
from joiner import names
from joiner.adapters import documents
from joiner.adapters.account_billing import read_instances_elsewhere, read_reserved_instances, read_savings_plans
from joiner.adapters.ec2_client import Ec2
from joiner.adapters.store import Store
from joiner.catalogue import Catalogue
from joiner.catalogue.reserved_instances_and_savings_plans import RESERVED_INSTANCES
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from joiner.pools import ResolvedNodeClass, Subnet
from joiner_local.aws.ec2.ec2_prices import Ec2Prices
from joiner_local.aws_sessions import aws_session
from tests.local.running_aws import RunningAws
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import node_pool, pods

pytestmark = pytest.mark.local

REGION = "us-east-1"
A = "us-east-1a"
RARE = "r5n.large"
"""An instance type that no other test launches: instances that other tests leave use the commitments first."""


@pytest.fixture
def aws(local_aws: RunningAws) -> Iterator[RunningAws]:
    yield local_aws
    for knob in ("reserved-instances", "savings-plans"):
        local_aws.knob(knob, clear=True)


@pytest.fixture
def store(aws: RunningAws) -> Store:
    bucket = aws.fresh("commitments")
    aws.client("s3").create_bucket(Bucket=bucket)
    return Store(aws.client("s3"), bucket)


def reserve(aws: RunningAws, **asked: Any) -> str:
    return str(aws.knob("reserved-instances", **{"instanceType": "m5.large", "count": 2, **asked})["id"])


def buy(aws: RunningAws, **asked: Any) -> str:
    return str(aws.knob("savings-plans", **{"pricePerHour": 0.5, "discountPercent": 40, **asked})["id"])


def refresh(aws: RunningAws, store: Store, ec2: Any = None) -> tuple[dict[str, Any], Catalogue]:
    client = ec2 or aws.client("ec2")
    reader = AccountReader(client, aws.client("savingsplans"), REGION, "prod")
    run = CatalogueRefresh(
        Ec2(aws.client("ec2")), aws.client("ec2"), aws.client("pricing"), store, REGION, account=reader
    )
    return run.run(datetime.now(UTC)), documents.get_catalogue(store)


def test_only_active_reserved_instances_of_linux_on_shared_hardware_are_read(aws: RunningAws) -> None:
    reserve(aws, zone=A)
    reserve(aws, count=3, platform="Linux/UNIX (Amazon VPC)", **{"class": "convertible"})
    reserve(aws, platform="Windows")
    reserve(aws, platform="Red Hat Enterprise Linux")
    reserve(aws, tenancy="dedicated")
    for state in ("payment-pending", "payment-failed", "retired", "queued", "queued-deleted"):
        reserve(aws, state=state)

    found = read_reserved_instances(aws.client("ec2"))

    assert sorted((one.instance_type, one.count, one.zone) for one in found) == [
        ("m5.large", 2, A),
        ("m5.large", 3, ""),
    ]
    assert all(one.until > datetime.now(UTC).timestamp() for one in found)


def test_savings_plans_have_the_rates_of_linux_on_shared_hardware_in_this_region(aws: RunningAws) -> None:
    compute, family = buy(aws), buy(aws, family="m5", discountPercent=50)
    buy(aws, family="m5", region="eu-west-1")
    buy(aws, type="SageMaker")
    for state in ("payment-pending", "queued", "retired", "returned"):
        buy(aws, state=state)

    found = {one.id: one for one in read_savings_plans(aws.client("savingsplans"), REGION)}

    price = Ec2Prices.packaged().on_demand("m5.large")
    assert found.keys() == {compute, family}
    assert found[compute].rates["m5.large"] == pytest.approx(price * 0.6, abs=1e-6)
    assert found[family].rates["m5.large"] == pytest.approx(price * 0.5, abs=1e-6)
    assert (found[family].family, {name.partition(".")[0] for name in found[family].rates}) == ("m5", {"m5"})
    assert len(found[compute].rates) > 700  # of several pages


def test_savings_plans_of_every_page_are_read(aws: RunningAws) -> None:
    bought = {buy(aws, family="m5") for _ in range(102)}

    assert {one.id for one in read_savings_plans(aws.client("savingsplans"), REGION)} == bought


def test_instances_outside_of_the_cluster_come_first(aws: RunningAws, store: Store) -> None:
    reserve(aws, count=3, zone=A, instanceType=RARE)
    ec2 = aws.client("ec2")
    before = {one.id for one in read_instances_elsewhere(Ec2(ec2), "prod")}
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    asked = {"ImageId": image, "InstanceType": RARE, "MinCount": 1, "MaxCount": 1}
    made = []
    no_tags: dict[str, str] = {}
    for tags in (
        no_tags,
        {"kubernetes.io/cluster/prod": "owned"},
        {"eks:cluster-name": "prod"},
        {"eks:cluster-name": "dev"},
    ):
        labelled = [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": tags[key]} for key in tags]}]
        launched = ec2.run_instances(
            **asked, Placement={"AvailabilityZone": A}, **({"TagSpecifications": labelled} if tags else {})
        )
        made.append(launched["Instances"][0]["InstanceId"])
    try:
        elsewhere = {one.id for one in read_instances_elsewhere(Ec2(ec2), "prod")} - before
        _, catalogue = refresh(aws, store)
    finally:
        ec2.terminate_instances(InstanceIds=made)

    assert elsewhere == {made[0], made[3]}
    (left,) = catalogue.commitments
    assert (left.id, left.amount) == (f"reserved-instances/{RARE}/{A}", 1)


def plan_of_one_pod(catalogue: Catalogue) -> Plan:
    """Plan for one small pod on on-demand nodes of one zone."""
    on_demand = {"key": names.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}
    classes = {"EC2NodeClass/default": ResolvedNodeClass("default", "EC2NodeClass", subnets=(Subnet("subnet-a", A),))}
    waiting = cluster(pods(1, cpu="500m"), node_pool(requirements=[on_demand]))
    return plan(Snapshot.from_lists(waiting), catalogue, classes=classes)


def test_a_plan_uses_the_commitments_of_the_account(aws: RunningAws, store: Store) -> None:
    without = plan_of_one_pod(refresh(aws, store)[1])
    reserve(aws, count=1, zone=A, instanceType="m5.4xlarge")

    answer, catalogue = refresh(aws, store)
    found = plan_of_one_pod(catalogue)

    assert (answer["commitments"], answer["commitmentsNotRead"]) == (1, [])
    assert [one.instance_type for one in found.nodes] == ["m5.4xlarge"]
    assert [one.instance_type for one in without.nodes] != ["m5.4xlarge"]
    assert found.price_per_hour < 0.001 < without.price_per_hour


def test_what_the_role_may_not_read_is_reported_and_stays_as_it_was(aws: RunningAws, store: Store) -> None:
    reserve(aws, count=2, zone=A, instanceType=RARE)
    refresh(aws, store)
    reserve(aws, count=3, zone="us-east-1b")
    may = {"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"}
    role = aws.role("lambda.amazonaws.com", [may])
    keys = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    session = aws_session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])

    answer, catalogue = refresh(aws, store, session.client("ec2", endpoint_url=aws.endpoint))

    assert answer["commitmentsNotRead"] == [RESERVED_INSTANCES]
    assert [one.id for one in catalogue.commitments] == [f"reserved-instances/{RARE}/{A}"]

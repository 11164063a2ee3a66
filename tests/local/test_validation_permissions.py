"""The launches of a class on the local EC2, with roles that lack a permission or are denied one by a condition."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from functions.launch_instances.class_validation import ClassValidator
from joiner import names
from joiner.adapters.class_validations import ClassToValidate
from joiner.adapters.ledger import Ledger
from joiner.adapters.parallel_calls import UNBOUNDED
from joiner.catalogue import Catalogue, InstanceType, Offering
from joiner.cluster import Requirement, Requirements, Resources, ValueSet
from joiner.launching import Launch
from joiner.launching.validation_launches import build_validation_launches
from joiner.pools import Image, NodeClass, NodePool, ResolvedNodeClass, SecurityGroup, Subnet
from joiner_local.aws.account_setup.cluster_network import seed_network
from joiner_local.aws_sessions import aws_session
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws
from tests.unit.functions.small_account import CLUSTER, NOON

pytestmark = pytest.mark.local

LAUNCHING = ("ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:RunInstances", "iam:PassRole")
DENIED = {"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*"}


def launches(aws: RunningAws, capacity_type: str = names.ON_DEMAND) -> tuple[Launch, ...]:
    """Return the launches of a class with a tag, in two zones."""
    network = seed_network(aws.endpoint, "validation")
    pad = LaunchPad(aws.client("ec2"), aws.client("ssm"), network, "none")
    zones = sorted(network.subnets)[:2]
    resolved = ResolvedNodeClass(
        "default",
        "EC2NodeClass",
        subnets=tuple(Subnet(network.subnets[zone], zone, 100) for zone in zones),
        security_groups=(SecurityGroup(network.security_group),),
        images=(Image(pad.image(), "amd64"),),
        instance_profile=network.instance_profile,
    )
    labels = {names.ARCH: "amd64", names.OS: "linux", names.INSTANCE_TYPE: "m5.large"}
    offerings = tuple(Offering(zone, capacity_type, 0.1) for zone in zones)
    size = Resources.of(cpu=2)
    node_class = NodeClass("default", tags={"team": aws.fresh("web")})
    allowed = Requirements.of([Requirement(names.CAPACITY_TYPE, ValueSet.of(capacity_type))])
    pool = NodePool("default", node_class.ref, requirements=allowed)
    catalogue = Catalogue.of([InstanceType("m5.large", labels, size, size, offerings)])
    return build_validation_launches(node_class, resolved, [pool], catalogue, CLUSTER, execution="sweep-1").launches


def counts(ec2: Any) -> tuple[int, int]:
    reservations = ec2.describe_instances()["Reservations"]
    return sum(len(each["Instances"]) for each in reservations), len(ec2.describe_fleets()["Fleets"])


def tried(
    aws: RunningAws, found: tuple[Launch, ...], *denials: Mapping[str, Any], actions: Sequence[str] = LAUNCHING
) -> list[str]:
    """Try the launches as a role with these actions and denials; return what the ledger then has."""
    statements = [{"Effect": "Allow", "Action": [*actions, "ec2:Describe*"], "Resource": "*"}, *map(dict, denials)]
    role = aws.role("lambda.amazonaws.com", statements)
    keys = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    session = aws_session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
    ledger = Ledger(aws.client("dynamodb"), aws.table())
    before = counts(aws.client("ec2"))

    ec2 = session.client("ec2", endpoint_url=aws.endpoint)
    wanted = ClassToValidate("EC2NodeClass/default", "digest", found)
    answer = ClassValidator(ledger, ec2, UNBOUNDED).answer([wanted], NOON)

    assert answer["validated"] == 1, answer
    assert counts(aws.client("ec2")) == before, "nothing is launched"
    verdict = ledger.class_holds(int(NOON.timestamp()))[1]["EC2NodeClass/default"]
    assert "Encoded" not in json.dumps([each.message for each in verdict.refusals])
    return [each.explanation for each in verdict.refusals]


@pytest.mark.parametrize("capacity_type", [names.ON_DEMAND, names.SPOT])
def test_a_role_with_all_permissions_is_allowed(local_aws: RunningAws, capacity_type: str) -> None:
    assert tried(local_aws, launches(local_aws, capacity_type)) == []


@pytest.mark.parametrize(
    ("missing", "call", "lacks"),
    [
        ("ec2:CreateLaunchTemplate", "CreateLaunchTemplate", "ec2:CreateLaunchTemplate"),
        ("ec2:CreateFleet", "CreateFleet", "ec2:CreateFleet"),
        ("ec2:RunInstances", "RunInstances", "ec2:RunInstances"),
        ("iam:PassRole", "RunInstances", "iam:PassRole"),
    ],
)
def test_a_role_without_an_action_is_refused_with_the_action_and_the_resource(
    local_aws: RunningAws, missing: str, call: str, lacks: str
) -> None:
    (refusal,) = tried(local_aws, launches(local_aws), actions=[each for each in LAUNCHING if each != missing])

    assert refusal.startswith(f"EC2 refuses {call}: the role of launch_instances may not {lacks} on arn:aws:")
    assert "(because no identity-based policy allows" in refusal
    assert ": deploy Joiner again" in refusal


def test_a_denial_by_a_tag_of_the_class_is_seen_and_one_by_another_tag_is_not(local_aws: RunningAws) -> None:
    found = launches(local_aws)
    team = found[0].templates[0].tags["team"]

    def denied(value: str) -> dict[str, Any]:
        return {**DENIED, "Condition": {"StringEquals": {"aws:RequestTag/team": value}}}

    (refusal,) = tried(local_aws, found, denied(team))
    assert "with an explicit deny in an identity-based policy): remove that statement" in refusal
    assert tried(local_aws, found, denied("others")) == []


def test_a_denial_in_one_zone_forbids_no_class(local_aws: RunningAws) -> None:
    found = launches(local_aws)
    subnet = found[0].request["LaunchTemplateConfigs"][0]["Overrides"][0]["SubnetId"]

    denied = {**DENIED, "Resource": f"arn:aws:ec2:*:*:subnet/{subnet}"}
    assert tried(local_aws, found[:1], denied) != []
    assert tried(local_aws, found, denied) == []

"""A Provisioner whose provider names a launch template, against the local EC2: resolved, launched, and drifted."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from infra.node_class_limits import node_class_limits
from infra.node_class_settings import AllowedLaunchTemplates, NodeClassSettings
from infra.settings import Settings
from joiner.adapters import documents
from joiner.catalogue import Catalogue
from joiner.cluster import Resources
from joiner.launching import LaunchOffering
from joiner.launching.launch_grouping import ClaimToLaunch, group_launches
from joiner.launching.node_class_policy import NodeClassPolicy
from joiner.planning import Snapshot
from joiner.pools import NodeClaimTemplate, NodeClass, ResolvedNodeClass, build_node_claim
from joiner.pools.drift_hashes import hash_class
from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.launch_fixtures import IMAGE_PARAMETER
from tests.local.running_aws import RunningAws
from tests.local.test_launching import M5, LaunchAccount
from tests.unit.functions.small_account import NOON

pytestmark = pytest.mark.local

KEY = "Inline/old"
TAGS = [{"Key": "karpenter.sh/discovery", "Value": "launching"}]


class TemplateAccount(LaunchAccount):
    """An account with a launch template, and a Provisioner that names it."""

    def __init__(self, aws: RunningAws) -> None:
        super().__init__(aws, seed_network(aws.endpoint, "launching"))
        self.name = aws.fresh("nodes")
        self.client = aws.client("ec2")
        self.allowed: AllowedLaunchTemplates | None = AllowedLaunchTemplates(
            tags={"karpenter.sh/discovery": "launching"}
        )
        self.asked: list[str] = []
        self.ec2._client.meta.events.register("before-call.ec2", lambda model, **_: self.asked.append(model.name))

    def ceilings(self) -> NodeClassPolicy:
        """Return the ceilings of settings that allow launch templates by a tag."""
        settings = Settings(
            cluster="launching", region="us-east-1", node_classes=NodeClassSettings(launch_templates=self.allowed)
        )
        return super().ceilings().with_limits(node_class_limits(settings))

    def data(self, script: str, **more: Any) -> dict[str, Any]:
        return {
            "ImageId": f"resolve:ssm:{IMAGE_PARAMETER.format('x86_64')}",
            "SecurityGroupIds": [self.network.security_group],
            "IamInstanceProfile": {"Name": self.network.instance_profile},
            "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 33, "VolumeType": "gp3"}}],
            "UserData": base64.b64encode(script.encode()).decode(),
            **more,
        }

    def create(self, *, tags: list[dict[str, str]] = TAGS, **more: Any) -> None:
        specifications = [{"ResourceType": "launch-template", "Tags": tags}] if tags else []
        self.client.create_launch_template(
            LaunchTemplateName=self.name,
            LaunchTemplateData=self.data("#!/bin/sh\necho first\n", **more),
            TagSpecifications=specifications,
        )

    def look(self) -> tuple[Snapshot, ResolvedNodeClass]:
        """Return the snapshot, with what the template decides, and the resolved class."""
        provider = {"launchTemplate": self.name, "subnetSelector": {"karpenter.sh/discovery": "launching"}}
        manifest = {"kind": "Provisioner", "metadata": {"name": "old", "uid": "p-1"}, "spec": {"provider": provider}}
        lists = {"provisioners": [manifest]}
        key = documents.put_snapshot(self.store, self.task, lists, assignments={}, assigned={}, in_flight=())
        answer = self.resolver().answer(self.task, key, NOON, 2**33)
        resolved = documents.get_node_classes(self.store, answer["classes"])
        return documents.get_snapshot(self.store, key).with_launch_templates(resolved), resolved[KEY]

    def node_class(self) -> NodeClass:
        (made,) = self.look()[0].classes
        return made


@pytest.fixture
def account(local_aws: RunningAws) -> Iterator[TemplateAccount]:
    yield TemplateAccount(local_aws)


def refusals(account: TemplateAccount) -> list[str]:
    return [each.reason for each in account.look()[1].problems if each.severity == "error"]


def test_a_node_has_the_content_of_the_latest_version(account: TemplateAccount) -> None:
    account.create()
    account.client.create_launch_template_version(
        LaunchTemplateName=account.name, LaunchTemplateData=account.data("#!/bin/sh\necho second\n")
    )
    world, resolved = account.look()
    (pool,), (node_class,) = world.pools, world.classes
    assert resolved.ready, resolved.problems
    claim = build_node_claim(
        pool, NodeClaimTemplate(requests=Resources.of(cpu=1)), suffix="a", lease=1, execution="up-1"
    )
    offer = LaunchOffering(0.096, "m5.large", "us-east-1a")
    wanted = ClaimToLaunch(claim, pool, node_class, resolved, "on-demand", (offer,))
    ((launch,), _) = group_launches([wanted], Catalogue.of([M5]), account.task.cluster, execution=account.name)
    key = documents.put_launches(account.store, account.task, [launch])

    assert account.send(key)["launched"] == 1

    (instance,) = account.ec2.instances_of_launch(launch.id)
    asked = {"InstanceId": instance.id, "Attribute": "userData"}
    seen = account.client.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    user_data = account.client.describe_instance_attribute(**asked)["UserData"]["Value"]
    volume = seen["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    assert base64.b64decode(user_data).decode() == "#!/bin/sh\necho second\n"
    image = account.aws.client("ssm").get_parameter(Name=IMAGE_PARAMETER.format("x86_64"))["Parameter"]["Value"]
    assert seen["ImageId"] == image
    assert seen["IamInstanceProfile"]["Arn"].endswith(f"/{account.network.instance_profile}")
    assert [each["GroupId"] for each in seen["SecurityGroups"]] == [account.network.security_group]
    assert account.client.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Size"] == 33
    assert instance.tags["kubernetes.io/cluster/launching"] == "owned"
    assert instance.tags["karpenter.sh/provisioner-name"] == "old"


def reads(account: TemplateAccount) -> list[str]:
    """Return the calls about launch templates since the last time."""
    asked, account.asked[:] = [*account.asked], []
    return [each for each in asked if each.startswith("DescribeLaunchTemplate")]


def test_without_the_setting_a_class_with_a_template_is_refused_and_no_template_is_read(
    account: TemplateAccount,
) -> None:
    account.create()
    account.allowed = None

    (problem,) = account.look()[1].problems

    assert (problem.condition, problem.reason) == ("ValidationSucceeded", "LaunchTemplateNotAllowed")
    assert f"allow {account.name} by its id or by a tag in nodeClasses.launchTemplates" in problem.message
    assert reads(account) == []


def test_a_template_that_is_deleted_while_it_is_read_is_reported_with_its_version(account: TemplateAccount) -> None:
    account.create()

    def delete(**_: object) -> None:
        account.client.delete_launch_template(LaunchTemplateName=account.name)

    events, call = account.ec2._client.meta.events, "before-call.ec2.DescribeLaunchTemplateVersions"
    events.register(call, delete)
    try:
        (problem,) = account.look()[1].problems
    finally:
        events.unregister(call, delete)  # other tests share the client

    assert problem.reason == "LaunchTemplateNotFound"
    assert f"version 1, the latest of the launch template {account.name} (lt-" in problem.message
    assert "was deleted while Joiner read it" in problem.message


def test_the_content_of_a_template_is_read_only_if_the_settings_allow_it(account: TemplateAccount) -> None:
    assert refusals(account) == ["LaunchTemplateNotFound"]

    account.create(tags=[])
    reads(account)
    assert refusals(account) == ["LaunchTemplateNotAllowed"]
    assert reads(account) == ["DescribeLaunchTemplates"]

    template = account.client.describe_launch_templates(LaunchTemplateNames=[account.name])["LaunchTemplates"][0]
    account.client.create_tags(Resources=[template["LaunchTemplateId"]], Tags=TAGS)
    reads(account)
    assert refusals(account) == []
    assert reads(account) == ["DescribeLaunchTemplates", "DescribeLaunchTemplateVersions"]

    account.client.create_tags(Resources=[template["LaunchTemplateId"]], Tags=[{**TAGS[0], "Value": "other"}])
    assert refusals(account) == ["LaunchTemplateNotAllowed"]
    account.allowed = AllowedLaunchTemplates(ids=(template["LaunchTemplateId"],))
    assert refusals(account) == []


def test_content_beyond_the_settings_is_refused(account: TemplateAccount) -> None:
    group = account.client.create_security_group(
        GroupName=account.name, Description="database", VpcId=account.network.vpc
    )["GroupId"]
    account.create(SecurityGroupIds=[group], KeyName="mine")
    assert refusals(account) == ["LaunchTemplateNotSupported"]

    account.client.create_launch_template_version(
        LaunchTemplateName=account.name, LaunchTemplateData=account.data("#!/bin/sh\n", SecurityGroupIds=[group])
    )
    assert refusals(account) == ["SecurityGroupNotAllowed"]


def test_another_version_changes_the_digest_of_the_class_only_with_its_content(account: TemplateAccount) -> None:
    account.create()
    before = hash_class(account.node_class())

    account.client.create_launch_template_version(
        LaunchTemplateName=account.name, LaunchTemplateData=account.data("#!/bin/sh\necho first\n")
    )
    alike = hash_class(account.node_class())
    account.client.create_launch_template_version(
        LaunchTemplateName=account.name, LaunchTemplateData=account.data("#!/bin/sh\necho other\n")
    )

    assert alike == before
    assert hash_class(account.node_class()) != before

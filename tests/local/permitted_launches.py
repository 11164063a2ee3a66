"""Calls of CreateFleet with the permissions that the deployment gives to `launch_instances`."""

from collections.abc import Mapping, Sequence
from typing import Any

from infra.node_class_settings import NodeClassSettings
from infra.settings import Settings
from joiner.names import CLUSTER_NAME_TAG, NODEPOOL, cluster_tag
from joiner_local.aws.account_setup.cluster_network import Network
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws_sessions import aws_session
from tests.local.launch_fixtures import LaunchPad
from tests.local.running_aws import RunningAws

CLUSTER = "permitted"
NOTHING = (["subnet-0"], ["sg-0"])


def assume_role(aws: RunningAws, statements: Sequence[Mapping[str, Any]]) -> Any:
    """Return a session with the permissions of a function's role."""
    role = aws.role("lambda.amazonaws.com", [dict(each) for each in statements])
    keys = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    return aws_session(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])


def permitted_fleet(
    aws: RunningAws,
    network: Network,
    limits: NodeClassSettings | None = None,
    *,
    own: tuple[list[str], list[str]] = NOTHING,
    passed: str = "",
    image_owners: tuple[str, ...] = ("amazon", "self"),
    override: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Call CreateFleet in the name of a role with the statements for these settings. `own` are the cluster's own
    subnets and security groups, `passed` is the ARN of the node role, `data` is added to the launch template.
    """
    from infra.aws_permissions import AccountRegion, ClusterNetwork, allow_launches  # they import the CDK

    settings = Settings(
        cluster=CLUSTER, region=REGION, node_classes=limits or NodeClassSettings(), image_owners=image_owners
    )
    where, network_of_cluster = AccountRegion("aws", REGION, ACCOUNT), ClusterNetwork(*own)
    allowed = allow_launches(settings, where, [passed or network.node_role_arn], network_of_cluster)
    session = assume_role(aws, [each.to_json() for each in allowed])
    ec2 = session.client("ec2", endpoint_url=aws.endpoint)
    name = aws.fresh("permitted")
    ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData={
            **(data or {}),
            "SecurityGroupIds": [network.security_group],
            "TagSpecifications": _tagged("instance", "volume", "network-interface"),
        },
        TagSpecifications=_tagged("launch-template"),
    )
    pad = LaunchPad(ec2, aws.client("ssm"), network, name)
    return pad.fleet([pad.override(**(override or {}))], TagSpecifications=_tagged("fleet", "instance", "volume"))


def _tagged(*kinds: str) -> list[dict[str, Any]]:
    tags = {cluster_tag(CLUSTER): "owned", CLUSTER_NAME_TAG: CLUSTER, NODEPOOL: "default"}
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed} for kind in kinds]

"""EC2 security groups and their single rules."""

from collections.abc import Mapping
from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)

PEER = "CidrIp CidrIpv6 Description FromPort IpProtocol SourceSecurityGroupId DestinationSecurityGroupId ToPort"
EVERYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule of a template as the API spells it.

    >>> permission({"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "10.0.0.0/8"})
    {'IpProtocol': 'tcp', 'FromPort': 443, 'ToPort': 443, 'IpRanges': [{'CidrIp': '10.0.0.0/8'}]}
    """
    made = {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in rule}
    about = {"Description": rule["Description"]} if "Description" in rule else {}
    if "CidrIp" in rule:
        made["IpRanges"] = [{"CidrIp": rule["CidrIp"], **about}]
    if "CidrIpv6" in rule:
        made["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **about}]
    group = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    if group:
        made["UserIdGroupPairs"] = [{"GroupId": group, **about}]
    return made


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    properties = declared.properties
    vpc = properties.get("VpcId")
    group = clients.call(
        "ec2",
        "create_security_group",
        GroupName=declared.name("GroupName", limit=255),
        Description=properties["GroupDescription"],
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": declared.tag_list}] if declared.tags else None,
    )["GroupId"]
    found = clients.call("ec2", "describe_security_groups", GroupIds=[group])["SecurityGroups"][0]
    return CreatedResource(group, {"GroupId": group, "VpcId": found["VpcId"]})


def _configure(clients: ServiceClients, existing: ExistingResource) -> None:
    group, properties = existing.physical_id, existing.properties
    if properties.get("SecurityGroupIngress"):
        rules = [permission(rule) for rule in properties["SecurityGroupIngress"]]
        clients.call("ec2", "authorize_security_group_ingress", GroupId=group, IpPermissions=rules)
    if properties.get("SecurityGroupEgress"):
        # a new group allows all egress; a template with rules replaces that
        clients.call("ec2", "revoke_security_group_egress", GroupId=group, IpPermissions=[EVERYWHERE])
        rules = [permission(rule) for rule in properties["SecurityGroupEgress"]]
        clients.call("ec2", "authorize_security_group_egress", GroupId=group, IpPermissions=rules)


def _rule_type(direction: str, peer: str) -> ResourceType:
    def authorize(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
        properties = declared.properties
        answer = clients.call(
            "ec2",
            f"authorize_security_group_{direction}",
            GroupId=properties["GroupId"],
            IpPermissions=[permission(properties)],
        )
        rule = answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]
        return CreatedResource(rule, {"Id": rule})

    def revoke(clients: ServiceClients, existing: ExistingResource) -> None:
        properties = existing.properties
        clients.call(
            "ec2",
            f"revoke_security_group_{direction}",
            GroupId=properties["GroupId"],
            IpPermissions=[permission(properties)],
        )

    return ResourceType(
        name=f"AWS::EC2::SecurityGroup{direction.capitalize()}",
        honoured=f"CidrIp CidrIpv6 Description FromPort GroupId IpProtocol {peer} ToPort",
        attributes="Id",
        create=authorize,
        delete=revoke,
    )


TYPES = (
    ResourceType(
        name="AWS::EC2::SecurityGroup",
        honoured="GroupDescription GroupName Tags VpcId "
        + " ".join(f"{side}.{key}" for side in ("SecurityGroupIngress", "SecurityGroupEgress") for key in PEER.split()),
        attributes="GroupId VpcId",
        immutable="GroupDescription GroupName SecurityGroupEgress SecurityGroupIngress VpcId",
        named_by="GroupName",
        create=_create,
        configure=_configure,
        delete=calling("ec2", "delete_security_group", "GroupId"),
    ),
    _rule_type("ingress", "SourceSecurityGroupId"),
    _rule_type("egress", "DestinationSecurityGroupId"),
)

"""Create what an account has before Joiner: an EKS cluster, subnets and a security group with the tags by which node
classes find them, a node role and its profile.

`seed_network` uses the public APIs only; a second call changes nothing.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from joiner.names import cluster_tag
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws_sessions import aws_session

ZONES: Final = ("a", "b", "c")
DISCOVERY: Final = "karpenter.sh/discovery"


@dataclass(frozen=True, slots=True)
class Network:
    """Ids of the network of a cluster; `subnets` by zone."""

    vpc: str
    subnets: dict[str, str]
    security_group: str
    node_role_arn: str
    instance_profile: str


def seed_network(endpoint: str, cluster: str, *, version: str = "1.36", node_access: bool = True) -> Network:
    """Create the cluster and its network. `node_access`: also the access entry (EC2_LINUX) of the node role, without
    which no node joins.
    """
    session = aws_session("test", "test")
    ec2, iam, eks = (session.client(name, endpoint_url=endpoint) for name in ("ec2", "iam", "eks"))
    subnets = _subnets(ec2)
    vpc = ec2.describe_subnets(SubnetIds=[subnets[f"{REGION}a"]])["Subnets"][0]["VpcId"]
    group = _security_group(ec2, vpc, cluster)
    ec2.create_tags(Resources=[*subnets.values(), group], Tags=[{"Key": DISCOVERY, "Value": cluster}])
    ec2.create_tags(Resources=[*subnets.values()], Tags=[{"Key": cluster_tag(cluster), "Value": "shared"}])
    ec2.create_tags(Resources=[group], Tags=[{"Key": cluster_tag(cluster), "Value": "owned"}])
    role_arn = _role(iam, f"KarpenterNodeRole-{cluster}", "ec2.amazonaws.com")
    profile = _profile(iam, f"KarpenterNodeInstanceProfile-{cluster}", f"KarpenterNodeRole-{cluster}")
    _cluster(
        eks,
        name=cluster,
        version=version,
        roleArn=_role(iam, f"{cluster}-cluster-role", "eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": list(subnets.values()), "securityGroupIds": [group]},
    )
    if node_access:
        _once(
            "ResourceInUseException",
            lambda: eks.create_access_entry(clusterName=cluster, principalArn=role_arn, type="EC2_LINUX"),
        )
    return Network(vpc, subnets, group, role_arn, profile)


def _once(code: str, make: Any) -> None:
    """Call `make` and ignore the error that says that the resource exists."""
    try:
        make()
    except ClientError as error:
        if error.response["Error"]["Code"] != code:
            raise


def _subnets(ec2: Any) -> dict[str, str]:
    found = ec2.describe_subnets(Filters=[{"Name": "default-for-az", "Values": ["true"]}])["Subnets"]
    return {
        subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in found if subnet["AvailabilityZone"].endswith(ZONES)
    }


def _security_group(ec2: Any, vpc: str, cluster: str) -> str:
    name = f"{cluster}-nodes"
    by_name = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [vpc]}]
    if found := ec2.describe_security_groups(Filters=by_name)["SecurityGroups"]:
        return str(found[0]["GroupId"])
    return str(ec2.create_security_group(GroupName=name, Description=f"nodes of {cluster}", VpcId=vpc)["GroupId"])


def _role(iam: Any, name: str, service: str) -> str:
    trust = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}],
    }
    _once("EntityAlreadyExists", lambda: iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust)))
    return f"arn:aws:iam::{ACCOUNT}:role/{name}"


def _profile(iam: Any, name: str, role: str) -> str:
    _once("EntityAlreadyExists", lambda: iam.create_instance_profile(InstanceProfileName=name))
    if not iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
    return name


def _cluster(eks: Any, **asked: Any) -> None:
    access = {"authenticationMode": "API"}
    network = {"serviceIpv4Cidr": "10.100.0.0/16"}
    _once(
        "ResourceInUseException",
        lambda: eks.create_cluster(accessConfig=access, kubernetesNetworkConfig=network, **asked),
    )

"""EKS: access entries, and the cluster in a call."""

from typing import Any, Final

from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.refusals.refused_calls import not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws

EKS: Final = "eks"
CLUSTER: Final = "refusals"
INVALID: Final = "InvalidParameterException"
ENTRIES: Final = "EKS user guide, Create access entries"
API: Final = "EKS API reference, CreateAccessEntry"
ADMIN: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def enter(aws: RunningAws, principal: str = "", **asked: Any) -> str:
    """Create an access entry, by default for a new role; return the principal's ARN."""
    seed_network(aws.endpoint, CLUSTER)
    principal = principal or aws.role("lambda.amazonaws.com")
    aws.client(EKS).create_access_entry(**{"clusterName": CLUSTER, "principalArn": principal, **asked})
    return principal


@refuses(
    EKS,
    "DescribeCluster",
    "a cluster that does not exist",
    code="ResourceNotFoundException",
    message="No cluster found",
    source=API,
)
def a_cluster_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EKS).describe_cluster(name="nowhere")


@refuses(
    EKS, "CreateAccessEntry", "an entry in a cluster that does not exist", code="ResourceNotFoundException", source=API
)
def an_entry_in_no_cluster(aws: RunningAws) -> None:
    enter(aws, clusterName="nowhere")


@refuses(
    EKS,
    "CreateAccessEntry",
    "a role that does not exist",
    code=INVALID,
    message="The specified principalArn is invalid: invalid principal.",
    source="terraform-aws-modules/terraform-aws-eks#2969",
)
def a_role_that_does_not_exist(aws: RunningAws) -> None:
    enter(aws, "arn:aws:iam::123456789012:role/nobody")


@refuses(
    EKS,
    "CreateAccessEntry",
    "a role's ARN without its path",
    code=INVALID,
    message="invalid principal",
    source="EKS user guide, Create access entries: the ARN must include the path",
)
def a_role_without_its_path(aws: RunningAws) -> None:
    name = aws.fresh("role")
    trust = '{"Version": "2012-10-17", "Statement": []}'
    aws.client("iam").create_role(RoleName=name, Path="/nodes/", AssumeRolePolicyDocument=trust)
    enter(aws, f"arn:aws:iam::123456789012:role/{name}")


@refuses(
    EKS,
    "CreateAccessEntry",
    "the ARN of a session",
    code=INVALID,
    message="principalArn parameter format is not valid",
    source="aws-samples/appmod-blueprints#319",
)
def a_session(aws: RunningAws) -> None:
    enter(aws, "arn:aws:sts::123456789012:assumed-role/admin/me")


@refuses(
    EKS,
    "CreateAccessEntry",
    "a service-linked role",
    code=INVALID,
    message="principalArn value of a Service Linked Role",
    source="hashicorp/terraform-provider-aws#36447",
)
def a_service_linked_role(aws: RunningAws) -> None:
    enter(aws, "arn:aws:iam::123456789012:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")


@refuses(
    EKS,
    "CreateAccessEntry",
    "a second entry of a principal",
    code="ResourceInUseException",
    message="already in use",
    source=API,
)
def a_second_entry(aws: RunningAws) -> None:
    enter(aws, enter(aws))


@refuses(
    EKS, "CreateAccessEntry", "a group that begins with system:", code=INVALID, message="system:masters", source=ENTRIES
)
def a_group_of_the_system(aws: RunningAws) -> None:
    enter(aws, kubernetesGroups=["system:masters"])


@refuses(EKS, "CreateAccessEntry", "a group that begins with eks:", code=INVALID, message="eks:admins", source=ENTRIES)
def a_group_of_eks(aws: RunningAws) -> None:
    enter(aws, kubernetesGroups=["eks:admins"])


@refuses(
    EKS,
    "CreateAccessEntry",
    "a user name that begins with system:",
    code=INVALID,
    message="system:admin",
    source=ENTRIES,
)
def a_user_name_of_the_system(aws: RunningAws) -> None:
    enter(aws, username="system:admin")


@refuses(
    EKS,
    "CreateAccessEntry",
    "groups of a node's entry",
    code="InvalidRequestException",
    message="EC2_LINUX",
    source=ENTRIES,
)
def groups_of_a_node(aws: RunningAws) -> None:
    enter(aws, type="EC2_LINUX", kubernetesGroups=["joiner:viewer"])


@refuses(
    EKS,
    "CreateAccessEntry",
    "a user name of a node's entry",
    code="InvalidRequestException",
    message="EC2_LINUX",
    source=ENTRIES,
)
def a_user_name_of_a_node(aws: RunningAws) -> None:
    enter(aws, type="EC2_LINUX", username="node")


@refuses(
    EKS,
    "AssociateAccessPolicy",
    "a policy for a node's entry",
    code="InvalidRequestException",
    message="EC2_LINUX",
    source="EKS user guide, Associate access policies with access entries",
)
def a_policy_for_a_node(aws: RunningAws) -> None:
    principal = enter(aws, type="EC2_LINUX")
    scope = {"type": "cluster"}
    aws.client(EKS).associate_access_policy(
        clusterName=CLUSTER, principalArn=principal, policyArn=ADMIN, accessScope=scope
    )


@refuses(
    EKS,
    "AssociateAccessPolicy",
    "a policy that does not exist",
    code="ResourceNotFoundException",
    source=f"{API}, AssociateAccessPolicy",
)
def a_policy_that_does_not_exist(aws: RunningAws) -> None:
    arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSOwnPolicy"
    aws.client(EKS).associate_access_policy(
        clusterName=CLUSTER, principalArn=enter(aws), policyArn=arn, accessScope={"type": "cluster"}
    )


@refuses(
    EKS,
    "CreateAccessEntry",
    "an entry in a cluster whose authentication mode is CONFIG_MAP",
    code="InvalidRequestException",
    message="authentication mode",
    source=ENTRIES,
)
def an_entry_in_a_cluster_with_aws_auth(aws: RunningAws) -> None:
    seed_network(aws.endpoint, "with-aws-auth")
    aws.knob("eks", name="with-aws-auth", authenticationMode="CONFIG_MAP")
    aws.client(EKS).create_access_entry(
        clusterName="with-aws-auth", principalArn=aws.role("lambda.amazonaws.com"), type="STANDARD"
    )


not_modelled(
    EKS,
    "CreateAccessEntry",
    "a role that IAM created a moment ago",
    code=INVALID,
    source="hashicorp/terraform-provider-aws, resource aws_eks_access_entry: the creation is repeated while IAM "
    "propagates",
    why="IAM is consistent here; CloudFormation waits for a role before it calls it complete",
)
nothing_known(EKS, "AWS::EKS::AccessEntry", why="the refusals of EKS's API are listed")


@refuses(EKS, "DescribeAccessEntry", "a principal without an entry", code="ResourceNotFoundException", source=API)
def an_entry_that_does_not_exist(aws: RunningAws) -> None:
    seed_network(aws.endpoint, CLUSTER)
    aws.client(EKS).describe_access_entry(clusterName=CLUSTER, principalArn=aws.role("lambda.amazonaws.com"))


@refuses(EKS, "DeleteAccessEntry", "a principal without an entry", code="ResourceNotFoundException", source=API)
def the_end_of_an_entry_that_does_not_exist(aws: RunningAws) -> None:
    seed_network(aws.endpoint, CLUSTER)
    aws.client(EKS).delete_access_entry(clusterName=CLUSTER, principalArn=aws.role("lambda.amazonaws.com"))


@refuses(EKS, "ListAccessEntries", "a cluster that does not exist", code="ResourceNotFoundException", source=API)
def entries_of_no_cluster(aws: RunningAws) -> None:
    aws.client(EKS).list_access_entries(clusterName="nowhere")


@refuses(
    EKS, "ListAssociatedAccessPolicies", "a principal without an entry", code="ResourceNotFoundException", source=API
)
def policies_of_no_entry(aws: RunningAws) -> None:
    seed_network(aws.endpoint, CLUSTER)
    aws.client(EKS).list_associated_access_policies(clusterName=CLUSTER, principalArn=aws.role("lambda.amazonaws.com"))


@refuses(
    EKS, "DisassociateAccessPolicy", "a policy that is not associated", code="ResourceNotFoundException", source=API
)
def a_policy_that_is_not_associated(aws: RunningAws) -> None:
    aws.client(EKS).disassociate_access_policy(clusterName=CLUSTER, principalArn=enter(aws), policyArn=ADMIN)

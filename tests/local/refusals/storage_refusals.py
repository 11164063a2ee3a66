"""S3, Systems Manager's parameters and IAM's profiles: what functions read and write apart from the table."""

from typing import Any, Final

from tests.local.refusals.refused_calls import not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws

S3: Final = "s3"
SSM: Final = "ssm"
IAM: Final = "iam"
API: Final = "API reference"
PARAMETERS: Final = "Systems Manager API reference, PutParameter"
IAM_QUOTAS: Final = "IAM user guide, IAM and STS quotas"
TRUST: Final = '{"Version": "2012-10-17", "Statement": []}'


def bucket(aws: RunningAws) -> str:
    name = aws.fresh("refusing")
    aws.client(S3).create_bucket(Bucket=name)
    return name


@refuses(S3, "PutObject", "a key above 1,024 bytes", code="KeyTooLongError", source="S3 user guide, Naming S3 objects")
def a_long_key(aws: RunningAws) -> None:
    aws.client(S3).put_object(Bucket=bucket(aws), Key="x" * 1025, Body=b"")


@refuses(S3, "PutObject", "a bucket that does not exist", code="NoSuchBucket", source=f"S3 {API}, Error responses")
def a_bucket_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(S3).put_object(Bucket="nowhere-at-all", Key="a", Body=b"")


@refuses(S3, "GetObject", "a key that does not exist", code="NoSuchKey", source=f"S3 {API}, Error responses")
def a_key_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(S3).get_object(Bucket=bucket(aws), Key="plans/none")


@refuses(S3, "ListObjectsV2", "a bucket that does not exist", code="NoSuchBucket", source=f"S3 {API}, Error responses")
def a_list_of_no_bucket(aws: RunningAws) -> None:
    aws.client(S3).list_objects_v2(Bucket="nowhere-at-all")


@refuses(S3, "DeleteObjects", "1,001 keys", code="MalformedXML", source=f"S3 {API}, DeleteObjects")
def more_than_a_thousand_keys(aws: RunningAws) -> None:
    aws.client(S3).delete_objects(
        Bucket=bucket(aws), Delete={"Objects": [{"Key": str(number)} for number in range(1001)]}
    )


@refuses(S3, "DeleteBucket", "a bucket with objects", code="BucketNotEmpty", source=f"S3 {API}, DeleteBucket")
def a_bucket_with_objects(aws: RunningAws) -> None:
    name = bucket(aws)
    aws.client(S3).put_object(Bucket=name, Key="a", Body=b"")
    aws.client(S3).delete_bucket(Bucket=name)


@refuses(
    S3,
    "PutBucketLifecycleConfiguration",
    "a rule without an action",
    code="MalformedXML",
    source=f"S3 {API}, Lifecycle",
)
def a_rule_without_an_action(aws: RunningAws) -> None:
    rules: Any = [{"ID": "a", "Status": "Enabled", "Filter": {"Prefix": "plans/"}}]
    aws.client(S3).put_bucket_lifecycle_configuration(Bucket=bucket(aws), LifecycleConfiguration={"Rules": rules})


nothing_known(S3, "AWS::S3::Bucket", "AWS::S3::BucketPolicy", why="the refusals of S3's API are listed")
not_modelled(
    S3,
    "PutObject",
    "more than 3,500 writes a second to one prefix",
    code="SlowDown",
    source="S3 user guide, Best practices design patterns",
    why="Joiner writes a handful of objects a round; botocore repeats such a write",
)

# Parameters


def put(aws: RunningAws, **asked: Any) -> None:
    aws.client(SSM).put_parameter(**{"Name": f"/joiner/{aws.fresh('x')}", "Value": "a", "Type": "String", **asked})


@refuses(
    SSM,
    "GetParameter",
    "a parameter that does not exist",
    code="ParameterNotFound",
    source="Systems Manager API reference",
)
def a_parameter_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(SSM).get_parameter(Name="/joiner/nowhere/pause")


@refuses(
    SSM,
    "DeleteParameter",
    "a parameter that does not exist",
    code="ParameterNotFound",
    source="Systems Manager API reference",
)
def a_deletion_of_a_parameter_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(SSM).delete_parameter(Name="/joiner/nowhere/pause")


@refuses(
    SSM,
    "GetParameters",
    "eleven names",
    code="ValidationException",
    source="Systems Manager API reference, GetParameters",
)
def eleven_names(aws: RunningAws) -> None:
    aws.client(SSM).get_parameters(Names=[f"/joiner/{number}" for number in range(11)])


@refuses(SSM, "PutParameter", "a name in use without Overwrite", code="ParameterAlreadyExists", source=PARAMETERS)
def a_parameter_in_use(aws: RunningAws) -> None:
    name = f"/joiner/{aws.fresh('x')}"
    for _ in range(2):
        put(aws, Name=name)


@refuses(
    SSM,
    "PutParameter",
    "a name under /aws",
    code="AccessDeniedException",
    message="reserved parameter name",
    source=PARAMETERS,
)
def a_reserved_name(aws: RunningAws) -> None:
    put(aws, Name="/aws/joiner")


@refuses(
    SSM, "PutParameter", "a name of more than 15 levels", code="HierarchyLevelLimitExceededException", source=PARAMETERS
)
def a_deep_name(aws: RunningAws) -> None:
    put(aws, Name="/" + "/".join("abcdefghijklmnop"))


@refuses(
    SSM, "PutParameter", "a value above 4 KB", code="ValidationException", message="4096 characters", source=PARAMETERS
)
def a_long_value(aws: RunningAws) -> None:
    put(aws, Value="x" * 4097)


nothing_known(SSM, "AWS::SSM::Parameter", why="the refusals of Systems Manager's API are listed")

# Roles and profiles: their sizes and names; other tests cover what policies allow


@refuses(IAM, "GetInstanceProfile", "a profile that does not exist", code="NoSuchEntity", source="IAM API reference")
def a_profile_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(IAM).get_instance_profile(InstanceProfileName="nowhere")


@refuses(
    IAM,
    "PutRolePolicy",
    "inline policies above 10,240 characters",
    code="LimitExceeded",
    message="10240",
    source=IAM_QUOTAS,
)
def large_inline_policies(aws: RunningAws) -> None:
    name = aws.fresh("role")
    aws.client(IAM).create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)
    for number in range(3):
        resources = ", ".join(f'"arn:aws:sqs:us-east-1:123456789012:queue-{each:040}"' for each in range(60))
        statement = f'{{"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": [{resources}]}}'
        policy = f'{{"Version": "2012-10-17", "Statement": [{statement}]}}'
        aws.client(IAM).put_role_policy(RoleName=name, PolicyName=f"p{number}", PolicyDocument=policy)


@refuses(IAM, "CreateRole", "a name in use", code="EntityAlreadyExists", source="IAM API reference, CreateRole")
def a_role_in_use(aws: RunningAws) -> None:
    name = aws.fresh("role")
    for _ in range(2):
        aws.client(IAM).create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)


@refuses(IAM, "AddRoleToInstanceProfile", "a second role", code="LimitExceeded", source=IAM_QUOTAS)
def a_second_role_of_a_profile(aws: RunningAws) -> None:
    name = aws.fresh("profile")
    aws.client(IAM).create_instance_profile(InstanceProfileName=name)
    for _ in range(2):
        role = aws.role("ec2.amazonaws.com").rpartition("/")[2]
        aws.client(IAM).add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)


@refuses(
    IAM, "DeleteRole", "a role with an instance profile", code="DeleteConflict", source="IAM API reference, DeleteRole"
)
def a_role_that_a_profile_has(aws: RunningAws) -> None:
    role, name = aws.role("ec2.amazonaws.com").rpartition("/")[2], aws.fresh("profile")
    aws.client(IAM).create_instance_profile(InstanceProfileName=name)
    aws.client(IAM).add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
    aws.client(IAM).delete_role(RoleName=role)


nothing_known(
    IAM, "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::IAM::InstanceProfile", why="the refusals of IAM's API are listed"
)


@refuses(IAM, "GetRole", "a role that does not exist", code="NoSuchEntity", source="IAM API reference")
def a_role_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(IAM).get_role(RoleName="nobody")


@refuses(IAM, "ListAttachedRolePolicies", "a role that does not exist", code="NoSuchEntity", source="IAM API reference")
def policies_of_no_role(aws: RunningAws) -> None:
    aws.client(IAM).list_attached_role_policies(RoleName="nobody")


@refuses(IAM, "ListRolePolicies", "a role that does not exist", code="NoSuchEntity", source="IAM API reference")
def inline_policies_of_no_role(aws: RunningAws) -> None:
    aws.client(IAM).list_role_policies(RoleName="nobody")


@refuses(IAM, "DetachRolePolicy", "a policy that is not attached", code="NoSuchEntity", source="IAM API reference")
def a_policy_that_is_not_attached(aws: RunningAws) -> None:
    role = aws.role("ec2.amazonaws.com").rpartition("/")[2]
    aws.client(IAM).detach_role_policy(RoleName=role, PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")


@refuses(
    IAM,
    "RemoveRoleFromInstanceProfile",
    "a profile that does not exist",
    code="NoSuchEntity",
    source="IAM API reference",
)
def a_role_of_no_profile(aws: RunningAws) -> None:
    role = aws.role("ec2.amazonaws.com").rpartition("/")[2]
    aws.client(IAM).remove_role_from_instance_profile(InstanceProfileName="nowhere", RoleName=role)


@refuses(IAM, "DeleteInstanceProfile", "a profile that has a role", code="DeleteConflict", source="IAM API reference")
def the_end_of_a_profile_with_a_role(aws: RunningAws) -> None:
    role, name = aws.role("ec2.amazonaws.com").rpartition("/")[2], aws.fresh("profile")
    aws.client(IAM).create_instance_profile(InstanceProfileName=name)
    aws.client(IAM).add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
    aws.client(IAM).delete_instance_profile(InstanceProfileName=name)


nothing_known(
    IAM, "ListInstanceProfiles", "ListInstanceProfilesForRole", why="they are asked by pages, for roles that exist"
)

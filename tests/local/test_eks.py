"""EKS as its API documents it: the cluster of this machine's control plane, access entries, and the images recommended
for nodes.
"""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from joiner_local.aws.account_setup.cluster_network import seed_network
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
CLUSTER = "eks-tests"


@pytest.fixture(scope="module")
def aws(local_aws: RunningAws) -> RunningAws:
    seed_network(local_aws.endpoint, CLUSTER, version="1.35")
    return local_aws


def principal(name: str) -> str:
    return f"arn:aws:iam::123456789012:role/{name}"


def role(aws: RunningAws, name: str) -> str:
    """Create a role of this path and name, and return its ARN: EKS accepts entries for existing roles only."""
    path, _, name = f"/{name}".rpartition("/")
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    arn: str = aws.client("iam").create_role(RoleName=name, Path=f"{path}/", AssumeRolePolicyDocument=trust)["Role"][
        "Arn"
    ]
    return arn


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    code: str = error.value.response["Error"]["Code"]
    return code


def test_a_cluster_is_where_the_knob_puts_it(aws: RunningAws) -> None:
    aws.knob("eks", name=CLUSTER, endpoint="https://127.0.0.1:6443", ca="UEVN", serviceCidr="10.200.0.0/16")

    cluster = aws.client("eks").describe_cluster(name=CLUSTER)["cluster"]

    assert (cluster["endpoint"], cluster["certificateAuthority"]["data"]) == ("https://127.0.0.1:6443", "UEVN")
    assert (cluster["version"], cluster["kubernetesNetworkConfig"]["serviceIpv4Cidr"]) == ("1.35", "10.200.0.0/16")
    assert (cluster["status"], cluster["accessConfig"]["authenticationMode"]) == ("ACTIVE", "API")


def test_seeding_twice_changes_nothing(aws: RunningAws) -> None:
    assert seed_network(aws.endpoint, CLUSTER) == seed_network(aws.endpoint, CLUSTER)


def test_what_the_cluster_owns_is_found_by_its_discovery_tag(aws: RunningAws) -> None:
    network = seed_network(aws.endpoint, CLUSTER)
    tagged = [{"Name": "tag:karpenter.sh/discovery", "Values": [CLUSTER]}]

    groups = aws.client("ec2").describe_security_groups(Filters=tagged)["SecurityGroups"]

    assert [group["GroupId"] for group in groups] == [network.security_group]
    assert list(network.subnets) == ["us-east-1a", "us-east-1b", "us-east-1c"]


def test_an_access_entry_is_who_its_principal_is_in_the_cluster(aws: RunningAws) -> None:
    eks, arn = aws.client("eks"), role(aws, "team/viewer")
    eks.create_access_entry(clusterName=CLUSTER, principalArn=arn, kubernetesGroups=["joiner:viewer"], tags={"a": "b"})

    entry = eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"]
    assert (entry["type"], entry["kubernetesGroups"], entry["tags"]) == ("STANDARD", ["joiner:viewer"], {"a": "b"})
    assert entry["username"] == "arn:aws:sts::123456789012:assumed-role/viewer/{{SessionName}}"

    eks.update_access_entry(clusterName=CLUSTER, principalArn=arn, kubernetesGroups=["joiner:binder"], username="me")
    entry = eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"]
    assert (entry["kubernetesGroups"], entry["username"]) == (["joiner:binder"], "me")

    eks.delete_access_entry(clusterName=CLUSTER, principalArn=arn)
    assert arn not in eks.list_access_entries(clusterName=CLUSTER)["accessEntries"]
    with pytest.raises(ClientError) as error:
        eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)
    assert code(error) == "ResourceNotFoundException"


def test_access_policies_are_associated_and_taken_away(aws: RunningAws) -> None:
    eks, arn = aws.client("eks"), role(aws, "policies")
    eks.create_access_entry(clusterName=CLUSTER, principalArn=arn)
    scope = {"type": "namespace", "namespaces": ["team-a"]}

    eks.associate_access_policy(clusterName=CLUSTER, principalArn=arn, policyArn=VIEW, accessScope=scope)

    (policy,) = eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=arn)["associatedAccessPolicies"]
    assert (policy["policyArn"], policy["accessScope"]) == (VIEW, scope)
    eks.disassociate_access_policy(clusterName=CLUSTER, principalArn=arn, policyArn=VIEW)
    assert eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=arn)["associatedAccessPolicies"] == []


def test_a_node_roles_entry_is_a_node_and_nothing_else(aws: RunningAws) -> None:
    eks, arn = aws.client("eks"), principal(f"KarpenterNodeRole-{CLUSTER}")
    entry = eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"]
    assert (entry["type"], entry["username"], entry["kubernetesGroups"]) == (
        "EC2_LINUX",
        "system:node:{{EC2PrivateDNSName}}",
        ["system:nodes"],
    )

    with pytest.raises(ClientError) as error:
        eks.create_access_entry(
            clusterName=CLUSTER, principalArn=role(aws, "n"), type="EC2_LINUX", kubernetesGroups=["a"]
        )
    assert code(error) == "InvalidRequestException"
    with pytest.raises(ClientError) as error:
        eks.associate_access_policy(
            clusterName=CLUSTER, principalArn=arn, policyArn=VIEW, accessScope={"type": "cluster"}
        )
    assert code(error) == "InvalidRequestException"


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ({"clusterName": "nowhere", "principalArn": principal("x")}, "ResourceNotFoundException"),
        ({"clusterName": CLUSTER, "principalArn": "me"}, "InvalidParameterException"),
        ({"clusterName": CLUSTER, "principalArn": principal(f"KarpenterNodeRole-{CLUSTER}")}, "ResourceInUseException"),
    ],
)
def test_an_entry_that_eks_would_refuse_is_refused(aws: RunningAws, asked: dict[str, Any], refused: str) -> None:
    with pytest.raises(ClientError) as error:
        aws.client("eks").create_access_entry(**asked)

    assert code(error) == refused


def test_a_deployed_access_entry_is_in_the_same_store(aws: RunningAws) -> None:
    arn = role(aws, "deployed")
    entry = {
        "Type": "AWS::EKS::AccessEntry",
        "Properties": {
            "ClusterName": CLUSTER,
            "PrincipalArn": arn,
            "KubernetesGroups": ["joiner:viewer"],
            "AccessPolicies": [{"PolicyArn": VIEW, "AccessScope": {"Type": "cluster"}}],
        },
    }
    cloudformation, eks = aws.client("cloudformation"), aws.client("eks")

    cloudformation.create_stack(StackName="access", TemplateBody=json.dumps({"Resources": {"Entry": entry}}))
    cloudformation.get_waiter("stack_create_complete").wait(StackName="access", WaiterConfig={"Delay": 1})

    entry = eks.describe_access_entry(clusterName=CLUSTER, principalArn=arn)["accessEntry"]
    assert entry["kubernetesGroups"] == ["joiner:viewer"]
    policies = eks.list_associated_access_policies(clusterName=CLUSTER, principalArn=arn)["associatedAccessPolicies"]
    assert [policy["policyArn"] for policy in policies] == [VIEW]

    cloudformation.delete_stack(StackName="access")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="access", WaiterConfig={"Delay": 1})
    assert arn not in eks.list_access_entries(clusterName=CLUSTER)["accessEntries"]


@pytest.mark.parametrize("version", [f"1.{minor}" for minor in range(29, 37)])
def test_the_recommended_image_exists_and_is_amazons(aws: RunningAws, version: str) -> None:
    for architecture in ("x86_64", "arm64"):
        folder = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/standard/recommended"
        image_id = aws.client("ssm").get_parameter(Name=f"{folder}/image_id")["Parameter"]["Value"]

        (image,) = aws.client("ec2").describe_images(ImageIds=[image_id])["Images"]

        assert image["Name"].startswith(f"amazon-eks-node-al2023-{architecture}-standard-{version}-v2026")
        assert (image["Architecture"], image["ImageOwnerAlias"], image["RootDeviceName"]) == (
            architecture,
            "amazon",
            "/dev/xvda",
        )
        assert image["CreationDate"].startswith("2026-11-04T")


def test_the_recommended_image_is_the_newest_of_its_name(aws: RunningAws) -> None:
    pattern = [{"Name": "name", "Values": ["amazon-eks-node-al2023-x86_64-standard-1.36-*"]}]
    images = aws.client("ec2").describe_images(Owners=["amazon"], Filters=pattern)["Images"]
    newest = max(images, key=lambda image: str(image["CreationDate"]))["ImageId"]

    folder = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard"
    assert aws.client("ssm").get_parameter(Name=f"{folder}/recommended/image_id")["Parameter"]["Value"] == newest
    assert len(images) == 2


def test_amazon_linux_2_ends_with_kubernetes_1_32(aws: RunningAws) -> None:
    ssm = aws.client("ssm")
    assert ssm.get_parameter(Name="/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id")[
        "Parameter"
    ]["Value"]

    with pytest.raises(ClientError) as error:
        ssm.get_parameter(Name="/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id")
    assert code(error) == "ParameterNotFound"


def test_bottlerocket_has_a_disk_for_data(aws: RunningAws) -> None:
    image_id = aws.client("ssm").get_parameter(Name="/aws/service/bottlerocket/aws-k8s-1.36/arm64/latest/image_id")[
        "Parameter"
    ]["Value"]

    (image,) = aws.client("ec2").describe_images(ImageIds=[image_id])["Images"]

    assert image["Architecture"] == "arm64"
    assert [device["DeviceName"] for device in image["BlockDeviceMappings"]] == ["/dev/xvda", "/dev/xvdb"]

"""Authentication and authorisation of the local cluster: tokens, access entries and access policies as on EKS."""

import base64
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from joiner.adapters.tokens import sign
from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.stack.stack_control import LocalStack

pytestmark = pytest.mark.e2e

Aws = Callable[[str], Any]

PODS = "/api/v1/pods"
SECRETS = "/api/v1/secrets"
NODES = "/api/v1/nodes"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
READERS = "test:pod-readers"
ASSUMABLE = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}],
    }
)


@dataclass(frozen=True, slots=True)
class Principal:
    """A role of this test, and the credentials of one of its sessions."""

    arn: str
    credentials: Credentials

    def token(self, cluster: str) -> str:
        return sign(cluster, REGION, self.credentials)


@dataclass(frozen=True, slots=True)
class Door:
    """Access to the cluster with tokens."""

    stack: LocalStack
    aws: Aws

    def with_token(self, token: str) -> KubeApi:
        return KubeApi(self.stack.endpoint, token=token)

    def answers(self, token: str, path: str = PODS) -> int:
        """Return the status of a list request."""
        try:
            self.with_token(token).get(path)
        except ApiError as error:
            return error.status
        return 200

    def who_is(self, token: str) -> dict[str, Any]:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        user: dict[str, Any] = self.with_token(token).create(WHO_AM_I, review)["status"]["userInfo"]
        return user

    def assume(self, arn: str, session: str) -> Credentials:
        given = self.aws("sts").assume_role(RoleArn=arn, RoleSessionName=session)["Credentials"]
        return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])

    def admit(self, principal: Principal, *groups: str, policy: str | None = None) -> None:
        eks, cluster = self.aws("eks"), self.stack.cluster
        eks.create_access_entry(clusterName=cluster, principalArn=principal.arn, kubernetesGroups=list(groups))
        if policy:
            arn = f"arn:aws:eks::aws:cluster-access-policy/{policy}"
            eks.associate_access_policy(
                clusterName=cluster, principalArn=principal.arn, policyArn=arn, accessScope={"type": "cluster"}
            )

    def expel(self, principal: Principal) -> None:
        self.aws("eks").delete_access_entry(clusterName=self.stack.cluster, principalArn=principal.arn)


@pytest.fixture(scope="module")
def door(bare_stack: LocalStack, aws: Aws, kube: KubeApi) -> Iterator[Door]:
    """The cluster, with a group that may only read pods."""
    role = {
        "metadata": {"name": "test-pod-readers"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    }
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": READERS}
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "test-pod-readers"}
    kube.create(f"{RBAC}/clusterroles", role)
    kube.create(
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "test-pod-readers"}, "roleRef": role_ref, "subjects": [group]},
    )
    yield Door(bare_stack, aws)
    for plural in ("clusterrolebindings", "clusterroles"):
        kube.delete(f"{RBAC}/{plural}/test-pod-readers")


@pytest.fixture(scope="module")
def new_role(door: Door) -> Iterator[Callable[[], Principal]]:
    """Create new roles; they and their access entries are deleted at the end."""
    made: list[Principal] = []
    numbers = itertools.count()

    def make() -> Principal:
        name = f"visitor-{next(numbers)}"
        arn = door.aws("iam").create_role(RoleName=name, AssumeRolePolicyDocument=ASSUMABLE)["Role"]["Arn"]
        made.append(Principal(arn, door.assume(arn, "visit")))
        return made[-1]

    yield make
    entered = door.aws("eks").list_access_entries(clusterName=door.stack.cluster)["accessEntries"]
    for principal in made:
        if principal.arn in entered:
            door.expel(principal)
        door.aws("iam").delete_role(RoleName=principal.arn.rpartition("/")[2])


@pytest.fixture(scope="module")
def reader(door: Door, new_role: Callable[[], Principal]) -> Principal:
    """A role with an access entry for the group that may read pods."""
    principal = new_role()
    door.admit(principal, READERS)
    return principal


def test_a_role_with_an_access_entry_has_its_session_name_and_its_groups(door: Door, reader: Principal) -> None:
    user = door.who_is(reader.token(door.stack.cluster))
    assert user["username"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/{reader.arn.rpartition('/')[2]}/visit"
    assert set(user["groups"]) == {READERS, "system:authenticated"}


def test_a_group_has_only_the_rights_of_rbac(door: Door, reader: Principal) -> None:
    token = reader.token(door.stack.cluster)
    assert door.answers(token, PODS) == 200
    assert door.answers(token, SECRETS) == 403


def test_a_token_for_another_cluster_is_refused(door: Door, reader: Principal) -> None:
    assert door.answers(reader.token("production")) == 401


def test_a_token_signed_with_a_wrong_secret_is_refused(door: Door, reader: Principal) -> None:
    right = reader.credentials
    forged = Principal(reader.arn, Credentials(right.access_key, "x" * 40, right.token))
    assert door.answers(forged.token(door.stack.cluster)) == 401


def test_a_token_whose_cluster_is_not_signed_is_refused(door: Door, reader: Principal) -> None:
    request = AWSRequest("GET", f"https://sts.{REGION}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15")
    SigV4QueryAuth(reader.credentials, "sts", REGION, expires=60).add_auth(request)
    assert door.answers("k8s-aws-v1." + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")) == 401


def test_a_role_without_an_access_entry_is_refused(door: Door, new_role: Callable[[], Principal]) -> None:
    assert door.answers(new_role().token(door.stack.cluster)) == 401


@pytest.mark.parametrize(
    "token", ["nonsense", "k8s-aws-v1.nonsense", "k8s-aws-v1." + "A" * 5000], ids=["no token", "no URL", "far too long"]
)
def test_a_malformed_token_is_refused(door: Door, token: str) -> None:
    assert door.answers(token) == 401


def test_a_new_access_entry_is_effective_at_once(door: Door, new_role: Callable[[], Principal]) -> None:
    late = new_role()
    cluster = door.stack.cluster
    assert door.answers(late.token(cluster)) == 401
    door.admit(late, READERS)
    assert door.answers(another_token(late, cluster)) == 200
    door.expel(late)
    assert door.answers(another_token(late, cluster)) == 401


def another_token(principal: Principal, cluster: str) -> str:
    """Tokens of one second are identical, and the API server remembers its answer to a token for two minutes, as on
    EKS.
    """
    time.sleep(1.01)
    return principal.token(cluster)


@pytest.mark.parametrize(
    ("policy", "may", "may_not"),
    [
        ("AmazonEKSViewPolicy", [PODS], [SECRETS, NODES]),
        ("AmazonEKSEditPolicy", [PODS, SECRETS], [NODES]),
        ("AmazonEKSAdminViewPolicy", [PODS, SECRETS, NODES], []),
        ("AmazonEKSClusterAdminPolicy", [PODS, SECRETS, NODES], []),
    ],
)
def test_an_access_policy_grants_what_eks_documents(
    door: Door, new_role: Callable[[], Principal], policy: str, may: Sequence[str], may_not: Sequence[str]
) -> None:
    principal = new_role()
    door.admit(principal, policy=policy)
    token = principal.token(door.stack.cluster)
    assert {path: door.answers(token, path) for path in (*may, *may_not)} == dict.fromkeys(may, 200) | dict.fromkeys(
        may_not, 403
    )


def test_an_instance_can_create_only_its_own_node(door: Door, kube: KubeApi) -> None:
    instance = door.aws("ec2").run_instances(ImageId=any_image(door), InstanceType="m5.large", MinCount=1, MaxCount=1)[
        "Instances"
    ][0]
    name = instance["PrivateDnsName"]
    role = next(
        r["Arn"] for r in door.aws("iam").list_roles()["Roles"] if r["RoleName"].startswith("KarpenterNodeRole")
    )
    token = sign(door.stack.cluster, REGION, door.assume(role, instance["InstanceId"]))
    try:
        user = door.who_is(token)
        assert user["username"] == f"system:node:{name}"
        assert {"system:nodes", "system:bootstrappers"} <= set(user["groups"])
        assert create_node(door.with_token(token), "ip-10-0-0-1.ec2.internal") == 403
        assert create_node(door.with_token(token), name, {"node-restriction.kubernetes.io/team": "a"}) == 403
        assert create_node(door.with_token(token), name) == 201
    finally:
        kube.delete(f"{NODES}/{name}", missing_ok=True)
        door.aws("ec2").terminate_instances(InstanceIds=[instance["InstanceId"]])


def any_image(door: Door) -> str:
    return str(door.aws("ssm").get_parameter(Name=IMAGE_PARAMETER)["Parameter"]["Value"])


IMAGE_PARAMETER = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"


def create_node(kube: KubeApi, name: str, labels: dict[str, str] | None = None) -> int:
    """Return the status of the response."""
    try:
        kube.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}})
    except ApiError as error:
        return error.status
    return 201

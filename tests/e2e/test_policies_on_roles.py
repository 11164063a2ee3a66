"""The admission policy on the Role of the listed pods, and the API server's answers that follow from the Role.

A forbidden request is refused with the policy's message, although RBAC allows it.
"""

import pytest

from joiner.names import LISTED_POD_WRITERS, VIEWERS
from joiner_local.control_plane.kube_api import ApiError, KubeApi, Object
from joiner_local.demo.change_watch import until
from tests.e2e.policy_members import MERGE, PolicedCluster, refused

pytestmark = pytest.mark.e2e

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/namespaces/kube-system/roles"
ROLE = f"{ROLES}/joiner:listed-pods"
RULE = {"apiGroups": ["joiner.dev"], "resources": ["unschedulablepods"], "verbs": ["skip"]}


def write(api: KubeApi, *rules: Object, **metadata: Object) -> Object:
    return api.call("PATCH", ROLE, {"rules": list(rules), "metadata": metadata}, content_type=MERGE)


def may_skip(api: KubeApi, uid: str) -> bool:
    """Ask the API server whether the scheduler may skip the pod with this uid, as the webhook's condition does."""
    asked = {"namespace": "kube-system", "verb": "skip", "group": RULE["apiGroups"][0], "name": uid}
    spec = {
        "user": "system:kube-scheduler",
        "groups": ["system:authenticated"],
        "resourceAttributes": {**asked, "resource": "unschedulablepods"},
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])


def test_the_pods_in_the_role_are_skipped_and_no_others(cluster: PolicedCluster) -> None:
    writer = cluster.member(VIEWERS, LISTED_POD_WRITERS)

    write(writer, {**RULE, "resourceNames": ["uid-1", "uid-2"]})
    until(lambda: may_skip(cluster.admin, "uid-1"), what="the API server's view of the Role", limit=90)
    assert [may_skip(cluster.admin, uid) for uid in ("uid-1", "uid-2", "uid-3", "every-pod")] == [
        True,
        True,
        False,
        False,
    ]

    write(writer)
    until(lambda: not may_skip(cluster.admin, "uid-1"), what="the API server's view of the empty Role", limit=90)


@pytest.mark.parametrize(
    "rule",
    [
        RULE,  # every pod
        {**RULE, "resourceNames": ["every-pod"]},
        {**RULE, "resourceNames": ["uid-1"], "verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
    ],
    ids=["all pods", "the name of every pod", "a right of the writer"],
)
def test_the_role_grants_nothing_but_named_pods(cluster: PolicedCluster, rule: Object) -> None:
    refused("each by its uid, and nothing else", lambda: write(cluster.member(VIEWERS, LISTED_POD_WRITERS), rule))


def test_only_the_rules_of_the_role_change(cluster: PolicedCluster) -> None:
    writer = cluster.member(VIEWERS, LISTED_POD_WRITERS)
    refused("Joiner changes only the rules", lambda: write(writer, labels={"any": "label"}))


def test_no_other_role_is_written(cluster: PolicedCluster) -> None:
    writer = cluster.member(VIEWERS, LISTED_POD_WRITERS)
    for method, path in (("PATCH", f"{ROLES}/system:controller:token-cleaner"), ("DELETE", ROLE), ("POST", ROLES)):
        with pytest.raises(ApiError) as error:
            writer.call(method, path, {"rules": []}, content_type=MERGE if method == "PATCH" else "application/json")
        assert error.value.status == 403, (method, path)


def test_a_role_of_the_same_name_in_another_namespace_is_not_written(cluster: PolicedCluster) -> None:
    """RBAC allows it: the right is on the name, in every namespace."""
    elsewhere = f"{RBAC}/namespaces/default/roles"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "joiner:listed-pods"}}
    cluster.admin.create(elsewhere, role)
    writer = cluster.member(VIEWERS, LISTED_POD_WRITERS)
    changes = {"rules": [{**RULE, "resourceNames": ["uid-1"]}]}
    path = f"{elsewhere}/joiner:listed-pods"

    try:
        refused("but the rules of the Role", lambda: writer.call("PATCH", path, changes, content_type=MERGE))
        assert not cluster.admin.call("GET", path).get("rules")
    finally:
        cluster.admin.call("DELETE", path)

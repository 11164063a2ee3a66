"""The Kubernetes client against a real API server: the contract, paging, errors and tokens."""

import base64
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import urllib3
import yaml

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.cluster_view import ListedCluster
from joiner.adapters.kube import ClusterAccess, Kube
from joiner.adapters.kube_errors import (
    AlreadyExists,
    EvictionBlocked,
    Expired,
    Invalid,
    NotFound,
    Unauthorized,
    Unreachable,
)
from joiner.adapters.kube_lists import PAGE, Lister
from joiner.adapters.parallel_calls import call_all
from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.demo.change_watch import until
from joiner_local.stack.stack_control import LocalStack
from tests.kube_contract import KubeContract, fresh, pod

pytestmark = pytest.mark.e2e

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = Path(__file__).parents[2] / "manifests" / "crds"


@pytest.fixture(scope="module")
def access(bare_stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> ClusterAccess:
    """The administrator's access to the cluster."""
    config = yaml.safe_load(bare_stack.kubeconfig.read_text())
    user, cluster = config["users"][0]["user"], config["clusters"][0]["cluster"]
    folder = tmp_path_factory.mktemp("administrator")
    for name in ("client-certificate", "client-key"):
        (folder / name).write_bytes(base64.b64decode(user[f"{name}-data"]))
    return ClusterAccess(
        endpoint=cluster["server"],
        ca=base64.b64decode(cluster["certificate-authority-data"]).decode(),
        certificate_file=str(folder / "client-certificate"),
        key_file=str(folder / "client-key"),
    )


@pytest.fixture(scope="module")
def administrator(access: ClusterAccess, kube: KubeApi) -> Kube:
    """With our CRDs served."""
    kube.apply_manifests(
        [manifest for path in sorted(CRDS.glob("*.yaml")) for manifest in yaml.safe_load_all(path.read_text())]
    )
    return Kube(access)


class TestRealKube(KubeContract):
    @pytest.fixture
    def client(self, administrator: Kube) -> Kube:
        return administrator


class Tokens:
    """Returns these tokens, one for each request for a new one."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.asked: list[bool] = []

    def token(self, *, fresh: bool = False) -> str:
        self.asked.append(fresh)
        return self.tokens.pop(0)


def config_maps(administrator: Kube, count: int) -> Iterator[str]:
    """A namespace with that many ConfigMaps, beside the one that each namespace has."""
    namespace = fresh("many")
    administrator.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})

    def make(number: int) -> None:
        administrator.create(kinds.CONFIG_MAPS, {"metadata": {"name": f"number-{number}"}}, namespace=namespace)

    call_all(range(count), make, AlreadyExists)
    yield namespace
    administrator.delete(kinds.NAMESPACES, namespace)


@pytest.fixture
def many_events(administrator: Kube) -> Iterator[str]:
    """More objects in a namespace than one page holds."""
    yield from config_maps(administrator, PAGE + 10)


@pytest.fixture
def fifty(administrator: Kube, kube: KubeApi) -> Iterator[str]:
    """50 objects and the one that each namespace gets."""
    for namespace in config_maps(administrator, 50):
        own = f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt"
        until(partial(kube.find, own), what="the namespace's own object", limit=90)
        yield namespace


def test_a_list_holds_every_page(administrator: Kube, many_events: str) -> None:
    listed = administrator.list(kinds.CONFIG_MAPS, namespace=many_events)

    assert (
        len({each["metadata"]["name"] for each in listed if each["metadata"]["name"].startswith("number-")})
        == PAGE + 10
    )


def discard_old_versions(stack: LocalStack, kube: KubeApi) -> None:
    """Discard every older version, as etcd's compaction does every five minutes. The API server is restarted, because
    it serves continue tokens from its cache as well. The app may be deployed already, and pods of earlier tests ring:
    the restart waits for its executions, so that none of them depends on the time of a restart.
    """
    until(lambda: not stack.knob("running-executions")["executions"], what="every execution ended", limit=90)
    newest = kube.create(CONFIG_MAPS, {"metadata": {"name": fresh("newest")}})
    body = {"revision": newest["metadata"]["resourceVersion"], "physical": True}
    answer = urllib3.request("POST", f"{stack.known.etcd}/v3/kv/compaction", json=body, timeout=10)
    assert answer.status == 200, answer.data
    stack.restart_api_server()


def test_a_list_goes_on_after_its_continue_token_expired(
    administrator: Kube, fifty: str, bare_stack: LocalStack, kube: KubeApi
) -> None:
    """The API server has lost the version of the first two pages, and answers 410 with a new token."""
    path = kinds.CONFIG_MAPS.path(namespace=fifty)
    answers: list[int] = []

    def fetch(query: Mapping[str, str]) -> bytes:
        if len(answers) == 2:
            discard_old_versions(bare_stack, kube)
        try:
            page = administrator.read(path, query={**query, "limit": "5"})
        except Expired:
            answers.append(410)
            raise
        answers.append(200)
        return page

    pages = Lister(fetch, time.sleep).read("configmaps", {}, list, consistent=False)

    listed = [str(each["metadata"]["name"]) for page in pages for each in page]
    assert sorted(listed) == sorted([*(f"number-{number}" for number in range(50)), "kube-root-ca.crt"])
    assert answers == [200, 200, 410, *[200] * 9]


def test_items_of_custom_resources_have_their_kind(administrator: Kube) -> None:
    name = fresh("pool")
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    administrator.create(
        kinds.NODEPOOLS,
        {"metadata": {"name": name}, "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}},
    )

    lists = ListedCluster(administrator).lists()

    assert {each["kind"] for each in lists["nodepools"]} == {"NodePool"}
    assert set(lists) >= {"pods", "nodes", "daemonsets", "machines", "storageclasses"}
    administrator.delete(kinds.NODEPOOLS, name)


def test_a_schema_violation_names_the_field(administrator: Kube) -> None:
    with pytest.raises(Invalid, match=r"spec\.weight"):
        administrator.create(kinds.NODEPOOLS, {"metadata": {"name": fresh("pool")}, "spec": {"weight": 0}})


def test_a_pod_disruption_budget_blocks_an_eviction(administrator: Kube) -> None:
    name = fresh("pod")
    made = administrator.create(kinds.PODS, pod(name), namespace="default")
    administrator.patch(
        kinds.PODS,
        name,
        {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
        namespace="default",
        subresource="status",
    )
    budgets = kinds.Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)
    selector = {"matchLabels": {"made-by": name}}
    administrator.create(
        budgets, {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}, namespace="default"
    )

    with pytest.raises(EvictionBlocked):
        administrator.evict("default", name, node="nowhere", uid=made["metadata"]["uid"])

    administrator.delete(budgets, name, namespace="default")
    administrator.delete(kinds.PODS, name, namespace="default")


def test_an_applied_manifest_is_the_same_a_second_time(administrator: Kube) -> None:
    name = fresh("role")
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }

    first, second = administrator.apply(role), administrator.apply(role)

    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert first["metadata"]["managedFields"][0]["manager"] == "joiner"
    administrator.delete(kinds.CLUSTER_ROLES, name)


def test_a_refused_token_is_replaced_once(access: ClusterAccess) -> None:
    tokens = Tokens("k8s-aws-v1.stale", "k8s-aws-v1.refused-too")
    stranger = Kube(ClusterAccess(access.endpoint, access.ca, tokens))

    with pytest.raises(Unauthorized) as refused:
        stranger.list(kinds.PODS)

    assert tokens.asked == [False, True]
    assert "k8s-aws-v1" not in str(refused.value)


def test_a_missing_server_is_unreachable(access: ClusterAccess) -> None:
    nowhere = Kube(ClusterAccess("https://127.0.0.1:1", access.ca))

    with pytest.raises(Unreachable, match="GET /api/v1/nodes"):
        nowhere.list(kinds.NODES)


def test_a_server_with_another_ca_is_not_trusted(access: ClusterAccess, bare_stack: LocalStack) -> None:
    other = (bare_stack.root / "aws" / "tls" / "ca.pem").read_text()

    with pytest.raises(Unreachable):
        Kube(ClusterAccess(access.endpoint, other, Tokens("secret", "secret"))).get(kinds.NODES, "nobody")


def test_access_to_a_cluster_shows_no_token(access: ClusterAccess) -> None:
    assert "secret" not in repr(ClusterAccess(access.endpoint, "", Tokens("secret")))
    assert NotFound("x").status == 0

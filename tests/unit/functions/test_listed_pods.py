"""The functions record the pods that they list, so that later events of these pods do not ring the doorbell."""

from collections.abc import Callable
from datetime import timedelta

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Manifest
from joiner.adapters.kube_errors import Forbidden, Unreachable
from joiner.adapters.store import NoSuchDocument
from joiner.names import LISTED_PODS_NAMESPACE, LISTED_PODS_ROLE
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending

ROLE_PATH = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/joiner%3Alisted-pods"


def recorded(cluster: SimulatedCluster) -> list[str]:
    """Return the uids in the Role; its rules must be of the one form that the admission policy allows."""
    role = cluster.kube.get(kinds.ROLES, LISTED_PODS_ROLE, namespace=LISTED_PODS_NAMESPACE)
    uids: list[str] = []
    for rule in role.get("rules", []):
        named = rule.pop("resourceNames")
        assert rule == {"apiGroups": ["joiner.dev"], "resources": ["unschedulablepods"], "verbs": ["skip"]}
        uids += named
    return uids


def uids(cluster: SimulatedCluster) -> list[str]:
    return sorted(str(pod["metadata"]["uid"]) for pod in cluster.kube.all(kinds.PODS))


def requests(cluster: SimulatedCluster) -> list[str]:
    return [asked for asked in cluster.kube.asked if "/roles/" in asked]


def is_stored(cluster: SimulatedCluster, key: str) -> bool:
    try:
        cluster.store.get(key)
    except NoSuchDocument:
        return False
    return True


def test_the_pods_of_a_burst_are_recorded_by_the_execution_that_lists_them(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(25)))

    cluster.scale_up("1")

    assert requests(cluster).count(f"PATCH {ROLE_PATH}") == 1
    assert recorded(cluster) == uids(cluster)


def test_a_few_pods_cost_no_request(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(19)))

    cluster.scale_up("1")

    assert requests(cluster) == []


def test_a_refused_record_ends_no_scale_up(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(25)))

    def refuse(method: str, path: str, answer: Callable[[], Manifest]) -> Manifest:
        if path == ROLE_PATH:
            raise Forbidden("forbidden", status=403, asked=f"{method} {path}")
        return answer()

    cluster.kube.fault = refuse
    cluster.scale_up("1")

    assert len(cluster.ec2.instances) > 0


def let_the_record_get_no_answer(cluster: SimulatedCluster) -> list[bool]:
    """Return a list that gets, for each request for the Role, whether the snapshot was stored before it."""
    tried: list[bool] = []

    def no_answer(method: str, path: str, answer: Callable[[], Manifest]) -> Manifest:
        if path == ROLE_PATH:
            tried.append(is_stored(cluster, "snapshots/1/1.json.gz"))
            raise Unreachable("no answer (ReadTimeoutError)", asked=f"{method} {path}")
        return answer()

    cluster.kube.fault = no_answer
    return tried


def test_the_pods_of_a_complete_batch_are_recorded_after_the_snapshot_is_stored(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(25)))
    all_created = {"spec": {"replicas": 25}, "status": {"replicas": 25}}
    cluster.kube.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, **all_created})
    tried = let_the_record_get_no_answer(cluster)

    cluster.scale_up("1")

    assert tried[:1] == [True]
    assert len(cluster.ec2.instances) > 0


def test_a_record_that_fails_is_not_tried_again_while_the_batch_grows(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(25)))
    cluster.kube.put({**pending("web-new"), "status": {"phase": "Pending"}})  # not tried by a scheduler yet
    tried = let_the_record_get_no_answer(cluster)

    cluster.scale_up("1")

    assert tried == [False]
    assert len(cluster.ec2.instances) > 0


def test_the_sweep_lets_all_pods_ring_again_when_nothing_plans_and_no_node_is_awaited(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(25)))
    cluster.scale_up("1")
    assert len(recorded(cluster)) == 25

    surveyed, _ = cluster.survey("1")

    assert recorded(cluster) == []
    assert surveyed["reasons"] == []


def test_the_sweep_keeps_the_record_while_an_execution_holds_the_lease(cluster: SimulatedCluster) -> None:
    cluster.prepare(*(pending(f"web-{each}") for each in range(25)))
    cluster.stop_after = "find_pending_pods"
    cluster.scale_up("1")
    assert cluster.ledger.lease().is_held(int(cluster.now.timestamp()))

    cluster.survey("1")
    assert len(recorded(cluster)) == 25

    cluster.now += timedelta(minutes=10)  # the lease of the stopped execution has expired
    cluster.survey("2")
    assert recorded(cluster) == []


def test_a_missing_role_is_a_reason_of_the_sweep_and_an_event_of_the_pool(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    cluster.kube.delete(kinds.ROLES, LISTED_PODS_ROLE, namespace=LISTED_PODS_NAMESPACE)

    surveyed, _ = cluster.survey("1")

    missing = (
        "Role joiner:listed-pods does not exist in kube-system: each pod of a burst calls the doorbell twice. "
        "To install it: node_modules/.bin/cdk deploy -c cluster=NAME -c rotate=WORD, with the name of its settings and "
        "a new WORD"
    )
    assert surveyed["reasons"] == [missing]
    assert [
        (each["regarding"]["kind"], each["reason"], each["type"], each["note"])
        for each in cluster.kube.all(kinds.EVENTS)
    ] == [("NodePool", "ListedPodsRoleMissing", "Warning", missing)]

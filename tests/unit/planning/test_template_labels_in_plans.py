"""Labels of a template that the instance decides are requirements, as in Karpenter; the others are only written."""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner import names
from joiner.catalogue import Catalogue
from joiner.planning import Plan, Snapshot
from joiner.planning.planner import plan
from tests.plan_checker import check_plan
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node_pool, pods

OLD_ARCH = "beta.kubernetes.io/arch"
LINUX_AMD64 = {"nodeSelector": {names.ARCH: "amd64"}}


def planned(labels: Mapping[str, str], pod: Mapping[str, Any] | None = None, *, count: int = 1, **spec: Any) -> Plan:
    """Return the checked plan of a pool whose template has these labels."""
    made = node_pool(**spec)
    made["spec"]["template"]["metadata"] = {"labels": dict(labels)}
    lists = cluster(pods(count, **(pod or {})), made)
    found = plan(Snapshot.from_lists(lists), Catalogue.from_json(CATALOGUE), classes=CLASSES)
    assert check_plan(lists, CATALOGUE, found.to_json()) == []
    return found


@pytest.mark.parametrize(
    ("key", "value", "other"),
    [
        (names.ZONE, "us-test-1c", {}),
        (names.CAPACITY_TYPE, "on-demand", {}),
        (names.INSTANCE_TYPE, "m.xlarge", {}),
        (names.ARCH, "amd64", {}),
        (OLD_ARCH, "amd64", {}),
        (f"{names.INSTANCE_PREFIX}cpu", "8", {}),
        (names.ZONE, "us-test-1c", {"replicas": 1}),
        (names.INSTANCE_TYPE, "m.xlarge", {"replicas": 1}),
    ],
)
def test_a_node_has_the_label_because_its_instance_has_it(key: str, value: str, other: Mapping[str, Any]) -> None:
    (node,) = planned({key: value, "team": "web"}, **other).nodes

    for one in (node.offer, *node.alternatives):
        of_type = CATALOGUE[one.instance_type]["labels"]
        true = {**of_type, names.ZONE: one.zone, names.CAPACITY_TYPE: one.capacity_type, OLD_ARCH: of_type[names.ARCH]}
        assert true[key] == value
    of_type = CATALOGUE[node.instance_type]["labels"]
    assert {**node.labels, **of_type, names.ZONE: node.zone, names.CAPACITY_TYPE: node.capacity_type} == node.labels
    assert node.labels["team"] == "web"


def test_a_pod_for_another_architecture_does_not_get_a_node_that_only_claims_to_have_it() -> None:
    amd64 = [{"key": names.INSTANCE_TYPE, "operator": "In", "values": ["s.large"]}]
    found = planned({names.ARCH: "arm64"}, {"nodeSelector": {names.ARCH: "arm64"}}, requirements=amd64)

    assert found.nodes == ()
    assert [one.pod for one in found.pending] == ["default/web-0"]


def test_the_reason_of_a_pod_names_the_label_that_excludes_it() -> None:
    found = planned({names.ARCH: "arm64"}, LINUX_AMD64)

    ((reason,),) = [one.reasons for one in found.pending]
    assert str(reason) == (
        "default: incompatible requirements: the pod wants kubernetes.io/arch In [amd64], and no node of this pool has "
        "that: the pool has spec.template.metadata.labels[kubernetes.io/arch]"
    )

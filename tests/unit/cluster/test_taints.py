"""Which tolerations allow a pod on a tainted node: the whole table of Kubernetes' documentation."""

import pytest

from joiner.cluster import InvalidField, Pod, Taint, Toleration, find_untolerated

GPU = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "value": "a100"}, True),
        ({"key": "gpu", "operator": "Equal", "value": "t4", "effect": "NoSchedule"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "gpu", "operator": "Gt", "value": "5"}, False),
    ],
)
def test_a_toleration_matches_key_value_and_effect(toleration: dict[str, str], tolerated: bool) -> None:
    assert Toleration.from_kube(toleration).tolerates(Taint.from_kube(GPU)) is tolerated


@pytest.mark.parametrize(("operator", "levels"), [("Lt", ["1", "4"]), ("Gt", ["6", "70"])])
def test_numbers_are_compared_as_numbers(operator: str, levels: list[str]) -> None:
    toleration = Toleration.from_kube({"key": "risk", "operator": operator, "value": "5"})
    taints = [Taint("risk", "NoSchedule", level) for level in ("1", "4", "5", "6", "70", "high")]

    assert [taint.value for taint in taints if toleration.tolerates(taint)] == levels


@pytest.mark.parametrize(
    ("seconds", "borne"), [([0, None], False), ([300, 0], False), ([300], True), ([None], True), ([], False)]
)
def test_a_pod_tolerates_a_taint_for_the_shortest_matching_toleration(seconds: list[int | None], borne: bool) -> None:
    tolerations = [{"key": "maintenance", "operator": "Exists", "tolerationSeconds": each} for each in seconds]
    pod = Pod.from_kube({"metadata": {"name": "one"}, "spec": {"containers": [], "tolerations": tolerations}})

    assert pod.constraints.tolerates_for(Taint("maintenance", "NoExecute"), 60) is borne


def test_prefer_no_schedule_excludes_no_pod() -> None:
    preferred = Taint("slow", "PreferNoSchedule")

    assert find_untolerated([], [preferred]) is None
    assert find_untolerated([], [preferred], soft=True) == preferred


@pytest.mark.parametrize(
    ("raw", "field"), [({"key": "a", "effect": "NoWay"}, "effect"), ({"effect": "NoSchedule"}, "key")]
)
def test_an_invalid_taint_names_its_field(raw: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Taint.from_kube(raw)

    assert refused.value.field == field

"""Valid annotations, schedules and kubelet settings that have no effect beside what else the object declares."""

from typing import Any

import pytest

from joiner.pools import read_manifests

CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
ON_DEMAND = {
    "node": {"requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]}
}
SCHEDULED = {"nodes": "1", "schedule": "0 9 * * *", "duration": "8h"}
NO_SPOT = "it has no effect: the pool allows no spot nodes"
DETECT = "it has no effect: joiner.dev/drift is detect, so that no drifted node is replaced"
ONLY_EMPTY = "it has no effect: the pool removes only empty nodes, which no limit keeps"
NEVER = "it has no effect: the nodes of the pool do not expire (spec.template.spec.expireAfter)"


def warned(annotations: dict[str, str], *, node: Any = None, **spec: Any) -> dict[str, str]:
    """Return the remedy for each annotation of a NodePool that is reported, by its name."""
    keys = {f"joiner.dev/{name}": value for name, value in annotations.items()}
    template = {"spec": {"nodeClassRef": CLASS, **(node or {})}}
    pool = {"metadata": {"name": "default", "annotations": keys}, "spec": {"template": template, **spec}}
    found = [
        one for one in read_manifests([{"kind": "NodePool", **pool}]).problems if one.field.startswith("metadata.anno")
    ]
    assert {one.severity for one in found} <= {"warning"}
    return {one.field.removeprefix("metadata.annotations[joiner.dev/").rstrip("]"): one.remedy for one in found}


@pytest.mark.parametrize(
    ("annotations", "pool", "remedies"),
    [
        ({"capacity-mix": "spot=50%"}, ON_DEMAND, {"capacity-mix": NO_SPOT}),
        ({"rebalance": "drain"}, ON_DEMAND, {"rebalance": NO_SPOT}),
        ({"spot-to-spot-consolidation": "true"}, ON_DEMAND, {"spot-to-spot-consolidation": NO_SPOT}),
        (
            {"drift-canary-time": "20m"},
            {},
            {"drift-canary-time": "it has no effect without joiner.dev/drift-canary"},
        ),
        (
            {"drift-canary-time": "20m", "drift-canary": "0"},
            {},
            {"drift-canary-time": "it has no effect without joiner.dev/drift-canary"},
        ),
        ({"drift": "detect", "drift-canary": "2"}, {}, {"drift-canary": DETECT}),
        (
            {"expiration-spread": "20%"},
            {},
            {"expiration-spread": "it has no effect without joiner.dev/expiration: graceful"},
        ),
        ({"expiration": "graceful"}, {"node": {"expireAfter": "Never"}}, {"expiration": NEVER}),
        (
            {"node-repair": "disabled", "node-repair-tolerances": "Ready=20m"},
            {},
            {"node-repair-tolerances": "it has no effect: joiner.dev/node-repair is disabled"},
        ),
        (
            {"node-repair-tolerances": "Ready=20m,Ready=Never"},
            {},
            {"node-repair-tolerances": "'Ready=20m' has no effect; Ready is named again"},
        ),
        (
            {"spot-to-spot-least-types": "20"},
            {},
            {"spot-to-spot-least-types": 'it has no effect without joiner.dev/spot-to-spot-consolidation: "true"'},
        ),
        (
            {"budget-time-zone": "Europe/Oslo"},
            {},
            {"budget-time-zone": "it has no effect: no budget of the pool has a schedule"},
        ),
        (
            {"consolidation-least-saving-percent": "10"},
            {"disruption": {"consolidateAfter": "Never"}},
            {"consolidation-least-saving-percent": "it has no effect: the pool does not consolidate its nodes"},
        ),
        (
            {"consolidation-evictions-per-day": "10"},
            {"disruption": {"consolidationPolicy": "WhenEmpty"}},
            {"consolidation-evictions-per-day": ONLY_EMPTY},
        ),
        (
            {"consolidation-least-node-age": "1h"},
            {"replicas": 1},
            {"consolidation-least-node-age": "it has no effect: a pool with spec.replicas is not consolidated"},
        ),
        (
            {"expiration": "graceful", "expiration-spread": "20%"},
            {"node": {"expireAfter": "Never"}},
            {"expiration": NEVER, "expiration-spread": NEVER},
        ),
        (
            {"consolidation-least-node-age": "5m", "consolidation-workload-cool-down": "1h"},
            {"disruption": {"consolidationPolicy": "WhenEmpty"}},
            {"consolidation-least-node-age": ONLY_EMPTY, "consolidation-workload-cool-down": ONLY_EMPTY},
        ),
        (
            {"schedule": "0 8 31 2 * for 10h = 6"},
            {"replicas": 1},
            {
                "schedule": "'0 8 31 2 * for 10h = 6' never begins, so that it has no effect: correct it",
            },
        ),
    ],
)
def test_a_valid_annotation_without_effect_is_reported(
    annotations: dict[str, str], pool: dict[str, Any], remedies: dict[str, str]
) -> None:
    assert warned(annotations, **pool) == remedies


@pytest.mark.parametrize(
    ("annotations", "pool"),
    [
        ({"capacity-mix": "spot=50%", "rebalance": "drain"}, {}),
        ({"drift-canary-time": "20m", "drift-canary": "2"}, {}),
        ({"expiration": "graceful", "expiration-spread": "20%"}, {}),
        ({"node-repair-tolerances": "Ready=20m,StorageReady=Never"}, {}),
        ({"spot-to-spot-consolidation": "true", "spot-to-spot-least-types": "20"}, {}),
        ({"budget-time-zone": "Europe/Oslo"}, {"disruption": {"budgets": [SCHEDULED]}}),
        ({"consolidation-least-saving-percent": "10"}, {}),
        ({"rebalance": "ignore", "spot-to-spot-consolidation": "false"}, ON_DEMAND),
        ({"expiration": "forceful"}, {"node": {"expireAfter": "Never"}}),
        ({"schedule": "0 8 29 2 * for 10h = 6"}, {"replicas": 1}),
    ],
)
def test_an_annotation_with_an_effect_is_not_reported(annotations: dict[str, str], pool: dict[str, Any]) -> None:
    assert warned(annotations, **pool) == {}


@pytest.mark.parametrize(
    ("needed", "value", "annotation"),
    [
        ("drift-canary", "lots", {"drift-canary-time": "20m"}),
        ("expiration", "gracefull", {"expiration-spread": "20%"}),
        ("spot-to-spot-consolidation", "yes", {"spot-to-spot-least-types": "20"}),
    ],
)
def test_an_annotation_that_needs_an_invalid_one_is_not_reported(
    needed: str, value: str, annotation: dict[str, str]
) -> None:
    assert list(warned({needed: value, **annotation})) == [needed]
    assert list(warned(annotation)) == list(annotation)


@pytest.mark.parametrize(("schedule", "reported"), [("0 0 31 2 *", True), ("0 0 30 2-3 *", False), ("@monthly", False)])
def test_a_budget_whose_schedule_never_occurs_is_reported(schedule: str, reported: bool) -> None:
    budget = {"nodes": "5", "duration": "1h", "schedule": schedule}
    spec = {"template": {"spec": {"nodeClassRef": CLASS}}, "disruption": {"budgets": [budget]}}
    found = read_manifests([{"kind": "NodePool", "metadata": {"name": "default"}, "spec": spec}])

    why = "it never occurs, so that the budget limits nothing: correct it"
    mine = [(one.remedy, one.severity) for one in found.problems if one.field.startswith("spec.disruption")]
    assert (mine, len(found.pools)) == ([(why, "warning")] if reported else [], 1)


@pytest.mark.parametrize("soft", [False, True])
def test_a_longest_grace_period_needs_soft_evictions(soft: bool) -> None:
    thresholds = {"evictionSoft": {"memory.available": "5%"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}
    kubelet = {"evictionMaxPodGracePeriod": 60, **(thresholds if soft else {})}
    node_class = {"kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {"kubelet": kubelet}}

    found = [one for one in read_manifests([node_class]).problems if one.field.startswith("spec.kubelet")]

    assert [(one.field, one.remedy, one.severity) for one in found] == (
        [] if soft else [("spec.kubelet.evictionMaxPodGracePeriod", "it has no effect without evictionSoft", "warning")]
    )


@pytest.mark.parametrize(
    ("kubelet", "fields"),
    [
        ({"evictionMaxPodGracePeriod": 0}, []),
        (
            {"evictionMaxPodGracePeriod": 60, "evictionSoft": {"memory.available": "5%"}},
            ["evictionSoftGracePeriod"],
        ),
        ({"evictionMaxPodGracePeriod": 60, "evictionSoft": "5%"}, ["evictionSoft"]),
    ],
)
def test_a_longest_grace_period_of_nothing_or_beside_invalid_soft_evictions_is_not_reported(
    kubelet: dict[str, Any], fields: list[str]
) -> None:
    node_class = {"kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {"kubelet": kubelet}}
    found = [one.field for one in read_manifests([node_class]).problems if one.field.startswith("spec.kubelet")]

    assert {field.removeprefix("spec.kubelet.") for field in found} == set(fields)

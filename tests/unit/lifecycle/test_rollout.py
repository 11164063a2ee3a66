"""Which Deployments replace their pod before it leaves a node, and for how long that is awaited."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from joiner.lifecycle.rollout import Rollout, RolloutStep, plan_rollout, restart_patch

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CREATED = NOON - timedelta(hours=3)


def deployment(restarted: str = "", **spec: Any) -> dict[str, Any]:
    annotations = {"kubectl.kubernetes.io/restartedAt": restarted} if restarted else {}
    return {"spec": {"replicas": 1, "template": {"metadata": {"annotations": annotations}}, **spec}}


def rolling(**rolling_update: Any) -> dict[str, Any]:
    return deployment(strategy={"type": "RollingUpdate", "rollingUpdate": rolling_update})


@pytest.mark.parametrize(
    "made",
    [
        deployment(),
        rolling(maxSurge="25%", maxUnavailable="25%"),
        rolling(maxSurge=1, maxUnavailable=0),
        deployment("2026-11-21T08:59:59Z"),  # before the pod was created
        deployment("2026-11-21T12:00:00"),  # without a time zone: nobody's restart
    ],
)
def test_a_single_replica_with_surge_is_restarted(made: dict[str, Any]) -> None:
    assert plan_rollout(made, CREATED, NOON) == Rollout(RolloutStep.RESTART, "", NOON + timedelta(minutes=10))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (deployment(replicas=2), "it has 2 replicas, and only a single one is replaced by a rollout"),
        (deployment(replicas=0), "it has 0 replicas, and only a single one is replaced by a rollout"),
        (deployment(paused=True), "it is paused"),
        (deployment(strategy={"type": "Recreate"}), "its strategy is Recreate"),
        (rolling(maxSurge=0, maxUnavailable=1), "its maxSurge is 0"),
        (rolling(maxSurge="0%", maxUnavailable="100%"), "its maxSurge is 0"),
        (
            rolling(maxSurge=1, maxUnavailable=1),
            "its maxUnavailable lets the pod leave before the new one is available",
        ),
    ],
)
def test_a_deployment_that_cannot_replace_its_pod_first_lets_it_be_evicted(made: dict[str, Any], why: str) -> None:
    assert plan_rollout(made, CREATED, NOON) == Rollout(RolloutStep.EVICT, why)


def test_a_restart_after_the_pods_creation_is_awaited_for_ten_minutes_and_not_repeated() -> None:
    made = deployment("2026-11-21T12:00:00Z")
    until = NOON + timedelta(minutes=10)

    assert plan_rollout(made, CREATED, NOON) == Rollout(RolloutStep.WAIT, "", until)
    assert plan_rollout(made, CREATED, until - timedelta(seconds=1)) == Rollout(RolloutStep.WAIT, "", until)
    assert plan_rollout(made, CREATED, until) == Rollout(
        RolloutStep.EVICT, "its rollout has not replaced the pod within 10 minutes"
    )


def test_the_restart_changes_one_annotation_of_the_version_that_was_read() -> None:
    assert restart_patch(NOON, "17") == {
        "metadata": {"resourceVersion": "17"},
        "spec": {
            "template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-11-21T12:00:00Z"}}}
        },
    }

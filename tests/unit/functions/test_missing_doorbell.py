"""A cluster whose API server does not call the doorbell works, up to a minute later, and reports it on its pools."""

from collections.abc import Callable
from pathlib import Path

import yaml

from joiner.adapters import kube_kinds as kinds
from joiner.adapters.kube import Manifest
from joiner.adapters.kube_errors import Forbidden
from joiner.names import DOORBELL_WEBHOOK, DOORBELL_WEBHOOKS
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import DOORBELL, pending

ROOT = Path(__file__).parents[3]

REMEDY = (
    "Joiner notices changes only at its sweep, up to 60 s later. To install it: node_modules/.bin/cdk deploy "
    "-c cluster=NAME -c rotate=WORD, with the name of its settings and a new WORD"
)


def reported(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    events = cluster.kube.all(kinds.EVENTS)
    return [
        (each["regarding"]["kind"], each["note"].replace(REMEDY, "REMEDY"))
        for each in events
        if each["reason"] == "DoorbellMissing"
    ]


def test_a_deleted_webhook_configuration_is_reported_on_the_pool_and_pods_are_found_all_the_same(
    cluster: SimulatedCluster,
) -> None:
    cluster.prepare(pending("a"))
    cluster.kube.delete(kinds.VALIDATING_WEBHOOKS, DOORBELL_WEBHOOK)

    surveyed, _ = cluster.survey("s1")

    assert surveyed["pendingPods"] == 1
    assert surveyed["reasons"][0].startswith(f"ValidatingWebhookConfiguration {DOORBELL_WEBHOOK} does not exist: ")
    assert reported(cluster) == [
        ("NodePool", "ValidatingWebhookConfiguration joiner-doorbell does not exist: REMEDY"),
    ]


def test_a_removed_webhook_is_named(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    cluster.kube.put({**DOORBELL, "webhooks": [each for each in DOORBELL["webhooks"] if "nodes" not in each["name"]]})

    cluster.survey("s1")

    assert reported(cluster) == [
        (
            "NodePool",
            "ValidatingWebhookConfiguration joiner-doorbell lacks nodes.doorbell.joiner.dev: REMEDY",
        )
    ]


def test_nothing_is_reported_with_the_webhooks_that_the_installer_applies(cluster: SimulatedCluster) -> None:
    cluster.prepare()
    manifest = yaml.safe_load((ROOT / "manifests/webhooks/doorbell.yaml").read_text())
    cluster.kube.put(manifest)

    surveyed, _ = cluster.survey("s1")

    assert manifest["metadata"]["name"] == DOORBELL_WEBHOOK
    assert sorted(each["name"] for each in manifest["webhooks"]) == sorted(DOORBELL_WEBHOOKS)
    assert (surveyed["reasons"], reported(cluster)) == ([], [])


def test_a_refused_request_ends_no_survey(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("a"))

    def refuse(method: str, path: str, answer: Callable[[], Manifest]) -> Manifest:
        if "validatingwebhookconfigurations" in path:
            raise Forbidden("forbidden", status=403, asked=f"{method} {path}")
        return answer()

    cluster.kube.fault = refuse
    surveyed, _ = cluster.survey("s1")

    assert surveyed["pendingPods"] == 1
    assert surveyed["reasons"][0].startswith("the webhooks of the doorbell could not be read: GET ")
    assert reported(cluster) == []

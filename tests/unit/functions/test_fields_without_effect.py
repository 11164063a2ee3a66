"""The use of each field of `UNSUPPORTED` is in a condition of its object or an event, and in `joiner plan`."""

from collections.abc import Mapping
from typing import Any

import pytest

from joiner.adapters import kube_kinds as kinds
from joiner.pools import Conditions
from joiner.pools.codecs.unsupported_fields import UNSUPPORTED, UnsupportedField
from tests.unit.cli.command_runs import joiner, write
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NODECLASS, NODEPOOL, pending

TIME = "2026-11-23T12:00:00Z"
TAINTS: Mapping[str, Any] = {
    "taints": [{"key": "example.com/a", "effect": "NoSchedule", "timeAdded": TIME}],
    "startupTaints": [{"key": "example.com/b", "effect": "NoSchedule", "timeAdded": TIME}],
}
NODE = NODEPOOL["spec"]["template"]["spec"]
PROVIDER = {"apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS", "instanceProfile": "nodes"}


def made(kind: str, version: str, labels: Mapping[str, str] | None = None, /, **spec: Any) -> Mapping[str, Any]:
    metadata = {"name": f"used-{kind.lower()}", "uid": f"uid-{kind}", "labels": labels or {}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


USED: Mapping[str, Mapping[str, Any]] = {
    "NodePool": made("NodePool", "karpenter.sh/v1", template={"spec": {**NODE, **TAINTS}}),
    "Provisioner": made("Provisioner", "karpenter.sh/v1alpha5", provider=PROVIDER, **TAINTS),
    "NodeClaim": made(
        "NodeClaim", "karpenter.sh/v1", nodeClassRef=NODE["nodeClassRef"], requirements=NODE["requirements"], **TAINTS
    ),
    "Machine": made(
        "Machine",
        "karpenter.sh/v1alpha5",
        {"karpenter.sh/provisioner-name": "used-provisioner"},
        requirements=[],
        **TAINTS,
    ),
}
"""An object of each kind with fields without effect, which uses all of them."""


def note_of(row: UnsupportedField) -> str:
    """Return the note of the field, which the object of its kind uses."""
    value: Any = USED[row.kind]
    for part in row.path.split("."):
        name, items, _ = part.partition("[]")
        value = value[name][0] if items else value[name]
    return f"{row.path.replace('[]', '[0]')} is {value}: {row.remedy}"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The notes of `joiner plan` for all objects."""
    return joiner("plan", "-f", write(tmp_path_factory.mktemp("plan"), NODECLASS, *USED.values())).err


@pytest.mark.parametrize("row", UNSUPPORTED, ids=lambda row: f"{row.kind}-{row.path}")
def test_a_plan_has_a_note_for_each_use(row: UnsupportedField, printed: str) -> None:
    assert f"{row.kind}/used-{row.kind.lower()}: {note_of(row)}" in printed


def test_each_use_is_in_a_condition_of_its_object_or_in_an_event(cluster: SimulatedCluster) -> None:
    cluster.prepare(pending("web-1"), *USED.values())

    cluster.stop_after = "record_launches"  # the nodes wait for what removes their startup taints
    cluster.scale_up("up-1")
    cluster.survey("s1")

    conditions = {
        kind: Conditions.from_kube(cluster.kube.objects[plural, "", f"used-{kind.lower()}"]["status"]["conditions"])
        for kind, plural in (("NodePool", "nodepools"), ("Provisioner", "provisioners"))
    }
    shown = {kind: found["ValidationSucceeded"].message for kind, found in conditions.items()}
    for event in cluster.kube.all(kinds.EVENTS):
        about = event["regarding"]["kind"]
        if about in ("NodeClaim", "Machine") and event["reason"] == "WithoutEffect":
            shown[about] = f"{shown.get(about, '')}; {event['note']}"
    assert {row: note_of(row) in shown[row.kind] for row in UNSUPPORTED} == dict.fromkeys(UNSUPPORTED, True)

"""The installer removes admission policies of an earlier version that the present one does not have, and no policies of
others.
"""

from typing import Any

from functions.install_manifests import handler as install_manifests
from joiner.adapters.kube_kinds import ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS, Kind
from tests.unit.functions.fake_kube import FakeKube


def policy(kind: Kind, name: str, manager: str = "joiner") -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": manager}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "labels": labels}, "spec": {}}


def test_policies_that_are_no_longer_in_the_package_are_deleted_with_their_bindings() -> None:
    kube = FakeKube()
    for kind in (ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS):
        for name, manager in (
            ("joiner-nodes", "joiner"),
            ("joiner-former", "joiner"),
            ("joiner-foreign", "else"),
            ("team", "joiner"),
        ):
            kube.put(policy(kind, name, manager))

    install_manifests._apply_policies(
        kube, [policy(kind, "joiner-nodes") for kind in (ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS)]
    )

    for kind in (ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS):
        assert [each["metadata"]["name"] for each in kube.all(kind)] == ["joiner-foreign", "joiner-nodes", "team"]
    deleted = [asked.split("/")[-2:] for asked in kube.asked if asked.startswith("DELETE")]
    assert deleted == [[kind.plural, "joiner-former"] for kind in (ADMISSION_POLICY_BINDINGS, ADMISSION_POLICIES)]

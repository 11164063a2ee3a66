"""CloudFormation sends the properties of the deployment before: a rollback or a deletion may bring fewer of them."""

import json
from typing import Any

from functions.install_manifests import handler as install_manifests
from functions.keep_node_access.handler import WantedAccess
from joiner.adapters.kube_kinds import CONFIG_MAPS
from joiner.adapters.role_mappings import read_mappings
from tests.unit.functions.fake_kube import FakeKube

NODES = "arn:aws:iam::123456789012:role/nodes"


def test_node_access_is_kept_for_a_deployment_without_profiles_of_each_role_and_windows_roles() -> None:
    earlier = {
        "Cluster": "prod",
        "Roles": NODES,
        "ManageEntries": "true",
        "OwnRole": "nodes",
        "ProfilePath": "/joiner/prod/eu-west-1/",
    }

    assert WantedAccess.of(earlier) == WantedAccess("prod", (NODES,), True, "nodes", "/joiner/prod/eu-west-1/")


def test_roles_are_mapped_and_unmapped_for_a_deployment_without_windows_roles() -> None:
    earlier = json.dumps({"functions": [], "installer": "arn:aws:iam::123456789012:role/installer", "nodes": [NODES]})
    metadata = {"name": "aws-auth", "namespace": "kube-system"}
    kube = FakeKube([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"mapRoles": ""}}])

    install_manifests.map_roles(kube, earlier)

    assert [(each["rolearn"], each["groups"]) for each in _mapped(kube)] == [
        ("arn:aws:iam::123456789012:role/installer", ["system:masters"]),
        (NODES, ["system:bootstrappers", "system:nodes"]),
    ]
    install_manifests.unmap_roles(kube, earlier)
    assert [each["rolearn"] for each in _mapped(kube)] == [NODES]  # whether a deployment created it is unknown


def _mapped(kube: FakeKube) -> list[dict[str, Any]]:
    return list(read_mappings(kube.get(CONFIG_MAPS, "aws-auth", namespace="kube-system")["data"]["mapRoles"]))

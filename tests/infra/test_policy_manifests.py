"""The admission policies as they are installed: they deny requests of Joiner's identities only, and delay no others."""

import json
import re
from typing import Any

import pytest
import yaml

from infra.function_configuration import CONFIGURATIONS
from infra.manifest_files import MANIFESTS
from joiner.adapters.kube_kinds import KINDS
from joiner.cluster.node_shards import OTHER, shard_of
from joiner.disruption.ended_capacity_reservations import ON_DEMAND_LABELS
from joiner.lifecycle.rollout import RESTARTED_AT
from joiner.names import (
    CLAIM_LABELLERS,
    DISRUPTED,
    DRAIN,
    FILLING,
    LEAVING,
    NODE_OF_POD,
    NODECLASS_HASH,
    NODECLASS_HASH_VERSION,
    NODEPOOL,
    NODEPOOL_HASH,
    NODEPOOL_HASH_VERSION,
    PLACED,
    PROVISIONER,
    PROVISIONER_HASH,
    PROVISIONER_HASH_VERSION,
    SHARD,
)

DOCUMENTS = [
    document
    for path in sorted((MANIFESTS / "policies").glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
]
POLICIES = {each["metadata"]["name"]: each["spec"] for each in DOCUMENTS if each["kind"] == "ValidatingAdmissionPolicy"}
BINDINGS = {
    name: {
        each["metadata"]["name"]: each["spec"]
        for each in DOCUMENTS
        if each["kind"] == "ValidatingAdmissionPolicyBinding" and each["spec"]["policyName"] == name
    }
    for name in POLICIES
}
BY_JOINER = "request.userInfo.?groups.orValue([]).exists(group, group.startsWith('joiner:'))"


def test_the_installer_can_write_policies_and_removes_only_its_own() -> None:
    assert all((each["apiVersion"], each["kind"]) in KINDS for each in DOCUMENTS)
    assert all(each["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "joiner"} for each in DOCUMENTS)
    assert all(each["metadata"]["name"].startswith("joiner-") for each in DOCUMENTS)


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_refuses_what_it_cannot_judge_and_is_about_joiners_identities_only(name: str) -> None:
    policy = POLICIES[name]

    assert policy["failurePolicy"] == "Fail"
    assert [each["expression"] for each in policy["matchConditions"]] == [BY_JOINER]
    assert BINDINGS[name]
    assert all(each["validationActions"] == ["Deny"] for each in BINDINGS[name].values())
    assert all(
        each["reason"] == "Forbidden" and ("message" in each or "messageExpression" in each)
        for each in policy["validations"]
    )


def test_every_group_is_one_that_the_policies_are_about() -> None:
    groups = {group for configuration in CONFIGURATIONS.values() for group in configuration.groups}

    bound = {
        subject["name"]
        for path in (MANIFESTS / "rbac").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] == "ClusterRoleBinding"
        for subject in document["subjects"]
    }
    assert groups == bound
    assert all(group.startswith("joiner:") for group in groups)


OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
FREQUENT = {"pods", "pods/status", "nodes", "nodes/status", "deployments", "deployments/status", "events"}
"""Resources that kubelets and controllers write all the time."""


def _granted() -> set[tuple[str, str]]:
    """Return which operations on which resources RBAC grants to groups of Joiner."""
    rules = [
        rule
        for path in (MANIFESTS / "rbac").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        for rule in document.get("rules", ())
    ]
    return {
        (resource, OPERATIONS[verb])
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb in OPERATIONS
    }


def test_of_frequent_requests_the_policies_judge_those_that_rbac_grants_and_no_others() -> None:
    judged = {
        (resource, operation)
        for policy in POLICIES.values()
        for rule in policy["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }

    assert {each for each in judged if each[0] in FREQUENT} == {each for each in _granted() if each[0] in FREQUENT}


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if "paramKind" in policy])
def test_only_labelled_requests_are_compared_with_every_node_and_none_with_every_pod(name: str) -> None:
    policy = POLICIES[name]

    assert policy["paramKind"] == {"apiVersion": "v1", "kind": "Node"}  # a namespace may have ten thousand pods
    assert policy["matchConstraints"]["objectSelector"] in (
        {"matchExpressions": [{"key": PLACED, "operator": "Exists"}]},
        {"matchLabels": {LEAVING: "true"}},
    )
    # With Deny, a cluster without nodes would refuse these requests of all users
    assert {each["paramRef"]["parameterNotFoundAction"] for each in BINDINGS[name].values()} == {"Allow"}
    if name != "joiner-bindings-of-filling-nodes":
        assert [each["paramRef"]["selector"] for each in BINDINGS[name].values()] == [{}]


def test_a_binding_is_compared_with_the_nodes_of_its_shard_and_with_those_of_none() -> None:
    bindings = dict(BINDINGS["joiner-bindings-of-filling-nodes"])
    unsharded = bindings.pop("joiner-bindings-of-filling-nodes")

    assert unsharded["paramRef"]["selector"] == {"matchExpressions": [{"key": SHARD, "operator": "DoesNotExist"}]}
    assert "matchResources" not in unsharded
    found = {
        each["matchResources"]["objectSelector"]["matchLabels"][PLACED]: each["paramRef"]["selector"]["matchLabels"]
        for each in bindings.values()
    }
    assert found == {shard: {SHARD: shard} for shard in (*"0123456789", OTHER)}
    assert {shard_of(f"ip-10-0-0-{number}.ec2.internal") for number in range(256)} | {shard_of("node")} == found.keys()


def test_what_a_labelled_request_must_carry_is_asked_by_a_policy_without_parameters() -> None:
    without = {name: _expressions(policy) for name, policy in POLICIES.items() if "paramKind" not in policy}

    assert {name for name, text in without.items() if PLACED in text} == {"joiner-bindings"}
    assert {name for name, text in without.items() if LEAVING in text} == {
        "joiner-claims",
        "joiner-evictions",
        "joiner-pods",
    }


def test_policies_and_code_mean_the_same_names() -> None:
    everything = "".join(_expressions(each) for each in POLICIES.values())

    for name in (NODEPOOL, PROVISIONER, FILLING, DISRUPTED, PLACED, LEAVING, NODE_OF_POD, SHARD, DRAIN, RESTARTED_AT):
        assert f"'{name}'" in everything, name


def test_the_labeller_changes_the_labels_and_digests_that_the_code_writes_and_nothing_else() -> None:
    digests = {
        *(NODEPOOL_HASH, NODEPOOL_HASH_VERSION, PROVISIONER_HASH, PROVISIONER_HASH_VERSION),
        *(NODECLASS_HASH, NODECLASS_HASH_VERSION),
    }
    for name, lists in {
        "joiner-nodes": {"relabelled": set(ON_DEMAND_LABELS)},
        "joiner-claims": {"relabelled": set(ON_DEMAND_LABELS), "digests": digests},
    }.items():
        variables = {each["name"]: each["expression"] for each in POLICIES[name]["variables"]}
        (rule,) = (
            each["expression"] for each in POLICIES[name]["validations"] if "variables.labeller" in each["expression"]
        )

        assert f"group == '{CLAIM_LABELLERS}'" in variables["labeller"]
        assert {key: set(re.findall(r"'([^']+)'", variables[key])) for key in lists} == lists
        for part in ("finalizers", "ownerReferences"):
            assert f"object.metadata.?{part} == oldObject.metadata.?{part}" in rule
        assert ("object.spec == oldObject.spec" in rule) is (name == "joiner-nodes")  # another rule keeps it in claims


def _expressions(policy: dict[str, Any]) -> str:
    """Return all CEL expressions of a policy."""
    return json.dumps([each["expression"] for part in ("variables", "validations") for each in policy.get(part, [])])

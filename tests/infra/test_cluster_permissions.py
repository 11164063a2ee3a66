"""What each function may do in the cluster: groups of access entries, and the rules of their cluster roles."""

from collections.abc import Mapping

import yaml

from infra.function_configuration import CONFIGURATIONS
from joiner.adapters.cluster_view import FIRST, PLANNED, REPORTED, SELECTING, SURVEYED
from joiner.adapters.kube_kinds import PODS
from joiner.lifecycle.other_autoscalers import LEASES
from joiner.names import (
    DOORBELL_VIEWERS,
    DOORBELL_WEBHOOK,
    EVENT_WRITERS,
    LISTED_POD_WRITERS,
    LISTED_PODS_ROLE,
    VIEWERS,
)
from tests.infra.conftest import ROOT, Synthesis


def test_each_function_has_the_groups_of_its_configuration_in_the_cluster(example: Synthesis) -> None:
    entries = [each["Properties"] for each in example.resources("AWS::EKS::AccessEntry").values()]
    groups = {
        each["PrincipalArn"]["Fn::GetAtt"][0]: each["KubernetesGroups"]
        for each in entries
        if "KubernetesGroups" in each
    }

    for function in example.resources("AWS::Lambda::Function").values():
        configuration = CONFIGURATIONS[function["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]]
        assert groups.get(function["Properties"]["Role"]["Fn::GetAtt"][0], []) == list(configuration.groups)
    assert not any("AccessPolicies" in each for each in entries)


RECORDS = {
    "create patch delete nodeclaims machines",
    "patch nodeclaims/status machines/status nodepools/status provisioners/status nodeoverlays/status",
    "patch ec2nodeclasses/status awsnodetemplates/status",
    "patch ec2nodeclasses awsnodetemplates",
    "patch capacitybuffers/status",
    "create events",
}

REPORTS = {"patch nodeclaims/status machines/status", "create events"}

LISTED = {"get patch roles", "skip unschedulablepods"}

WRITES: Mapping[str, set[str]] = {
    "survey_cluster": {"create events", "get validatingwebhookconfigurations", *LISTED},
    "find_pending_pods": {"create events", *LISTED},
    "record_node_claims": RECORDS,
    "record_launches": RECORDS,
    "rebuild_claims": RECORDS,
    "check_registration": {*REPORTS, "patch nodepools/status", "patch nodes", "create pods/binding"},
    "detect_drift": {
        *REPORTS,
        "patch ec2nodeclasses/status awsnodetemplates/status",
        "patch nodeclaims machines",
        "patch nodes",
    },
    "find_candidates": set(),
    "report_candidates": REPORTS,
    "mark_nodes": {*REPORTS, "patch nodes"},
    "settle_disruptions": {*REPORTS, "patch nodes"},
    "begin_retirement": {*RECORDS, "patch nodes"},
    "evict_pods": {
        *REPORTS,
        "patch nodes",
        "create pods/eviction",
        "get patch deployments",
        "patch delete pods",
    },
    "forget_nodes": {*RECORDS, "patch nodes", "delete nodes", "patch delete pods"},
}
"""What each function may do in the cluster beside reading what the planner reads."""


def test_a_function_may_do_only_what_its_task_needs() -> None:
    rules = {
        document["metadata"]["name"]: document["rules"]
        for path in (ROOT / "manifests/rbac").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] == "ClusterRole"
    }
    may = {
        name: {
            " ".join([*rule["verbs"], *rule["resources"]])
            for group in configuration.groups
            if group != VIEWERS
            for rule in rules[group]
        }
        for name, configuration in CONFIGURATIONS.items()
        if configuration.groups
    }

    assert may == WRITES


def test_each_group_has_one_cluster_role_that_names_every_verb_and_no_secrets() -> None:
    manifests = [
        document
        for path in (ROOT / "manifests/rbac").glob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
    ]
    roles = {each["metadata"]["name"]: each["rules"] for each in manifests if each["kind"] == "ClusterRole"}
    bindings = {each["roleRef"]["name"]: each["subjects"] for each in manifests if each["kind"] == "ClusterRoleBinding"}

    groups = {group for configuration in CONFIGURATIONS.values() for group in configuration.groups}
    assert set(roles) == set(bindings) == groups
    assert all(
        subjects == [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": role}]
        for role, subjects in bindings.items()
    )
    for role, rules in roles.items():
        for rule in rules:
            assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"]), role
            assert not {"secrets", "configmaps", "serviceaccounts"} & set(rule["resources"]), role
    assert {verb for rule in roles[VIEWERS] for verb in rule["verbs"]} == {"get", "list"}
    assert [rule["resources"] for rule in roles[EVENT_WRITERS]] == [["events"]]
    in_groups = [
        rule["apiGroups"]
        for rules in roles.values()
        for rule in rules
        if "create" in rule["verbs"] and rule["resources"] == ["events"]
    ]
    assert in_groups == [["", "events.k8s.io"]] * 3  # functions of an earlier state run until their update
    assert [rule["resourceNames"] for rule in roles[DOORBELL_VIEWERS]] == [[DOORBELL_WEBHOOK]]
    assert [rule.get("resourceNames") for rule in roles[LISTED_POD_WRITERS]] == [[LISTED_PODS_ROLE], None]
    assert [rule["resourceNames"] for rule in roles[VIEWERS] if "leases" in rule["resources"]] == [list(LEASES)]
    assert not any("aggregate" in label for each in manifests for label in each["metadata"]["labels"])


def test_viewers_may_list_every_kind_that_plans_and_proposals_list() -> None:
    (rules,) = [
        each["rules"]
        for each in yaml.safe_load_all((ROOT / "manifests/rbac/viewer.yaml").read_text())
        if each["kind"] == "ClusterRole"
    ]
    may = {
        (group, resource)
        for rule in rules
        if "list" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }

    read = (*FIRST, *SURVEYED, *PLANNED, *REPORTED, *SELECTING, PODS)
    assert {(kind.group, kind.plural) for kind in read} - may == set()

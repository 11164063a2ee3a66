"""The ConfigMap aws-auth: the installer adds and removes its own entries, and everything of others stays."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from functions.install_manifests import handler as install_manifests
from joiner.adapters import aws_auth
from joiner.adapters.aws_auth import MappedRoles, MappingRefused
from joiner.adapters.kube import Manifest
from joiner.adapters.kube_errors import Conflict, Unauthorized
from joiner.adapters.kube_kinds import CONFIG_MAPS
from joiner.adapters.role_mappings import RoleMapping, UnreadableMappings, edit_mappings, read_mappings
from joiner.names import MAPPED_ROLES
from tests.unit.functions.fake_kube import FakeKube

ROLE = "arn:aws:iam::123456789012:role/"
SESSIONS = "arn:aws:sts::123456789012:assumed-role/"
ASKED = {
    "functions": [{"role": f"{ROLE}sweep", "groups": ["joiner:viewer", "joiner:event-writer"]}],
    "installer": f"{ROLE}joiner-installer-prod-eu-west-1",
    "nodes": [f"{ROLE}nodes"],
    "windowsNodes": [],
    "ownNode": f"{ROLE}nodes",
}
MAPPINGS = json.dumps(ASKED)
FOREIGN = """\
# written by the platform team, see the runbook
- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: arn:aws:iam::123456789012:role/managed-group   # the node group
  username: system:node:{{EC2PrivateDNSName}}

# people
-   {rolearn: arn:aws:iam::123456789012:role/admins, username: admin, groups: ["system:masters"]}
# end of the list
"""
OURS = """\
- rolearn: "arn:aws:iam::123456789012:role/joiner-installer-prod-eu-west-1"
  username: "arn:aws:sts::123456789012:assumed-role/joiner-installer-prod-eu-west-1/{{SessionName}}"
  groups:
  - "system:masters"
- rolearn: "arn:aws:iam::123456789012:role/sweep"
  username: "arn:aws:sts::123456789012:assumed-role/sweep/{{SessionName}}"
  groups:
  - "joiner:viewer"
  - "joiner:event-writer"
- rolearn: "arn:aws:iam::123456789012:role/nodes"
  username: "system:node:{{EC2PrivateDNSName}}"
  groups:
  - "system:bootstrappers"
  - "system:nodes"
"""


def config_map(roles: str | None, **data: str) -> Manifest:
    content = data if roles is None else {"mapRoles": roles, **data}
    metadata = {"name": "aws-auth", "namespace": "kube-system", "annotations": {"team": "platform"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": content}


def stored(kube: FakeKube) -> Manifest:
    (found,) = kube.all(CONFIG_MAPS)
    return found


def node(name: str, **labels: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def test_own_roles_are_appended_and_everything_else_stays_as_it_was_written() -> None:
    users = "- userarn: arn:aws:iam::123456789012:user/eve\n  username: eve\n"
    kube = FakeKube([config_map(FOREIGN, mapUsers=users, mapAccounts="- '123456789012'")])

    install_manifests.map_roles(kube, MAPPINGS)

    found = stored(kube)
    assert found["data"] == {"mapRoles": FOREIGN + OURS, "mapUsers": users, "mapAccounts": "- '123456789012'"}
    assert found["metadata"]["annotations"] == {
        "team": "platform",
        "joiner.dev/mapped-roles": f"{ROLE}joiner-installer-prod-eu-west-1,{ROLE}nodes,{ROLE}sweep",
    }


def test_a_second_deployment_writes_nothing() -> None:
    kube = FakeKube([config_map(FOREIGN)])
    install_manifests.map_roles(kube, MAPPINGS)
    before = len(kube.asked)

    install_manifests.map_roles(kube, MAPPINGS)

    assert [each.split()[0] for each in kube.asked[before:]] == ["GET"]


def test_without_the_config_map_it_is_created() -> None:
    kube = FakeKube()

    install_manifests.map_roles(kube, MAPPINGS)

    assert stored(kube)["data"] == {"mapRoles": OURS}


def test_after_the_uninstallation_the_text_is_that_of_before() -> None:
    kube = FakeKube([config_map(FOREIGN)])
    install_manifests.map_roles(kube, MAPPINGS)

    install_manifests.unmap_roles(kube, MAPPINGS)

    assert stored(kube)["data"] == {"mapRoles": FOREIGN}
    assert stored(kube)["metadata"]["annotations"] == {"team": "platform"}


@pytest.mark.parametrize("labels", [{"karpenter.sh/nodepool": "general"}, {"eks.amazonaws.com/nodegroup": "core"}, {}])
def test_the_roles_of_nodes_stay_while_an_instance_may_need_them(labels: dict[str, str]) -> None:
    fargate = node("fargate-ip-10-0-0-1", **{"eks.amazonaws.com/compute-type": "fargate"})
    kube = FakeKube([config_map(""), fargate, node("instance", **labels)])
    install_manifests.map_roles(kube, MAPPINGS)

    install_manifests.unmap_roles(kube, MAPPINGS)

    assert [each["rolearn"] for each in read_mappings(stored(kube)["data"]["mapRoles"])] == [f"{ROLE}nodes"]


def test_the_roles_of_nodes_are_removed_from_a_cluster_of_fargate_nodes() -> None:
    kube = FakeKube([config_map(FOREIGN), node("fargate-1", **{"eks.amazonaws.com/compute-type": "fargate"})])
    install_manifests.map_roles(kube, MAPPINGS)

    install_manifests.unmap_roles(kube, MAPPINGS)

    assert stored(kube)["data"] == {"mapRoles": FOREIGN}


def test_the_role_of_a_node_group_without_nodes_stays_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    named = json.dumps({**ASKED, "nodes": [f"{ROLE}nodes", f"{ROLE}shared"], "windowsNodes": [f"{ROLE}shared"]})
    kube = FakeKube([config_map(FOREIGN)])
    install_manifests.map_roles(kube, named)

    install_manifests.unmap_roles(kube, named)

    mapped = [each["rolearn"] for each in read_mappings(stored(kube)["data"]["mapRoles"])]
    assert mapped == [f"{ROLE}managed-group", f"{ROLE}admins", f"{ROLE}shared"]
    assert stored(kube)["metadata"]["annotations"][MAPPED_ROLES] == f"{ROLE}shared"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "these roles of nodes stay in aws-auth, because node groups that are scaled to zero may have them: "
        f"{ROLE}shared"
    ]


def test_a_role_that_another_writer_removes_meanwhile_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    """The first write meets a conflict, so the content is read again."""
    named = json.dumps({**ASKED, "nodes": [f"{ROLE}nodes", f"{ROLE}shared"], "windowsNodes": []})
    kube = FakeKube([config_map(FOREIGN)])
    install_manifests.map_roles(kube, named)

    def remove_first(method: str, _path: str, answer: Any) -> Any:
        if method == "PATCH":
            kube.fault = None
            kube.put(config_map(FOREIGN))
        return answer()

    kube.fault = remove_first
    install_manifests.unmap_roles(kube, named)

    assert kube.fault is None
    assert stored(kube)["data"] == {"mapRoles": FOREIGN}
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def test_an_entry_of_a_node_role_that_others_wrote_is_used_and_stays_at_the_end() -> None:
    existing = (
        f"- rolearn: {ROLE}nodes\n  username: system:node:{{{{EC2PrivateDNSName}}}}\n"
        "  groups: [system:nodes, system:bootstrappers, eks:kube-proxy-windows]\n"
    )
    kube = FakeKube([config_map(existing)])

    install_manifests.map_roles(kube, MAPPINGS)
    assert [each["rolearn"].rpartition("/")[2] for each in read_mappings(stored(kube)["data"]["mapRoles"])] == [
        "nodes",
        "joiner-installer-prod-eu-west-1",
        "sweep",
    ]

    install_manifests.unmap_roles(kube, MAPPINGS)
    assert stored(kube)["data"]["mapRoles"] == existing


def test_a_role_that_becomes_one_of_windows_nodes_gets_their_group() -> None:
    kube = FakeKube([config_map(FOREIGN)])
    install_manifests.map_roles(kube, MAPPINGS)

    install_manifests.map_roles(kube, json.dumps({**ASKED, "windowsNodes": [f"{ROLE}nodes"]}))

    own = [each for each in read_mappings(stored(kube)["data"]["mapRoles"]) if each["rolearn"] == f"{ROLE}nodes"]
    assert [each["groups"] for each in own] == [["system:bootstrappers", "system:nodes", "eks:kube-proxy-windows"]]
    assert stored(kube)["data"]["mapRoles"].startswith(FOREIGN)


def test_a_role_with_a_path_is_mapped_without_it() -> None:
    kube = FakeKube([config_map(None)])
    asked = json.dumps({**ASKED, "nodes": [f"{ROLE}teams/web/nodes"], "windowsNodes": [f"{ROLE}teams/web/nodes"]})

    install_manifests.map_roles(kube, asked)

    own = [each for each in read_mappings(stored(kube)["data"]["mapRoles"]) if each["rolearn"] == f"{ROLE}nodes"]
    assert [each["groups"] for each in own] == [
        ["system:bootstrappers", "system:nodes", "eks:kube-proxy-windows"],
    ]


def test_an_entry_of_others_without_the_group_of_windows_nodes_is_reported_with_what_to_write() -> None:
    existing = (
        f"- rolearn: {ROLE}nodes\n  username: system:node:{{{{EC2PrivateDNSName}}}}\n"
        "  groups: [system:nodes, system:bootstrappers]\n"
    )
    kube = FakeKube([config_map(existing)])

    with pytest.raises(MappingRefused, match="the groups system:bootstrappers, system:nodes, eks:kube-proxy-windows"):
        install_manifests.map_roles(kube, json.dumps({**ASKED, "windowsNodes": [f"{ROLE}nodes"]}))

    assert stored(kube)["data"]["mapRoles"] == existing


def test_an_entry_with_which_nodes_could_not_join_is_reported_with_what_to_write() -> None:
    kube = FakeKube([config_map(f"- rolearn: {ROLE}nodes\n  username: worker\n  groups: [system:nodes]\n")])

    with pytest.raises(MappingRefused) as refusal:
        install_manifests.map_roles(kube, MAPPINGS)

    assert str(refusal.value) == (
        f"ConfigMap kube-system/aws-auth, mapRoles: the entry of {ROLE}nodes has username 'worker' and groups "
        "['system:nodes']; nodes with this role could not join: write username 'system:node:{{EC2PrivateDNSName}}' and "
        "the groups system:bootstrappers, system:nodes, or name another role in nodeRoles.names"
    )
    assert stored(kube)["data"]["mapRoles"].startswith(f"- rolearn: {ROLE}nodes\n  username: worker")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("- rolearn: [", "it is not YAML: "),
        ("rolearn: x\n", "it is a dict, not a list"),
        ("- username: x\n", "entry 1 has no rolearn"),
        ("--- \n- rolearn: a\n...\n", "it is written in a way that cannot be edited without a change of other entries"),
    ],
)
def test_a_content_that_cannot_be_read_or_edited_is_reported_and_stays(text: str, cause: str) -> None:
    kube = FakeKube([config_map(text)])

    with pytest.raises(MappingRefused) as refusal:
        install_manifests.map_roles(kube, MAPPINGS)

    assert str(refusal.value).startswith(f"ConfigMap kube-system/aws-auth, mapRoles: {cause}")
    assert "kubectl -n kube-system edit configmap aws-auth" in str(refusal.value)
    assert stored(kube)["data"]["mapRoles"] == text


def test_what_another_program_writes_at_the_same_time_is_not_lost() -> None:
    kube = FakeKube([config_map(FOREIGN)])
    added = '- {rolearn: "arn:aws:iam::123456789012:role/late", username: late, groups: []}\n'

    def late(method: str, _path: str, answer: Any) -> Manifest:
        found: Manifest = answer()
        if method == "GET":  # another program writes right after this read, once
            kube.fault = None
            kube.put(config_map(FOREIGN + added))
        return found

    kube.fault = late
    install_manifests.map_roles(kube, MAPPINGS)

    assert stored(kube)["data"]["mapRoles"] == FOREIGN + added + OURS
    assert [each.split()[0] for each in kube.asked] == ["GET", "PATCH", "GET", "PATCH"]


def test_a_conflict_that_never_ends_is_raised() -> None:
    kube = FakeKube([config_map(FOREIGN)])

    def busy(method: str, _path: str, answer: Any) -> Manifest:
        if method == "PATCH":
            raise Conflict("the object has been modified", status=409)
        found: Manifest = answer()
        return found

    kube.fault = busy
    with pytest.raises(Conflict):
        install_manifests.map_roles(kube, MAPPINGS)


def test_a_role_that_was_renamed_loses_its_entry_but_former_node_roles_keep_theirs() -> None:
    kube = FakeKube([config_map("")])
    install_manifests.map_roles(kube, MAPPINGS)
    changed = {**ASKED, "functions": [{"role": f"{ROLE}sweep-2", "groups": []}], "nodes": [f"{ROLE}nodes-2"]}

    install_manifests.map_roles(kube, json.dumps(changed))

    names = [each["rolearn"].rpartition("/")[2] for each in read_mappings(stored(kube)["data"]["mapRoles"])]
    assert names == ["joiner-installer-prod-eu-west-1", "nodes", "sweep-2", "nodes-2"]
    install_manifests.unmap_roles(kube, json.dumps(changed))
    assert [each["rolearn"] for each in read_mappings(stored(kube)["data"]["mapRoles"])] == [f"{ROLE}nodes-2"]


def test_an_installer_that_nobody_admitted_fails_with_the_command_that_admits_it() -> None:
    def refuse(_method: str, _path: str, _answer: Any) -> Manifest:
        raise Unauthorized("Unauthorized", status=401)

    times = iter([0.0, 1000.0])
    clock = install_manifests.Clock(now=lambda: next(times), sleep=lambda _: None)

    with pytest.raises(install_manifests.NotAdmitted) as refusal:
        install_manifests.await_access(FakeKube(fault=refuse), clock, MAPPINGS)

    assert f"the cluster does not know {ROLE}joiner-installer-prod-eu-west-1 as an administrator" in str(refusal.value)
    assert "joiner admit-installer --cluster NAME --region REGION" in str(refusal.value)


def test_a_list_in_flow_style_stays_one() -> None:
    text = '[{"rolearn":"arn:aws:iam::1:role/a","username":"a","groups":[]}]'
    mapping = RoleMapping("arn:aws:iam::1:role/b", "b", ("g",))

    added = edit_mappings(text, add=[mapping], remove=[])

    assert json.loads(added) == [*json.loads(text), mapping.entry()]
    assert json.loads(edit_mappings(added, add=[], remove=["arn:aws:iam::1:role/B"])) == json.loads(text)


NAMES = st.sampled_from("abcdef")
ENTRIES = st.lists(NAMES, unique=True, max_size=5).map(
    lambda names: [{"rolearn": f"{ROLE}{name}", "username": name, "groups": [name, "x"]} for name in names]
)


@given(
    entries=ENTRIES, add=st.lists(NAMES, unique=True), remove=st.sets(NAMES), flow=st.booleans(), indent=st.booleans()
)
def test_an_edit_changes_exactly_the_entries_that_are_named(
    entries: list[dict[str, Any]], add: list[str], remove: set[str], flow: bool, indent: bool
) -> None:
    text = yaml.safe_dump(entries, default_flow_style=flow)
    if indent and not flow and entries:
        text = "".join(f"  {line}\n  # a comment\n" for line in text.splitlines())
    mappings = [RoleMapping(f"{ROLE}new-{name}", name, ()) for name in add]

    edited = edit_mappings(text, add=mappings, remove=[f"{ROLE}{name}" for name in remove])

    kept = [each for each in entries if each["username"] not in remove]
    assert read_mappings(edited) == [*kept, *(each.entry() for each in mappings)]


@given(text=st.text(alphabet="- :[]{}\n#rolearn'\"&*|>", max_size=60))
def test_any_text_is_edited_exactly_or_refused(text: str) -> None:
    mapping = RoleMapping(f"{ROLE}new", "new", ("g",))
    try:
        before = read_mappings(text)
        edited = edit_mappings(text, add=[mapping], remove=[])
    except UnreadableMappings:
        return
    assert read_mappings(edited) == [*before, mapping.entry()]


def test_admitting_the_installer_removes_nothing() -> None:
    mapped = aws_auth.map_roles(MappedRoles(OURS, frozenset({f"{ROLE}sweep"})), [], [], keep=True)

    assert mapped == MappedRoles(OURS, frozenset({f"{ROLE}sweep"}))


def test_an_entry_whose_role_a_user_removes_from_the_annotation_is_kept() -> None:
    kube = FakeKube([config_map(FOREIGN)])
    install_manifests.map_roles(kube, MAPPINGS)
    annotations = stored(kube)["metadata"]["annotations"]
    others = [each for each in annotations[MAPPED_ROLES].split(",") if each != f"{ROLE}nodes"]
    annotations[MAPPED_ROLES] = ",".join(others)

    install_manifests.map_roles(kube, MAPPINGS)
    install_manifests.unmap_roles(kube, MAPPINGS)

    mapped = [each["rolearn"] for each in read_mappings(stored(kube)["data"]["mapRoles"])]
    assert f"{ROLE}nodes" in mapped and f"{ROLE}sweep" not in mapped

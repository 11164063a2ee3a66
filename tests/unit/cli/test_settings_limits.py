"""`joiner plan --settings`: the limits that the settings of a cluster set hold in a plan from files, too."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.command_runs import deployment, joiner, node_class, pod, pool, write

ALLOWED = "joiner-node-prod-us-east-1"  # the node role of the settings
KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ENCRYPTED = {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": True, "kmsKeyID": KEY}
OWN_IMAGES = {"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "mine-*", "owner": "self"}]}


def settings(folder: Path, **more: Any) -> Path:
    path = folder / "settings.yaml"
    content = {"cluster": "prod", "region": "us-east-1", "account": "123456789012", **more}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
    return path


def test_the_ceiling_of_nodes_holds(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), deployment("web", 4, cpu="12"))
    limited = settings(tmp_path, ceilings={"nodes": 2})

    plans = [joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json", *more) for more in
             ([], ["--settings", limited])]  # fmt: skip

    assert [(one.exit_code, len(one.json["nodes"])) for one in plans] == [(0, 4), (2, 2)]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"role": "admin"}, "spec.role: nodes may not have the role admin; the settings (nodeRoles) name"),
        (
            {"amiFamily": "AL2023", "amiSelectorTerms": [{"name": "x", "owner": "111122223333"}]},
            "spec.amiSelectorTerms[0].owner: nodes may not boot images of 111122223333",
        ),
        (
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ENCRYPTED}]},
            f"spec.blockDeviceMappings[0].ebs.kmsKeyID: {KEY}: the settings' kmsKeys name none",
        ),
    ],
    ids=["role", "image owner", "key"],
)
def test_what_node_classes_may_name_is_limited(spec: dict[str, Any], why: str, tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), node_class(**{"role": ALLOWED, **spec}), pod("a"))
    arguments = ("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    without, limited = joiner(*arguments), joiner(*arguments, "--settings", settings(tmp_path))

    assert (without.exit_code, limited.exit_code) == (0, 2)
    reason = limited.json["pending"][0]["reasons"][0]["reason"]
    assert reason.startswith(f"its class EC2NodeClass/default is not ready: {why}")


@pytest.mark.parametrize(
    ("spec", "limits", "outcome"),
    [
        ({"subnetSelectorTerms": [{"tags": {"Name": "prod-*"}}]}, {}, (0, "Name = prod-* (nodeClasses.subnets)")),
        ({"subnetSelectorTerms": [{"tags": {"Name": "prod-?"}}]}, {}, (0, "Name = prod-? (nodeClasses.subnets)")),
        ({"subnetSelectorTerms": [{"tags": {"Name": "test-*"}}]}, {}, (2, "")),
        ({"subnetSelectorTerms": [{"tags": {"Name": r"prod-\*"}}]}, {}, (2, "")),
        ({"subnetSelectorTerms": [{"tags": {"Name": "prod-a"}}]}, {}, (0, "")),
        (OWN_IMAGES, {"imageOwners": ["111122223333"], "account": None}, (0, "self (imageOwners)")),
        (OWN_IMAGES, {"imageOwners": ["111122223333"]}, (2, "")),
        (OWN_IMAGES, {"imageOwners": ["amazon"], "account": None}, (2, "")),
    ],
)
def test_what_only_the_account_shows_is_not_refused(
    spec: dict[str, Any], limits: dict[str, Any], outcome: tuple[int, str], tmp_path: Path, catalogue: Path
) -> None:
    subnets = {"subnetSelectorTerms": [{"tags": {"Name": "prod-a"}}]}
    groups = {"securityGroupSelectorTerms": [{"tags": {"Name": "prod-a"}}]}
    files = write(tmp_path, pool(), node_class(**{"role": ALLOWED, **subnets, **groups, **spec}), pod("a"))
    allowed = {"tags": {"Name": "prod-a"}}
    given = settings(tmp_path, nodeClasses={"subnets": allowed, "securityGroups": allowed}, **limits)

    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "--settings", given)

    noted = [line for line in answer.err.splitlines() if "whether" in line and "is not checked" in line]
    assert (answer.exit_code, len(noted)) == (outcome[0], bool(outcome[1]))
    assert all(f"whether tag {outcome[1]} is allowed" in line or f"whether {outcome[1]} is" in line for line in noted)


def test_a_launch_template_needs_the_setting_that_allows_it(tmp_path: Path, catalogue: Path) -> None:
    manifest = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": "old"},
        "spec": {"provider": {"launchTemplate": "mine"}},
    }
    arguments = ("plan", "-f", write(tmp_path, manifest, pod("a")), "--catalogue", catalogue, "-o", "json")

    without = joiner(*arguments)
    limited = joiner(*arguments, "--settings", settings(tmp_path))
    allowing = settings(tmp_path, nodeClasses={"launchTemplates": {"tags": {"team": "ml"}}})
    allowed = joiner(*arguments, "--settings", allowing)

    assert [each.exit_code for each in (without, limited, allowed)] == [0, 2, 0]
    assert any(
        "mine (nodeClasses.launchTemplates) is not checked" in each["message"] for each in without.json["problems"]
    )
    reason = limited.json["pending"][0]["reasons"][0]["reason"]
    assert "the settings allow no launch template" in reason
    assert "nodeClasses.launchTemplates in clusters/NAME.yaml" in reason


def test_the_settings_hold_for_classes_that_no_pool_names(tmp_path: Path, catalogue: Path) -> None:
    spare = {**node_class(role="admin"), "metadata": {"name": "spare"}}
    template = {
        "apiVersion": "karpenter.k8s.aws/v1alpha1",
        "kind": "AWSNodeTemplate",
        "metadata": {"name": "old"},
        "spec": {"launchTemplate": "mine", "subnetSelector": {"a": "b"}},
    }
    files = write(tmp_path, pool(), node_class(role=ALLOWED), spare, template, pod("a"))

    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "--settings", settings(tmp_path))

    assert answer.exit_code == 0
    assert "EC2NodeClass/spare: spec.role: nodes may not have the role admin" in answer.err
    assert "AWSNodeTemplate/old: " in answer.err and "the settings allow no launch template" in answer.err


def test_the_default_constraints_of_the_scheduler_hold(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), deployment("web", 3))
    hosts = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    limited = settings(tmp_path, planning={"defaultTopologySpreadConstraints": [hosts]})

    plans = [joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json", *more) for more in
             ([], ["--settings", limited])]  # fmt: skip

    assert [(one.exit_code, len(one.json["nodes"])) for one in plans] == [(0, 1), (0, 3)]


def test_the_remedy_for_default_constraints_is_to_write_own_ones(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), deployment("web", 2, nodeSelector={"topology.kubernetes.io/zone": "us-east-1a"}))
    zones = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    limited = settings(tmp_path, planning={"defaultTopologySpreadConstraints": [{**zones, "minDomains": 3}]})

    answer = joiner("explain", "pod", "shop/web-1", "-f", files, "--catalogue", catalogue, "--settings", limited)

    assert (
        "give it topologySpreadConstraints with ScheduleAnyway, in place of the scheduler's default ones" in answer.out
    )


def test_invalid_settings_are_an_error_with_the_field(tmp_path: Path, catalogue: Path) -> None:
    wrong = settings(tmp_path, ceilings={"nodse": 2})
    answer = joiner("plan", "-f", write(tmp_path, pool()), "--catalogue", catalogue, "--settings", wrong)

    assert answer.exit_code == 1
    assert "ceilings.nodse" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\xff", "this is not text in UTF-8: invalid start byte at byte 4"),
        (b"[" * 5_000 + b"]" * 5_000, "lists or mappings are nested too deeply"),
        (b"region: [eu", "this is not YAML: expected ',' or ']', but got the end of the file in line 1, column 12"),
        (b"region: [", "but found the end of the file in line 1, column 10: close each bracket and quotation mark, or"),
        (b"a: b: c", "in line 1, column 5: write keys and values, one a line, and texts with special characters in"),
        (b"tags: &a {x: y}\nother: *a\n", "aliases (*NAME) are not supported"),
        (b"cluster: prod\n---\nkind: Pod\n", "a second document begins in line 2: settings are one document; is this"),
        (None, "there is no such file"),
    ],
    ids=["binary", "nested", "no YAML", "no value", "two colons", "an alias", "manifests", "missing"],
)
def test_settings_that_cannot_be_read_are_one_line_that_names_the_file_once(
    content: bytes | None, message: str, tmp_path: Path, catalogue: Path
) -> None:
    path = tmp_path / "prod.yaml"
    if content is not None:
        path.write_bytes(content)

    answer = joiner("plan", "-f", write(tmp_path, pool()), "--catalogue", catalogue, "--settings", path)

    (line,) = [line for line in answer.err.splitlines() if "prod.yaml" in line]
    assert answer.exit_code == 1
    assert message in line
    assert line.count(str(path)) == 1


def test_each_mistake_of_the_settings_has_its_own_line(tmp_path: Path, catalogue: Path) -> None:
    wrong = settings(
        tmp_path,
        ceilings={"pricePerHuor": 3, "nodes": -1},
        nodeRoles="nodes",
        batching={"idleSeconds": 9, "longestSeconds": 2},
    )

    answer = joiner("plan", "-f", write(tmp_path, pool()), "--catalogue", catalogue, "--settings", wrong)

    assert (answer.exit_code, answer.out) == (1, "")
    assert sorted(answer.err.splitlines()) == [
        f"joiner: {wrong}: batching.idleSeconds is 9: no batch is longer than batching.longestSeconds, 2: write at "
        "most that",
        f"joiner: {wrong}: ceilings.nodes is -1: write a number between 0 and 5000",
        f"joiner: {wrong}: ceilings.pricePerHuor is not a setting: did you mean pricePerHour?",
        f"joiner: {wrong}: nodeRoles is 'nodes': write keys and values, one a line",
    ]


def test_what_only_the_account_shows_is_one_note(tmp_path: Path, catalogue: Path) -> None:
    tags = [{"tags": {"karpenter.sh/discovery": "prod"}}]
    terms = {"subnetSelectorTerms": [{"id": "subnet-0123456789abcdef0"}], "securityGroupSelectorTerms": tags}
    given = settings(tmp_path, planning={"spotPlacementScores": True})
    files = write(tmp_path, pool(), node_class(role=ALLOWED, **terms), pod("a"))

    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "--settings", given)

    assert [line for line in answer.err.splitlines() if "note: settings" in line] == [
        "joiner: note: settings: whether subnet-0123456789abcdef0 (nodeClasses.subnets) is allowed is not checked, "
        "because only the account shows tags, owners and roles; planning.spotPlacementScores changes nothing here: the "
        "refresh of a deployed catalogue uses it (--catalogue)"
    ]
    assert answer.exit_code == 0


def test_notes_about_several_resources_and_settings_are_plural(tmp_path: Path, catalogue: Path) -> None:
    tags = [{"tags": {"karpenter.sh/discovery": "prod"}}]
    subnets = [{"id": f"subnet-0123456789abcdef{number}"} for number in range(2)]
    given = settings(tmp_path, planning={"spotPlacementScores": True}, commitments={"fromAccount": True})
    files = write(
        tmp_path, pool(), node_class(role=ALLOWED, subnetSelectorTerms=subnets, securityGroupSelectorTerms=tags)
    )

    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "--settings", given)

    assert "subnet-0123456789abcdef1 (nodeClasses.subnets) are allowed is not checked" in answer.err
    assert "commitments.fromAccount and planning.spotPlacementScores change nothing here" in answer.err
    assert "the refresh of a deployed catalogue uses them (--catalogue)" in answer.err


def test_input_of_another_region_than_the_catalogue_is_reported(tmp_path: Path, catalogue: Path) -> None:
    zone = {"labels": {"topology.kubernetes.io/zone": "eu-west-1a"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", **zone}}
    there = node_class({"subnets": [{"id": "subnet-1", "zone": "eu-central-1b"}]}, role=ALLOWED)
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({"cluster": "prod", "region": "ap-south-1"}))

    files = write(tmp_path, pool(), there, node)
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "--settings", other, "-o", "json")
    same = joiner("plan", "-f", write(tmp_path, pool()), "--catalogue", catalogue, "--settings", settings(tmp_path))

    described = "the catalogue has us-east-1, so that types, zones and prices of this plan are those of another region"
    assert [one["object"] for one in answer.json["problems"] if described in one["message"]] == [
        "settings",
        "Node/n",
        "EC2NodeClass/default",
    ]
    assert "region is ap-south-1" in answer.err
    assert "give the catalogue of ap-south-1 with --catalogue FILE" in answer.err
    assert described not in same.err

"""`joiner plan` reports invalid objects and unreadable files, and plans everything else."""

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.command_runs import AMD64, deployment, joiner, pod, pool, write


def test_one_broken_pool_is_reported_and_everything_else_is_planned(tmp_path: Path, catalogue: Path) -> None:
    broken = pool("broken", requirements=[{**AMD64, "operator": "Inn"}])
    files = write(tmp_path, broken, pool(), pod("a"), pod("b", cpu="one"), deployment("web", 2))
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert answer.exit_code == 1
    assert [
        (one["object"], one["field"], one["value"]) for one in answer.json["problems"] if one["severity"] == "error"
    ] == [
        ("NodePool/broken", "spec.template.spec.requirements[0].operator", "Inn"),
        ("Pod/default/b", "spec.containers[0].resources.requests[cpu]", "one"),
    ]
    assert [(node["nodePool"], node["pods"]) for node in answer.json["nodes"]] == [
        ("default", ["default/a", "shop/web-0", "shop/web-1"])
    ]
    assert answer.json["pending"] == []
    assert "joiner: the plan is without 2 invalid objects\n" in answer.err
    assert joiner("plan", "-f", files, "--catalogue", catalogue).out.startswith("1 new node for 3 pods.\n")


def test_a_truncated_file_does_not_affect_the_others(tmp_path: Path, catalogue: Path) -> None:
    write(tmp_path, pool(), pod("a"))
    (tmp_path / "torn.yaml").write_text(f"{yaml.safe_dump(pod('before'))}---\na: [")
    answer = joiner("plan", "-f", tmp_path, "--catalogue", catalogue, "-o", "json")

    assert (answer.exit_code, [node["pods"] for node in answer.json["nodes"]]) == (1, [["default/a", "default/before"]])
    assert "joiner: the plan is without the unreadable parts of 1 file\n" in answer.err


def test_a_mistake_in_one_document_does_not_affect_the_others_of_its_file(tmp_path: Path, catalogue: Path) -> None:
    twice, alias = yaml.safe_dump(pod("x")) + "kind: Pod\n", yaml.safe_dump(pod("y")) + "extra: *y\n"
    files = write(tmp_path, pod("a"), twice, pool(), alias, pod("b"))
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert (answer.exit_code, [node["pods"] for node in answer.json["nodes"]]) == (1, [["default/a", "default/b"]])
    lines = answer.err.splitlines()
    places = [
        number for number, line in enumerate(files.read_text().splitlines(), 1) if line in ("kind: Pod", "extra: *y")
    ]
    assert lines[0].startswith(f"joiner: {files}, line {places[1]}: the key 'kind' is duplicated in one mapping: write")
    assert lines[1].startswith(
        f"joiner: {files}, line {places[-1]}: *y is an alias that nothing defines: put the value"
    )
    assert "joiner: the plan is without the unreadable parts of 1 file" in lines


def test_an_object_with_two_definitions_is_left_out(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, pool(), pod("a"), pod("twice"), pod("same"), pod("same"), pod("twice", cpu="2"))
    answer = joiner("plan", "-f", files, "--catalogue", catalogue, "-o", "json")

    assert (answer.exit_code, [node["pods"] for node in answer.json["nodes"]]) == (1, [["default/a", "default/same"]])
    assert (
        f"Pod/default/twice: metadata.name is twice: another document defines it differently ({files}, document 6)"
        in answer.err
    )


def test_refusals_are_in_the_json_too(tmp_path: Path, catalogue: Path) -> None:
    answer = joiner("plan", "-f", write(tmp_path, pool(), pod("a", cpu="one")), "--catalogue", catalogue, "-o", "json")

    assert answer.exit_code == 1
    assert answer.json["nodes"] == []
    assert [(one["object"], one["field"]) for one in answer.json["problems"] if one["severity"] == "error"] == [
        ("Pod/default/a", "spec.containers[0].resources.requests[cpu]")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-f", "nowhere.yaml"],
            "joiner: nowhere.yaml: No such file or directory: name a file or folder that can be read\n",
        ),
        (
            ["-f", "-", "--region", "eu-west-1"],
            "joiner: --region eu-west-1: only the catalogue of us-east-1 is packaged: give one of the region",
        ),
        (
            ["-f", "-", "--catalogue", "nowhere.json"],
            "joiner: nowhere.json: No such file or directory: name a file that `joiner catalogue",
        ),
    ],
)
def test_an_unreadable_file_is_reported_in_one_sentence(arguments: list[str], message: str) -> None:
    answer = joiner("plan", *arguments)

    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err.startswith(message)


def test_an_unreadable_file_does_not_hide_problems_of_the_others(tmp_path: Path, catalogue: Path) -> None:
    write(tmp_path, pool(), pod("a", cpu="one"))
    (tmp_path / "torn.yaml").write_text("a: [")
    answer = joiner("plan", "-f", tmp_path, "-f", tmp_path / "nowhere.yaml", "--catalogue", catalogue)

    assert (answer.exit_code, answer.out) == (1, "")
    assert [line.removeprefix(f"joiner: {tmp_path}/").partition(":")[0] for line in answer.err.splitlines()][:3] == [
        "manifests.yaml, document 2",
        "torn.yaml, line 1",
        "nowhere.yaml",
    ]
    message = "there is nothing to plan without 1 invalid object and the unreadable parts of 2 files"
    assert f"joiner: {message}\n" in answer.err


def test_an_input_without_manifests_is_an_error(tmp_path: Path, catalogue: Path) -> None:
    files = write(tmp_path, "# nothing yet")
    answer = joiner("plan", "-f", files, "--catalogue", catalogue)

    assert (answer.exit_code, answer.out) == (1, "")
    assert answer.err.startswith(
        f"joiner: {files}: it holds no manifests: write manifests in it, or leave it out\n"
        "joiner: there is nothing to plan\n"
    )
    assert "read no objects in" in answer.err
    assert joiner("plan", "-f", "-", "--catalogue", catalogue, "-o", "json").json["problems"][0]["object"] == "stdin"
    assert joiner("explain", "pod", "a", "-f", files, "--catalogue", catalogue).exit_code == 1


def test_what_is_not_there_has_no_unreadable_parts(tmp_path: Path, catalogue: Path) -> None:
    (tmp_path / "empty").mkdir()
    torn = tmp_path / "torn.yaml"
    torn.write_text("a: [")

    for absent in (tmp_path / "empty", tmp_path / "nowhere.yaml"):
        answer = joiner("plan", "-f", absent, "--catalogue", catalogue)
        assert (answer.exit_code, "joiner: there is nothing to plan\n" in answer.err) == (1, True)
    answer = joiner("plan", "-f", torn, "--catalogue", catalogue)
    assert "there is nothing to plan without the unreadable parts of 1 file\n" in answer.err


def test_a_plan_of_valid_manifests_beside_a_missing_file_says_what_it_is_without(
    tmp_path: Path, catalogue: Path
) -> None:
    valid = write(tmp_path, pool(), pod("p"))

    answer = joiner("plan", "-f", valid, "-f", tmp_path / "nowhere.yaml", "--catalogue", catalogue)

    assert answer.exit_code == 1
    assert "joiner: the plan is without the unreadable parts of 1 file\n" in answer.err


def test_an_empty_file_beside_others_and_an_empty_list_are_notes(tmp_path: Path, catalogue: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n---\n")
    answer = joiner("plan", "-f", write(tmp_path, pod("a")).parent, "--catalogue", catalogue)

    assert answer.exit_code == 2
    assert f"joiner: note: {tmp_path}/empty.yaml: it holds no manifests\n" in answer.err
    assert "read 1 Pod in" in answer.err

    answer = joiner("plan", "-f", "-", "--catalogue", catalogue, stdin="apiVersion: v1\nkind: List\nitems: []\n")
    assert (answer.exit_code, answer.out) == (0, "No pods are pending: nothing to do.\n")
    assert "read no objects in" in answer.err

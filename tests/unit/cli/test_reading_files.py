"""Files and YAML documents are read as kubectl reads them; what cannot be read is reported with its place."""

import json
from pathlib import Path

import pytest
import yaml

from joiner_cli.manifests import read_documents, read_manifest_set
from tests.unit.cli.command_runs import pod
from tests.unit.cli.manifest_reading import GOOD, of_yaml, read_objects, refusals


def test_the_same_object_twice_is_read_once_and_two_different_ones_are_refused() -> None:
    assert len(read_objects(pod("a"), pod("a")).snapshot.pods) == 1
    assert "another document defines it differently (file.json)" in refusals(pod("a"), pod("a", cpu="2"))[0]


def test_yaml_is_read_as_kubectl_reads_it() -> None:
    text = yaml.safe_dump(pod("a", nodeSelector={"tier": "x"})).replace("tier: x", "tier: on")
    assert [str(one) for one in of_yaml(text).errors] == [
        'Pod/default/a: spec.nodeSelector[tier] is on: put it in quotes: "on"; without quotes, it means true'
    ]

    text = text.replace("tier: on", "tier: 12:30")
    assert "a label value has up to 63" in str(of_yaml(text).errors[0])  # a text, and not 750 seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "file.yaml, line 1: a value is missing after [, { or ',': close the bracket, or write the value"),
        ("a: 1\na: 2\n", "file.yaml, line 2: the key 'a' is duplicated in one mapping: keep one of them"),
        ("a: &a [*a]\n", "an alias (*) contains itself: write the values instead of the alias"),
        (
            "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]),
            "its aliases (*) expand to more than 5,000,000 values in a7: write the values instead of aliases",
        ),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("[" * 100_000, "nested too deeply"),
        ("kind: List\napiVersion: v1\nitems: {a: b}\n", "file.yaml: its items are no list: write items: [...]"),
        ("name: {{ .Release.Name }}\n", "it looks like a template: render it first, with `helm template` or the like"),
        ("a: 1\nb: [1, 2\nc: 3\nd: 4\n", "line 2: the [ is not closed, or a ',' is missing between its entries"),
        ('{"a": 1,\n "b": {"c": 2\n', "line 2: the { is not closed"),
        ('a: 1\nb: "c\nd: 3\n', "line 2: the quotation mark is not closed"),
        ("a: 1\nmetadata\n  b: 2\n", "line 2: there is no ':' after this key"),
        ("a: 1\n----\nb: 2\n", "line 2: ---- is no separator of documents: write exactly three dashes: ---"),
        (
            "apiVersion: v1\nkind: Pod\napiVersion: v1\n",
            "line 3: the key 'apiVersion' is duplicated in one mapping: write a line --- between two objects",
        ),
        ("a:\n    b: 1\n  c: 2\n", "line 3: it does not continue the mapping that begins in line 1"),
        ("a: 1\n\tb: 2\n", "line 2: a tab indents the line: indent with spaces"),
        ("a: 1\nhost: *.example.com\n", "line 2: *.example.com is an alias that nothing defines: put the value in"),
        ("a: 1\nb: @c\n", "line 2: a value cannot begin with @: put the value in quotes"),
        ("a: 1\nb: \x01\n", "line 2: the control character U+0001 is not allowed"),
        ("a: 1\nb: c: d\n", "line 2: a key is not allowed at this place: put the value in quotes if it has a ': '"),
        ("a: 1\r\nb: [\r\nc: 1\r\n", "line 2: the [ is not closed"),
    ],
    ids=[
        *("torn", "twice", "cycle", "bomb", "python", "deep", "items", "template"),
        *("bracket", "brace", "quotation", "colon", "no separator", "joined", "indentation", "tab", "alias", "at sign"),
        *("control", "second colon", "Windows"),
    ],
)
def test_an_unreadable_document_is_reported_with_its_place(text: str, problem: str) -> None:
    found = of_yaml(text)

    assert [one for one in found.errors if problem in str(one)]
    assert len(found.unreadable) == 1


@pytest.mark.parametrize("digits", ["9" * 5000, "0x" + "9" * 5000])
def test_a_number_with_thousands_of_digits_is_refused_with_its_object_and_field(digits: str) -> None:
    text = yaml.safe_dump(pod("a", cpu="half")).replace("half", digits)

    assert [str(one).replace(digits[:79], "DIGITS") for one in of_yaml(text).errors] == [
        "Pod/default/a: spec.containers[0].resources.requests[cpu] is DIGITS…: write a Kubernetes quantity such as "
        "500m, 2 or 4Gi"
    ]


def test_documents_before_a_syntax_error_are_read_and_both_are_reported() -> None:
    found = of_yaml(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: B}\nspec: {containers: [{name: a, image: b}]}\n---\na: [\n"
    )

    assert [str(one) for one in found.errors] == [
        "Pod/default/B: metadata.name is B: use up to 253 lowercase letters, digits, - and ., each part beginning and "
        "ending with a letter "
        "or digit",
        "file.yaml, line 6: a value is missing after [, { or ',': close the bracket, or write the value",
    ]


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: a, image: b}]}\n"


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("a: 1\na: 2\n", 7),
        ("a: *b\n", 6),
        ("a: [\n", 6),
        ("a: 'b\n", 6),
        ("a:\n    b: 1\n  c: 2\n", 8),
        ("a: |\n  ---\nb: @c\n", 8),
        ("a: &a [*a]\n", 6),
        (f"a: {'[' * 300}\n", 6),
        ("a: \x01\n", 6),
        ("\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)), ""]), 5),
        ("\n# c\n\na: 1\na: 1\n", 10),
    ],
    ids=[
        "twice",
        "alias",
        "bracket",
        "quotation",
        "indentation",
        "block",
        "cycle",
        "deep",
        "control",
        "bomb",
        "comment",
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_documents_around_a_broken_one_are_read_and_its_line_counts_in_the_file(
    broken: str, line: int, ending: str
) -> None:
    text = f"{POD.replace('NAME', 'a')}---\n{broken}--- # next\n{POD.replace('NAME', 'b')}"
    found = of_yaml(text.replace("\n", ending))

    assert [one.name for one in found.snapshot.pods] == ["a", "b"]
    assert [str(one).partition(":")[0] for one in found.errors] == [f"file.yaml, line {line}"]
    assert (found.where["Pod/default/a"], found.where["Pod/default/b"]) == (
        "file.yaml, document 1",
        "file.yaml, document 3",
    )


def test_several_broken_documents_of_one_file_are_reported_in_their_order() -> None:
    text = f"a: 1\na: 2\n---\n{POD.replace('NAME', 'B')}...\n%YAML 1.1\n# c\n---\n{POD.replace('NAME', 'c')}---\nb: [\n"
    found = of_yaml(f"{text}---\nname: {{{{ .Release.Name }}}}\n")

    assert [str(one).split(": ")[0] for one in found.errors] == [
        "file.yaml, line 2",
        "Pod/default/B",
        "file.yaml, line 17",
        "file.yaml, line 19",
    ]
    assert [one.name for one in found.snapshot.pods] == ["c"]
    assert ["helm template" in str(one) for one in found.errors] == [False, False, False, True]
    assert set(found.unreadable.values()) == {"file.yaml"}


def test_every_file_is_read_and_every_unreadable_one_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.json").write_bytes(b"\xff")
    (tmp_path / "c.yaml").write_text(json.dumps(pod("C")))
    found = read_manifest_set(read_documents([str(tmp_path), str(tmp_path / "nowhere.yaml"), str(GOOD)]))

    assert [str(one).removeprefix(f"{tmp_path}/").partition(":")[0] for one in found.errors] == [
        "a.yaml, line 1",
        "b.json",
        "Pod/default/C",
        "nowhere.yaml",
    ]
    assert len(found.unreadable) == 3


def test_an_unknown_kind_is_reported_with_its_file() -> None:
    assert read_objects({"apiVersion": "v1", "kind": "pod", "metadata": {"name": "a"}}).where == {"pod/a": "file.json"}


def test_a_document_that_is_not_an_object_is_reported_with_its_place() -> None:
    assert [str(one) for one in of_yaml("- a\n").errors] == [
        "file.yaml: it is [a]: write an object here, with apiVersion, kind, metadata and spec"
    ]
    assert [str(one) for one in of_yaml("").errors] == [
        "file.yaml: it holds no manifests: write manifests in it, or leave it out"
    ]
    assert [str(one) for one in of_yaml("[{kind: Pod}, {kind: Pod}]").errors] == [
        "file.yaml: it is [{kind: Pod}, {kind: Pod}]: write it as {apiVersion: v1, kind: List, items: [...]}, "
        "or write each object as a separate document, with --- between them"
    ]
    assert [str(one) for one in of_yaml("kind: Pod\n").errors] == [
        "file.yaml: apiVersion: it is missing: write apiVersion: v1, or remove this document"
    ]
    assert [str(one) for one in of_yaml("{apiVersion: v1, metadata: {name: a}}").errors] == [
        "a: kind: it is missing: set the kind of the object, or remove this document"
    ]


@pytest.mark.parametrize("items", ["", "items: null", "items: []"])
def test_a_list_without_items_has_no_objects(items: str) -> None:
    assert of_yaml(f"kind: List\napiVersion: v1\n{items}\n").errors == ()

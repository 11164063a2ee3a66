"""The Python that the deployed functions run on, from the settings and from the versions on this machine."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from joiner_local.aws.aws_lambda.function_settings import RUNTIMES
from joiner_local.tooling.command_progress import Say, StepFailed
from joiner_local.tooling.function_python import (
    VERSIONS,
    FunctionPython,
    find,
    make_ready,
    named_in,
    of_assembly,
)

OWN = "{}.{}.{}".format(*sys.version_info[:3])


@dataclass
class FakePythons:
    """A machine with these versions; for some of them pip cannot install Lambda's runtime client."""

    versions: tuple[str, ...]
    broken: tuple[str, ...] = ()

    def interpreter(self, version: str) -> Path | None:
        return next((Path(f"/opt/python{each}") for each in self.versions if each.startswith(f"{version}.")), None)

    def full_version(self, python: Path) -> str:
        return python.name.removeprefix("python")

    def find_or_make(self, say: Say, version: str = "") -> Path | None:
        say(f"making {version}")
        if version in self.broken:
            raise StepFailed("pip: no compiler\nand more")
        return self.interpreter(version)

    made = interpreter


@pytest.mark.parametrize(
    ("settings", "named"),
    [("cluster: a", "host"), ("runtime: {python: host}", "host"), ('runtime: {python: "3.13"}', "3.13")],
)
def test_the_settings_name_a_version_or_the_host(settings: str, named: str, tmp_path: Path) -> None:
    (tmp_path / "local.yaml").write_text(settings)

    assert named_in(tmp_path / "local.yaml") == named


def test_the_host_means_the_newest_python_of_the_machine_that_lambda_has() -> None:
    machine = FakePythons(("3.11.7", "3.12.1", "3.13.0", "3.15.0"))

    assert (
        make_ready("host", print, machine)
        == find("host", machine)
        == FunctionPython(Path("/opt/python3.13.0"), "3.13.0")
    )
    assert str(find("host", machine)) == "functions run on Python 3.13.0"


def test_a_version_that_the_machine_lacks_is_replaced_by_the_stacks_own_and_one_line_notes_it() -> None:
    machine = FakePythons(("3.11.7",))
    own = FunctionPython(Path(sys.executable), OWN, "this machine has no Python 3.14")

    assert make_ready("3.14", print, machine) == find("3.14", machine) == own
    assert str(own) == f"functions run on Python {OWN} (this machine has no Python 3.14)"


def test_a_python_that_cannot_play_lambdas_runtime_is_passed_over() -> None:
    machine = FakePythons(("3.12.1", "3.13.0"), broken=("3.13",))

    assert make_ready("host", print, machine).version == "3.12.1"
    assert (
        make_ready("3.13", print, machine).note
        == "Python 3.13.0 of this machine cannot run functions: pip: no compiler"
    )


def test_the_summary_of_a_deployment_names_the_python_of_its_templates(tmp_path: Path) -> None:
    for version in ("3.13", "3.14"):
        function = {"Type": "AWS::Lambda::Function", "Properties": {"Runtime": f"python{version}"}}
        (tmp_path / f"a-{version}.template.json").write_text(json.dumps({"Resources": {"F": function}}))

    summary = of_assembly(tmp_path, FakePythons(("3.13.0",)))

    assert summary == f"functions run on Python 3.13.0; functions run on Python {OWN} (no Python 3.14 was made ready)"


def test_every_version_is_one_of_lambdas() -> None:
    assert {f"python{version}" for version in VERSIONS} <= RUNTIMES

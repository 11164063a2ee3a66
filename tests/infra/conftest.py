"""Synthesised apps that the tests share, one for each settings file, without credentials and without validation."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.settings import Settings, load_settings
from tests.local.running_aws import RunningAws

ROOT = Path(__file__).parent.parent.parent

os.environ["CDK_VALIDATION"] = "false"  # two seconds each; `make check` and the test of the command line validate
# jsii reads its environment when it starts
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")


@dataclass(frozen=True)
class Synthesis:
    """A synthesised app: its template, and the folder with its assets."""

    template: Mapping[str, Any]
    folder: Path

    def resources(self, type_: str) -> dict[str, Mapping[str, Any]]:
        """Return the resources of a type, by logical id."""
        return {name: each for name, each in self.template["Resources"].items() if each["Type"] == type_}

    def one(self, type_: str, part_of_id: str) -> Mapping[str, Any]:
        """Return the one resource of a type whose logical id has this prefix."""
        found = [each for name, each in self.resources(type_).items() if name.startswith(part_of_id)]
        assert len(found) == 1, f"{len(found)} resources {type_} begin with {part_of_id}"
        return found[0]


Synthesise = Callable[[Settings], Synthesis]
States = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="session")
def synthesise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synthesise]:
    """Synthesise the app with any settings and the flags of cdk.json; the same settings once."""
    known: dict[str, Synthesis] = {}

    def once(settings: Settings) -> Synthesis:
        key = repr(settings)
        if key not in known:
            known[key] = synthesised(tmp_path_factory.mktemp("cdk.out"), settings)
        return known[key]

    yield once


def synthesised(folder: Path, settings: Settings) -> Synthesis:
    """Synthesise the app into a folder."""
    # Here, because every worker imports this file, and only those that synthesise need the seconds that the CDK takes
    import aws_cdk as cdk

    from infra.cluster_stack import ClusterStack

    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = cdk.App(context=flags, outdir=str(folder), analytics_reporting=False)
    stack = ClusterStack(app, settings)
    app.synth()
    return Synthesis(json.loads((folder / f"{stack.stack_name}.template.json").read_text()), folder)


@pytest.fixture(scope="session")
def example_settings() -> Settings:
    return load_settings(ROOT / "clusters/example.yaml")


@pytest.fixture(scope="session")
def local_settings() -> Settings:
    return load_settings(ROOT / "clusters/local.yaml")


@pytest.fixture(scope="session")
def example(synthesise: Synthesise, example_settings: Settings) -> Synthesis:
    """Return the app for a real account."""
    return synthesise(example_settings)


@pytest.fixture(scope="session")
def local(synthesise: Synthesise, local_settings: Settings) -> Synthesis:
    """Return the app for the local stack."""
    return synthesise(local_settings)


@pytest.fixture(scope="session")
def machines(example: Synthesis) -> dict[str, Mapping[str, Any]]:
    return {
        each["Properties"]["StateMachineName"]: json.loads(flat(each["Properties"]["DefinitionString"]))
        for each in example.resources("AWS::StepFunctions::StateMachine").values()
    }


@pytest.fixture(scope="session")
def scale_up(machines: Mapping[str, Mapping[str, Any]]) -> States:
    states: States = machines["joiner-scale-up-example"]["States"]
    return states


def flat(value: Any) -> Any:
    """Return a value with its intrinsic functions as text: joined parts, and references as ${Name} and
    ${Name.Attribute}."""
    match value:
        case {"Ref": str(name)}:
            text = f"${{{name}}}"
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            text = f"${{{name}.{attribute}}}"
        case {"Fn::Join": [str(between), list(parts)]}:
            text = between.join(str(flat(part)) for part in parts)
        case {"Fn::Sub": str(text)}:
            pass
        case list():
            return [flat(each) for each in value]
        case dict():
            return {key: flat(each) for key, each in value.items()}
        case _:
            return value
    return text


def graphs(machine: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield machine
    for state in machine["States"].values():
        if "ItemProcessor" in state:
            yield from graphs(state["ItemProcessor"])
        for branch in state.get("Branches", ()):
            yield from graphs(branch)


def function_of(resource: Mapping[str, Any]) -> str:
    return str(resource["Properties"]["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"])


@pytest.fixture
def aws_of_handlers(local_aws: RunningAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningAws]:
    """The local AWS, called by handlers that this process runs."""
    from joiner.adapters import environment

    region = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    for name, value in {"AWS_ENDPOINT_URL": local_aws.endpoint, **region, **keys}.items():
        monkeypatch.setenv(name, value)
    environment.client.cache_clear()
    yield local_aws
    environment.client.cache_clear()

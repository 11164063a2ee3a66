"""The zip files of functions and layers: size, content, and the manifests of the installer."""

import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.asset_bundles import BundleTarget
from infra.settings import Settings
from tests.infra.conftest import ROOT, Synthesis


def test_every_function_with_its_layers_is_smaller_than_lambdas_250_megabytes(example: Synthesis) -> None:
    sizes = {}
    for name, function in example.resources("AWS::Lambda::Function").items():
        layers = [
            example.template["Resources"][each["Ref"]]["Properties"]["Content"]
            for each in function["Properties"]["Layers"]
        ]
        assert len(layers) <= 5
        sizes[name] = sum(_unzipped(example, content) for content in (function["Properties"]["Code"], *layers))

    assert max(sizes.values()) < 125_000_000, sizes


def test_nothing_of_the_packing_machine_is_in_a_layer_for_arm(example: Synthesis, example_settings: Settings) -> None:
    assert str(BundleTarget.of(example_settings.runtime)) == "python 3.14 on arm64"
    libraries = {
        name: data
        for layer in example.resources("AWS::Lambda::LayerVersion").values()
        for name, data in _entries(example, layer["Properties"]["Content"])
        if ".so" in name
    }

    assert {Path(name).name.split(".")[0] for name in libraries} >= {"_core", "_pydantic_core"}
    assert {data[:4] for data in libraries.values()} == {b"\x7fELF"}
    # e_machine of an ELF header: 183 is AArch64
    assert {int.from_bytes(data[18:20], "little") for data in libraries.values()} == {183}
    assert {tag for name in libraries for tag in re.findall(r"cpython-\d+", name)} == {"cpython-314"}


def test_a_layer_has_no_tests_no_scripts_and_one_dateutil_that_botocore_accepts(example: Synthesis) -> None:
    layers = example.resources("AWS::Lambda::LayerVersion").values()
    names = [name for layer in layers for name, _ in _entries(example, layer["Properties"]["Content"])]

    assert [
        name for name in names if "/tests/" in name or "__pycache__" in name or name.startswith("python/bin/")
    ] == []
    assert [name for name in names if re.search(r"python_dateutil-[^2]", name)] == []
    assert [name for name in names if name.startswith(("python/boto3/", "python/botocore/"))] == []


def test_the_installer_carries_the_manifests_that_the_template_names(example: Synthesis) -> None:
    function = example.one("AWS::Lambda::Function", "InstallationInstallManifests")
    inside = {
        name.removeprefix("functions/install_manifests/manifests/"): data
        for name, data in _entries(example, function["Properties"]["Code"])
        if name.endswith(".yaml")
    }

    assert inside == {
        path.relative_to(ROOT / "manifests").as_posix(): path.read_bytes()
        for path in (ROOT / "manifests").rglob("*.yaml")
    }


def _entries(made: Synthesis, content: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO((made.folder / f"asset.{content['S3Key']}").read_bytes())) as archive:
        return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]


def _unzipped(made: Synthesis, content: Mapping[str, Any]) -> int:
    with zipfile.ZipFile(made.folder / f"asset.{content['S3Key']}") as archive:
        return sum(entry.file_size for entry in archive.infolist())

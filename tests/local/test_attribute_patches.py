"""The attributes of moto and botocore that the local AWS patches are exactly those in its documentation."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from joiner_local.aws import attribute_patches, installation

REPOSITORY = Path(__file__).resolve().parents[2]

# A process of its own, because the patches apply to a whole process.
PROGRAM = """
import inspect, json, os, sys, tempfile
from pathlib import Path
from joiner_local.aws import attribute_patches, server
from joiner_local.aws.installation import install_services
from joiner_local.aws.local_aws import LocalAws

server.prepare_environment(1)
install_services(LocalAws("http://127.0.0.1:1", Path(tempfile.mkdtemp()), Path(sys.executable)))

def of_ours(value):
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    return "joiner_local" in getattr(code, "co_filename", "")

packages = ("moto", "botocore", "boto3")
names = [name for name in sys.modules if name.split(".")[0] in packages and ".vendored" not in name]
owners = [sys.modules[name] for name in names]
for module in list(owners):
    classes = [each for each in list(vars(module).values()) if inspect.isclass(each)]
    owners += [each for each in classes if each.__module__ == module.__name__]
attributes = [(owner, name, value) for owner in owners for name, value in list(vars(owner).items())]
found = {attribute_patches._label(owner, name) for owner, name, value in attributes if of_ours(value)}
print(json.dumps({"recorded": sorted(set(attribute_patches.PATCHED)), "found": sorted(found)}), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def patched() -> dict[str, set[str]]:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    return {key: set(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def test_the_docstring_of_the_installation_lists_every_patch(patched: dict[str, set[str]]) -> None:
    listed = (installation.__doc__ or "").partition("::")[2]
    names = {name for line in listed.splitlines() if line.startswith(" " * 8) for name in line.split()}

    assert names == patched["recorded"]


def test_no_function_of_ours_is_in_moto_or_botocore_without_a_record(patched: dict[str, set[str]]) -> None:
    assert patched["found"] - patched["recorded"] == set()


def test_the_documentation_of_the_local_stack_names_every_module_that_patches() -> None:
    section = (
        (REPOSITORY / "docs" / "local-stack.md")
        .read_text()
        .partition("## What is patched")[2]
        .partition("|---")[2]
        .partition("\n## ")[0]
    )
    folder = Path(attribute_patches.__file__).parent
    calls = re.compile(r"\b(replace_attribute|wrap_attribute|add_items)\(")
    modules = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if path.name != "attribute_patches.py" and calls.search(path.read_text())
    }

    assert set(re.findall(r"`([a-z_0-9/]+\.py)`", section)) == modules


class Backend:
    def describe(self) -> str:
        return "moto"


@pytest.fixture
def unrecorded() -> Iterator[None]:
    """Patches of a test are removed from the record."""
    before = list(attribute_patches.PATCHED)
    yield
    attribute_patches.PATCHED[:] = before


@pytest.mark.usefixtures("unrecorded")
def test_a_patch_that_would_discard_another_is_refused() -> None:
    original = Backend.describe
    attribute_patches.wrap_attribute(Backend, "describe", lambda self: f"wrapped {original(self)}", original)

    with pytest.raises(attribute_patches.PatchConflict, match="is patched already"):
        attribute_patches.replace_attribute(Backend, "describe", lambda _self: "other")
    with pytest.raises(attribute_patches.PatchConflict, match="after the wrapper read it"):
        attribute_patches.wrap_attribute(Backend, "describe", lambda _self: "another", original)
    assert Backend().describe() == "wrapped moto"

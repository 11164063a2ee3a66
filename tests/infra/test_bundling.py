"""Bundles: the same bytes from the same input, and the message that names the lock file's line of a missing wheel."""

import importlib.util
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest

from infra import asset_bundles
from infra.asset_bundles import BundleTarget, BundlingError, bundle_function, bundle_requirements, bundle_sources
from infra.settings import RuntimeSettings
from joiner_local.tooling import runtime_python
from joiner_local.tooling.function_python import VERSIONS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


LAMBDA = BundleTarget("3.14", "arm64")
LAYER_LOCK = (ROOT / "layers/runtime/requirements.lock").read_text()
SIX = "six==1.17.0 --hash=sha256:4721f391ed90541fddacab5acf947aa0d3dc7d27b2e1e8eda2be8970586c3274\n"
MSGSPEC = "".join(LAYER_LOCK.partition("msgspec==")[1:]).partition("\ntyping")[0]
OWN = "{}.{}".format(*sys.version_info[:2])


def another_interpreter() -> Path:
    """Return an interpreter of another version than this one, if the machine has one."""
    found = (runtime_python.interpreter(version) for version in VERSIONS if version != OWN)
    interpreter = next((each for each in found if each is not None), None)
    if interpreter is None:
        pytest.skip("this machine has one Python only")
    return interpreter


def version_of(interpreter: Path) -> str:
    return runtime_python.full_version(interpreter).rpartition(".")[0]


def _tree(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_sources_leave_out_what_is_for_people_and_tests(tmp_path: Path) -> None:
    files = {
        "handler.py": "1",
        "part/more.py": "2",
        "README.md": "3",
        "event.json": "4",
        "part/__pycache__/more.cpython-311.pyc": "5",
    }
    root = _tree(tmp_path / "function", files)

    packed = bundle_sources(
        "function", {"": root, "manifests": _tree(tmp_path / "manifests", {"crds/a.yaml": "6"})}, LAMBDA
    )

    assert zipfile.ZipFile(packed).namelist() == ["handler.py", "manifests/crds/a.yaml", "part/more.py"]


def test_a_function_is_packed_as_a_part_of_the_package_functions(tmp_path: Path) -> None:
    packed = bundle_function(
        "check_registration", {"manifests": _tree(tmp_path / "manifests", {"crds/a.yaml": "1"})}, LAMBDA
    )

    folder = ROOT / "functions" / "check_registration"
    own = [f"functions/check_registration/{path.name}" for path in folder.glob("*.py")]
    assert zipfile.ZipFile(packed).namelist() == sorted(
        ["functions/__init__.py", *own, "functions/check_registration/manifests/crds/a.yaml"]
    )


@pytest.mark.parametrize("name", ["check_registration", "install_manifests"])
def test_a_handler_is_imported_from_its_bundle_and_the_layers(name: str, tmp_path: Path) -> None:
    """Lambda unpacks the bundle into the first folder of `sys.path`; layers come after it."""
    zipfile.ZipFile(bundle_function(name, {}, LAMBDA)).extractall(tmp_path)
    layers = ":".join(
        [str(ROOT / "layers/joiner/python"), *(path for path in sys.path if path.endswith("site-packages"))]
    )
    environment = {"PYTHONPATH": f"{tmp_path}:{layers}", "AWS_DEFAULT_REGION": "eu-west-1"}
    ask = f"import functions.{name}.handler as module; print(module.__file__, callable(module.handler))"

    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert (done.stderr, done.stdout.split()) == ("", [str(tmp_path / "functions" / name / "handler.py"), "True"])


def test_the_same_sources_give_the_same_bytes_wherever_and_whenever(tmp_path: Path) -> None:
    one = bundle_sources("function", {"": _tree(tmp_path / "here", {"b.py": "1", "a.py": "2"})}, LAMBDA)
    before = one.read_bytes()
    one.unlink()

    other = bundle_sources("function", {"": _tree(tmp_path / "there", {"a.py": "2", "b.py": "1"})}, LAMBDA)

    assert (other, other.read_bytes()) == (one, before)


def test_changed_sources_give_another_bundle(tmp_path: Path) -> None:
    one = bundle_sources("function", {"": _tree(tmp_path / "function", {"a.py": "1"})}, LAMBDA)

    assert bundle_sources("function", {"": _tree(tmp_path / "function", {"a.py": "2"})}, LAMBDA) != one


def test_for_the_interpreter_that_packs_modules_come_compiled(tmp_path: Path) -> None:
    root = _tree(tmp_path / "function", {"handler.py": "1", "part/more.py": "2", "part/broken.py": "("})
    host = BundleTarget.of(RuntimeSettings("host", "host"))

    packed = zipfile.ZipFile(bundle_sources("function", {"": root}, host))

    tag = sys.implementation.cache_tag
    compiled = [f"__pycache__/handler.{tag}.pyc", f"part/__pycache__/more.{tag}.pyc"]
    assert packed.namelist() == sorted([*compiled, "handler.py", "part/broken.py", "part/more.py"])
    assert packed.read(compiled[0])[:4] == importlib.util.MAGIC_NUMBER


def test_a_requirement_without_a_wheel_is_reported_with_its_line(tmp_path: Path) -> None:
    layer = _tree(tmp_path / "layer", {"requirements.lock": f"# parts\nmsgspec==99.0.0 --hash=sha256:{'0' * 64}\n"})

    with pytest.raises(BundlingError) as error:
        bundle_requirements(layer, LAMBDA)

    assert str(error.value).startswith(
        f"{layer / 'requirements.lock'}:2: msgspec==99.0.0 has no wheel for python 3.14 on arm64: pin a"
    )


def test_requirements_are_installed_once_for_a_lock_and_a_target(tmp_path: Path) -> None:
    layer = _tree(tmp_path / "layer", {"requirements.lock": SIX})
    packed = bundle_requirements(layer, LAMBDA)
    made = packed.stat().st_ino

    assert bundle_requirements(layer, LAMBDA).stat().st_ino == made
    assert bundle_requirements(layer, BundleTarget("3.13", "arm64")) != packed
    assert "python/six.py" in zipfile.ZipFile(packed).namelist()


def test_the_word_host_means_the_interpreter_that_synthesises() -> None:
    host = BundleTarget.of(RuntimeSettings("host", "host"))

    assert (host.python, host.interpreter) == (OWN, Path(sys.executable))
    assert host.pip_options == ()
    assert BundleTarget.of(RuntimeSettings("3.14", "arm64")).pip_options[-4:] == (
        "--python-version",
        "3.14",
        "--implementation",
        "cp",
    )


@pytest.mark.parametrize("named", ["host", "3.14"])
def test_on_this_machine_the_target_is_the_interpreter_that_is_given(named: Literal["host", "3.14"]) -> None:
    given = another_interpreter()

    target = BundleTarget.of(RuntimeSettings(named, "host"), given)

    assert (target.python, target.interpreter) == (version_of(given), given)
    assert target.pip_options == ()
    assert BundleTarget.of(RuntimeSettings("3.14", "arm64"), given) == BundleTarget("3.14", "arm64")


def test_for_another_interpreter_of_this_machine_pip_installs_and_that_one_compiles(tmp_path: Path) -> None:
    given = another_interpreter()
    tag = "cpython-" + version_of(given).replace(".", "")
    layer = _tree(tmp_path / "layer", {"requirements.lock": MSGSPEC})

    packed = zipfile.ZipFile(bundle_requirements(layer, BundleTarget.of(RuntimeSettings("host", "host"), given)))

    assert f"python/msgspec/__pycache__/__init__.{tag}.pyc" in packed.namelist()
    assert {name.split(".")[1].split("-")[1] for name in packed.namelist() if name.endswith(".so")} == {
        tag.split("-")[1]
    }


def test_bundles_that_were_not_used_for_a_month_are_removed_from_the_cache(tmp_path: Path) -> None:
    import os
    import time

    old = bundle_sources("function", {"": _tree(tmp_path / "function", {"a.py": "1"})}, LAMBDA)
    long_ago = time.time() - (asset_bundles.UNUSED_DAYS + 1) * 86_400
    os.utime(old, (long_ago, long_ago))

    new = bundle_sources("function", {"": _tree(tmp_path / "function", {"a.py": "2"})}, LAMBDA)

    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize(
    ("digest", "message"),
    [("0" * 64, ":2: pip downloaded a file whose digest is not in the lock file"), ("", "could not install this")],
)
def test_nothing_is_packed_whose_digest_the_lock_does_not_name(digest: str, message: str, tmp_path: Path) -> None:
    pinned = f"six==1.17.0 --hash=sha256:{digest}" if digest else "six==1.17.0"
    layer = _tree(tmp_path / "layer", {"requirements.lock": f"# parts\n{pinned}\n"})

    with pytest.raises(BundlingError) as error:
        bundle_requirements(layer, LAMBDA)

    assert message in str(error.value)
    assert list(asset_bundles.cache_folder().glob("*.zip")) == []


@pytest.mark.parametrize("change", ["cut", "without a digest"])
def test_a_bundle_that_is_not_what_was_packed_is_packed_anew(change: str, tmp_path: Path) -> None:
    root = _tree(tmp_path / "function", {"a.py": "1"})
    packed = bundle_sources("function", {"": root}, LAMBDA)
    right = packed.read_bytes()
    if change == "cut":
        packed.write_bytes(right[:-7])
    else:
        packed.with_suffix(".sha256").unlink()
        packed.write_bytes(b"another")

    assert bundle_sources("function", {"": root}, LAMBDA).read_bytes() == right


def test_the_cache_is_bounded_and_what_was_used_last_stays(tmp_path: Path) -> None:
    large = asset_bundles.cache_folder() / "large-0.zip"
    with large.open("wb") as sparse:
        sparse.truncate(asset_bundles.CACHE_LIMIT_BYTES)
    new = bundle_sources("function", {"": _tree(tmp_path / "function", {"a.py": "1"})}, LAMBDA)

    assert (large.exists(), new.exists(), new.with_suffix(".sha256").exists()) == (False, True, True)

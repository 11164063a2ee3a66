"""`make setup` installs with uv as pip's configuration says, and with pip where uv cannot."""

import os
from pathlib import Path

import pytest

from joiner_local.tooling.command_progress import StepFailed
from joiner_local.tooling.package_installation import (
    Untranslatable,
    install_lock,
    read_pip_configuration,
    translate_pip_configuration,
)

LOCK, UV_LOCK = Path("/repository/packages.lock"), Path("/repository/uv.lock")

PIP = """\
#!/bin/sh
echo "pip $*" >> "{record}"
case "$*" in
  "-m pip config list") echo "global.index-url='https://mirror.test/simple'"; {configured} ;;
  *packages.lock) exit {pip_exit} ;;
esac
"""
UV = """\
#!/bin/sh
echo "uv $* from $UV_DEFAULT_INDEX" >> "{record}"
echo "error: no route to mirror.test" >&2
exit {uv_exit}
"""


def environment(folder: Path, *, uv_exit: int = 0, pip_exit: int = 0, configured: str = ":") -> Path:
    """Make programs that record their arguments; return the Python of this virtual environment."""
    for name, text in (("python", PIP), ("uv", UV)):
        program = folder / name
        program.write_text(
            text.format(record=folder / "record", uv_exit=uv_exit, pip_exit=pip_exit, configured=configured)
        )
        program.chmod(0o755)
    return folder / "python"


def recorded(folder: Path) -> list[str]:
    return (folder / "record").read_text().splitlines()


def test_uv_is_installed_by_its_digest_and_installs_the_packages_by_theirs_from_pips_index(tmp_path: Path) -> None:
    python = environment(tmp_path)
    said: list[str] = []

    install_lock(python, LOCK, UV_LOCK, said.append)

    assert recorded(tmp_path) == [
        "pip -m pip config list",
        "pip -m pip install --disable-pip-version-check --no-compile --require-hashes --only-binary=:all: "
        "-r /repository/uv.lock",
        f"uv pip install --python {python} --require-hashes -r /repository/packages.lock "
        "--index-strategy unsafe-best-match from https://mirror.test/simple",
    ]
    assert said == []


def test_where_uv_fails_pip_installs_the_packages_by_their_digests_and_the_reason_is_printed(tmp_path: Path) -> None:
    said: list[str] = []

    install_lock(environment(tmp_path, uv_exit=2), LOCK, UV_LOCK, said.append)

    assert recorded(tmp_path)[-1] == (
        "pip -m pip install --disable-pip-version-check --no-compile --force-reinstall --require-hashes "
        "-r /repository/packages.lock"
    )
    assert said == ["packages: with pip instead of uv, which takes longer: error: no route to mirror.test"]


def test_a_setting_that_uv_does_not_know_leaves_the_packages_to_pip(tmp_path: Path) -> None:
    said: list[str] = []

    install_lock(
        environment(tmp_path, configured="echo \"global.client-cert='/mine.pem'\""), LOCK, UV_LOCK, said.append
    )

    assert [line for line in recorded(tmp_path) if "lock" in line] == [
        "pip -m pip install --disable-pip-version-check --no-compile --require-hashes -r /repository/packages.lock"
    ]
    assert said == [
        "packages: with pip instead of uv, which takes longer: pip's configuration has client-cert, which uv does not "
        "know"
    ]


def test_packages_that_neither_can_install_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"packages failed .*packages\.lock: exit code 3"):
        install_lock(environment(tmp_path, uv_exit=2, pip_exit=3), LOCK, UV_LOCK, lambda _: None)


def test_what_pip_knows_of_indexes_certificates_and_proxies_reaches_uv(tmp_path: Path) -> None:
    wheels, missing = tmp_path / "wheels", tmp_path / "missing"
    wheels.mkdir()
    listed = f"""\
global.cert='/weaker.pem'
global.extra-index-url='\\nhttps://one.test/simple\\nhttps://two.test/simple'
global.find-links='{wheels} {missing} https://links.test'
global.no-index='false'
global.proxy='http://proxy.test:3128'
global.retries='9'
global.timeout='180'
global.trusted-host='one.test'
install.cert='/stronger.pem'
freeze.client-cert='/of-another-command.pem'
:env:.disable-pip-version-check='1'
"""

    made = translate_pip_configuration(read_pip_configuration(listed))

    assert made.options == (
        *("--index-strategy", "unsafe-best-match"),
        *("--find-links", str(wheels), "--find-links", "https://links.test"),
        *("--allow-insecure-host", "one.test"),
    )
    assert made.variables == {
        "SSL_CERT_FILE": "/stronger.pem",
        "UV_INDEX": "https://one.test/simple https://two.test/simple",
        "ALL_PROXY": "http://proxy.test:3128",
        "UV_HTTP_TIMEOUT": "180",
    }


def test_without_indexes_there_are_only_links() -> None:
    made = translate_pip_configuration({"no-index": "true", "find-links": os.curdir})

    assert made.options[-3:] == ("--no-index", "--find-links", os.curdir)


@pytest.mark.parametrize("name", ["client-cert", "only-binary", "constraint", "user"])
def test_no_setting_is_left_out_in_silence(name: str) -> None:
    with pytest.raises(Untranslatable, match=name):
        translate_pip_configuration({name: "some"})

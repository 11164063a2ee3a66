"""The machine's own Go and Node are used if they are new enough."""

from pathlib import Path

import pytest

from joiner_local.tooling import toolchains
from joiner_local.tooling.toolchains import GO, NODE, Tool, ToolMissing

OLD_GO = "go version go1.21.3 linux/amd64"
NEW_GO = "go version go1.27.3 linux/amd64"


def program(path: Path, answer: str) -> Path:
    """Write a program that prints the same answer to all arguments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH; shells are found by their full path."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_the_machine_s_tool_is_taken_where_it_is_new_enough(machine: Path, tmp_path: Path) -> None:
    go = program(machine / "go", NEW_GO)
    program(tmp_path / "venv" / "bin" / "go", NEW_GO)
    assert toolchains.find(GO, tmp_path / "venv") == go


def test_the_virtual_environment_s_is_taken_where_the_machine_s_is_too_old(machine: Path, tmp_path: Path) -> None:
    program(machine / "go", OLD_GO)
    assert toolchains.find(GO, tmp_path / "venv") is None
    go = program(tmp_path / "venv" / "bin" / "go", NEW_GO)
    assert toolchains.find(GO, tmp_path / "venv") == go


def test_a_node_without_npm_is_no_node(machine: Path, tmp_path: Path) -> None:
    node = program(machine / "node", "v22.20.0")
    assert toolchains.find(NODE, tmp_path) is None
    program(machine / "npm", "10.9.3")
    assert toolchains.find(NODE, tmp_path) == node


def test_what_can_neither_be_found_nor_installed_is_asked_for(tmp_path: Path) -> None:
    python = program(tmp_path / "venv" / "bin" / "python", "No matching distribution")
    python.write_text("#!/bin/sh\necho 'No matching distribution' >&2\nexit 1\n")
    tool = Tool("joinerc", ("joinerc", "--version"), (3, 1), "joinerc-wheel==3.1")
    lines: list[str] = []
    with pytest.raises(ToolMissing, match=r"please install joinerc 3\.1 or newer(.|\n)*No matching distribution"):
        toolchains.find_or_install(tool, tmp_path / "venv", lines.append)
    assert lines == ["joinerc 3.1 or newer is not on this machine: installing joinerc-wheel==3.1 into venv/"]

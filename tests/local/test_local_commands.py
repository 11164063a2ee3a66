"""`joiner local` without a running stack: its messages, their stream, and its exit codes. (With a stack:
tests/e2e/test_stack_lifecycle.py.)
"""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from joiner_cli.commands import app


def joiner(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_the_version_goes_to_stdout() -> None:
    said = joiner("--version")
    assert (said.exit_code, said.stdout) == (0, "joiner 0.1.0\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["status"], 1, "no stack is ready in"),
        (["down"], 0, "no stack was running"),
        (["fire-sweep"], 1, "`joiner local up` starts one"),
        (["knob", "capacity"], 1, "`joiner local up` starts one"),
        (["knob", "capacity", "not json"], 1, "not JSON"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_without_a_stack_it_is_said_on_stderr(words: list[str], code: int, told: str, tmp_path: Path) -> None:
    said = joiner("local", *words, "--root", str(tmp_path))
    assert said.exit_code == code
    assert told in said.stderr.replace("\n", " ")
    assert said.stdout == ""


def test_a_root_that_is_no_folder_is_told_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    said = joiner("local", "up", "--root", str(file))
    assert (said.exit_code, said.stderr) == (1, f"joiner: {file}: File exists\n")

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
    result = joiner("--version")
    assert (result.exit_code, result.stdout) == (0, "joiner 0.1.0\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status"], 1, "no stack is ready in"),
        (["down"], 0, "no stack was running"),
        (["executions"], 1, "`joiner local up` starts one"),
        (["fire-sweep"], 1, "`joiner local up` starts one"),
        (["knob", "capacity"], 1, "`joiner local up` starts one"),
        (["knob", "capacity", "not json"], 1, "not JSON"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_missing_stack_is_reported_on_stderr(words: list[str], code: int, message: str, tmp_path: Path) -> None:
    result = joiner("local", *words, "--root", str(tmp_path))
    assert result.exit_code == code
    assert message in result.stderr.replace("\n", " ")
    assert result.stdout == ""


def test_a_root_that_is_no_folder_is_reported_without_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = joiner("local", "up", "--root", str(file))
    assert (result.exit_code, result.stderr) == (1, f"joiner: {file}: File exists\n")

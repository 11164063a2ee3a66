"""No command prints a traceback: an unexpected error is one line with a file of details, and exit code 3."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from joiner_cli.commands import app
from joiner_cli.unexpected_errors import describe_unexpected_error, run_reported
from joiner_local.stack.stack_record import NAME
from tests.unit.cli.command_runs import deployment, joiner, pool, write

OF_STACKS = ("status", "down", "executions", "fire-sweep")

RUN = "from joiner_cli.app import main; main()"
LINE = re.compile(
    r"joiner: unexpected error: (?P<error>.*); to report it, open an issue and attach the details: (?P<file>.*)\n"
)


def joined(
    *arguments: object, environment: Mapping[str, str] | None = None, before: str = "", **how: int
) -> subprocess.CompletedProcess[str]:
    """Run the installed command in a process of its own; ``before`` is Python that the process runs first."""
    asked: Sequence[str] = [sys.executable, "-c", f"{before}\n{RUN}", *map(str, arguments)]
    return subprocess.run(
        asked,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
        stdin=how.get("stdin", subprocess.DEVNULL),
        stdout=how.get("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path, pool(), deployment("web", 3))


def test_an_exception_becomes_one_line_a_file_and_exit_code_3(capfd: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        print("half of the result")
        raise ValueError("two\nlines and a \x1b[31mcolour")

    with pytest.raises(SystemExit) as ended:
        run_reported(command)

    out, err = capfd.readouterr()
    match = LINE.fullmatch(err)
    assert ended.value.code == 3
    assert out == "half of the result\n"
    assert match is not None
    assert match["error"] == "ValueError: two lines and a ?[31mcolour"
    details = Path(match["file"])
    assert details.stat().st_mode & 0o777 == 0o600
    text = details.read_text(encoding="utf-8")
    assert re.match(r"joiner \S+, Python 3\.\d+", text)
    assert "Traceback (most recent call last)" in text
    assert text.endswith("ValueError: two\nlines and a \x1b[31mcolour\n")
    details.unlink()


@pytest.mark.parametrize(("code", "message"), [(0, ""), (2, ""), (1, "joiner: no such file")])
def test_an_expected_end_of_a_command_is_unchanged(code: int, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        print(message, file=sys.stderr, end="")
        sys.exit(code)

    with pytest.raises(SystemExit) as ended:
        run_reported(command)

    assert (ended.value.code, capfd.readouterr().err) == (code, message)


def test_an_interrupted_command_reports_it(capfd: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as ended:
        run_reported(command)

    assert (ended.value.code, capfd.readouterr().err) == (130, "joiner: interrupted\n")


def test_a_long_message_is_shortened_in_the_line_and_complete_in_the_file() -> None:
    line = describe_unexpected_error(RuntimeError("x" * 1000))

    details = Path(line.rpartition(": ")[2])
    assert line.startswith(f"joiner: unexpected error: RuntimeError: {'x' * 300} ...; ")
    assert "x" * 1000 in details.read_text(encoding="utf-8")
    details.unlink()


def test_a_folder_for_the_details_that_cannot_be_written_is_reported(shop: Path) -> None:
    broken = "import sys, tempfile; sys.modules['highspy'] = None; tempfile.tempdir = '/proc/nowhere'"

    ended = joined("plan", "-f", shop, before=broken)

    assert ended.returncode == 3
    assert ended.stderr.count("\n") == 1
    assert "; the details could not be written to /proc/nowhere: " in ended.stderr


@pytest.mark.parametrize("module", ["highspy", "typer"])
def test_a_broken_installation_is_one_line(module: str, shop: Path, tmp_path: Path) -> None:
    """The module is found first on the path, and fails when it is imported."""
    library = tmp_path / "library"
    library.mkdir()
    (library / f"{module}.py").write_text("raise RuntimeError('broken library')", encoding="utf-8")

    ended = joined("plan", "-f", shop, environment={"PYTHONPATH": str(library), "TMPDIR": str(tmp_path)})

    match = LINE.fullmatch(ended.stderr)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert match is not None
    assert match["error"] == "RuntimeError: broken library"
    assert "Traceback" in Path(match["file"]).read_text(encoding="utf-8")


def test_an_encoding_without_some_characters_escapes_them(shop: Path) -> None:
    """The table shortens the names of pods with an ellipsis."""
    ended = joined("plan", "-f", shop, environment={"PYTHONIOENCODING": "ascii"})

    assert (ended.returncode, "unexpected" in ended.stderr) == (0, False)
    assert "shop/web-0\\u20262\n" in ended.stdout


def test_a_result_that_cannot_be_read_by_anyone_is_a_failure(shop: Path) -> None:
    ended = joined("plan", "-f", shop, before="import os, sys; os.close(1); sys.stdout = None")

    assert ended.returncode == 1
    assert ended.stderr.endswith("joiner: the result could not be written: stdout is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_help_that_cannot_be_written_is_a_failure() -> None:
    with Path("/dev/full").open("w") as full:
        ended = joined("--help", stdout=full.fileno())

    assert (ended.returncode, ended.stderr) == (
        1,
        "joiner: the result could not be written: No space left on device\n",
    )


def test_a_reader_that_goes_away_is_no_error_worth_a_line(shop: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = joined("plan", "-f", shop, "-o", "html", stdout=writing)
    os.close(writing)

    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr


def test_a_command_that_is_interrupted_while_it_starts_prints_no_traceback(tmp_path: Path) -> None:
    """A module of the path interrupts the process while the commands are imported."""
    (tmp_path / "yaml.py").write_text(
        "import os, signal, time\n"
        # A process that a shell started in the background ignores the signal
        "signal.signal(signal.SIGINT, signal.default_int_handler)\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    )

    ended = joined("plan", "-f", tmp_path, environment={"PYTHONPATH": str(tmp_path)})

    assert (ended.returncode, ended.stderr) == (130, "joiner: interrupted\n")


ODD: Sequence[Sequence[str]] = [
    ["plan", "-f", "."],
    ["plan", "-f", ""],
    ["plan", "-f", "/proc/self/mem"],
    ["plan", "-f", "\udcff"],
    ["plan", "-f", "x" * 5000],
    ["plan", "-f", "manifests.yaml", "--deadline", "nan"],
    ["plan", "-f", "manifests.yaml", "--seed", str(2**200)],
    ["plan", "-f", "manifests.yaml", "--region", "\udcff"],
    ["plan", "-f", "manifests.yaml", "--catalogue", "."],
    ["plan", "-f", "manifests.yaml", "--catalogue", "/dev/null"],
    ["explain", "pod", "\udcff", "-f", "manifests.yaml"],
    ["explain", "pod", "", "-f", "manifests.yaml"],
    ["explain", "node", "\udcff", "--cluster", "shop"],
    ["explain", "node", "", "--cluster", "shop", "--hours", "nan"],
    ["catalogue", "[", "-o", "json"],
    ["catalogue", "\udcff"],
    ["catalogue", "--catalogue", "manifests.yaml"],
    ["cost", "-f", "."],
    ["cost", "-f", "\udcff"],
    ["cost", "-f", "manifests.yaml", "--seed", str(2**200), "-o", "yaml"],
    ["status", ""],
    ["status", "shop", "--region", "\udcff"],
    ["pause", ""],
    ["pause", "shop", "--region", "no region"],
    ["resume", "\udcff"],
    ["admit-installer", "--cluster", "\udcff"],
    ["admit-installer", "--cluster", "shop", "--region", "no region"],
    ["accept", "--cluster", "\udcff"],
    ["accept", "--cluster", "shop", "--region", "\udcff"],
    ["uninstall", "--cluster", "../..", "--nodes", "keep"],
    ["uninstall", "--cluster", "shop", "--nodes", "keep", "--region", "no region"],
    ["local", "up", "--root", "manifests.yaml", "--no-deploy"],
    ["local", "up", "--root", "x" * 5000, "--no-deploy"],
    ["local", "up", "--root", "manifests.yaml", "--no-deploy", "--boot-seconds", "nan"],
    ["local", "down", "--root", "manifests.yaml"],
    ["local", "down", "--root", "x" * 5000],
    ["local", "status", "--root", "\udcff"],
    ["local", "status", "--root", "x" * 5000],
    ["local", "status", "--root", "manifests.yaml"],
    ["local", "status", "--root", "loop"],
    ["local", "status", "--root", "half"],
    ["local", "executions", "--root", ""],
    ["local", "executions", "up-1", "--root", "manifests.yaml"],
    ["local", "fire-sweep", "--root", ""],
    ["local", "fire-sweep", "--root", "manifests.yaml"],
    ["local", "knob", "\udcff", "[]"],
    ["local", "knob", "", "{"],
    ["local", "knob", "agent/boot", "[" * 100_000],
    ["local", "knob", "capacity", "{}", "--root", "x" * 5000],
]
"""At least one for each command; a folder `half` has a record that is cut off, `loop` is a link to itself."""


def commands_of(group: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command of the app, those of its groups included."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, *names, name)
        else:
            yield (*names, name)


def test_every_command_is_tried_with_odd_input() -> None:
    commands = set(commands_of(get_command(app)))
    tried = {command for command in commands if any(tuple(case[: len(command)]) == command for case in ODD)}

    assert {("explain", "pod"), ("local", "knob")} <= commands  # those of groups, too
    assert sorted(commands - tried) == []


def test_odd_input_never_ends_in_a_traceback_or_an_unexpected_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, pool(), deployment("web", 3))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / NAME).write_text('{"state": ', encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    ended = {tuple(arguments): joiner(*arguments) for arguments in ODD}  # an unexpected error is raised here

    assert {arguments: answer.exit_code for arguments, answer in ended.items() if answer.exit_code not in (0, 1)} == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "-f", "."],
        ["explain", "pod", "web", "-f", "."],
        ["catalogue", "m5.large"],
        ["cost", "-f", "."],
        *(
            ["local", command, "--root", root]
            for command in ("status", "down", "executions", "fire-sweep")
            for root in ("x", "/x")
        ),
    ],
)
def test_a_deleted_working_folder_is_no_unexpected_error(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    assert joiner(*arguments).exit_code in (0, 1)


def test_stdin_that_cannot_be_read_is_invalid_input(tmp_path: Path) -> None:
    unreadable = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)

    ended = joined("plan", "-f", "-", stdin=unreadable)
    os.close(unreadable)

    assert ended.returncode == 1
    assert "stdin: Bad file descriptor: pipe manifests into the command, or name files\n" in ended.stderr

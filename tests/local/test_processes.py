"""Programs end when the process that started them ends; other processes are never affected."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from joiner_local.stack.stack_processes import ProcessIdentity, Program, ProgramFailed, Programs, end, session_members

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _awaited_log(program: Program, text: str) -> str:
    """Return the log, after at most ten seconds as soon as it is `text`."""
    for _ in range(500):
        if program.log.exists() and program.log.read_text() == text:
            break
        time.sleep(0.02)
    return program.log.read_text()


def test_an_identity_is_gone_with_its_process(programs: Programs) -> None:
    program = programs.start("sleeper", ["sleep", "60"])
    identity = ProcessIdentity.of(program.process.pid)
    assert identity is not None
    assert identity.lives()
    program.end(gently=False)
    assert not identity.lives()


def test_a_process_id_that_another_process_got_is_not_signalled(programs: Programs) -> None:
    stranger = programs.start("stranger", ["sleep", "60"])
    ProcessIdentity(stranger.process.pid, "another boot/1").signal(signal.SIGKILL)
    time.sleep(0.1)
    assert stranger.process.poll() is None


def test_a_session_s_members_are_found_and_ended_after_their_leader_was_killed() -> None:
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 60 & sleep 60 & echo up; wait"], start_new_session=True, stdout=subprocess.PIPE
    )
    with leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == b"up\n"
        identity = ProcessIdentity.of(leader.pid)
        assert identity is not None
        assert len(session_members(identity)) == 3
        leader.kill()
        leader.wait()
        assert len(session_members(identity)) == 2
        end(lambda: session_members(identity))
        assert session_members(identity) == []


def test_who_does_not_end_when_asked_is_killed(programs: Programs) -> None:
    deaf = programs.start(
        "deaf",
        python(
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready yes', "
            "flush=True); time.sleep(60)"
        ),
    )
    assert deaf.wait_ready() == "yes"
    identity = ProcessIdentity.of(deaf.process.pid)
    assert identity is not None
    end(lambda: [identity] if identity.lives() else [], patience=0.2)
    assert deaf.process.wait() == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals children when their parent dies")
def test_a_program_dies_with_its_starter(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from joiner_local.stack.stack_processes import Program;"
        f"print(Program.start('child', ['sleep', '60'], log=Path({str(tmp_path)!r}) / 'log').process.pid, "
        "flush=True); input()"
    )
    with subprocess.Popen(python(code), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        child = ProcessIdentity.of(int(starter.stdout.readline()))
        assert child is not None
        starter.kill()
    deadline = time.monotonic() + 5
    while child.lives() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.lives()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals children when their parent dies")
def test_the_local_aws_of_tests_ends_with_tests_that_are_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from tests.local.running_aws import started_server;"
        f"server = started_server(Path({str(tmp_path)!r})); print(server.__enter__()[1].pid, flush=True); input()"
    )
    with subprocess.Popen(python(code), cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        child = ProcessIdentity.of(int(starter.stdout.readline()))
        assert child is not None and child.lives()
        starter.kill()
    deadline = time.monotonic() + 5
    while child.lives() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not child.lives()


def test_a_program_that_ends_early_is_reported_with_the_end_of_its_log(programs: Programs) -> None:
    program = programs.start("faulty", python("print('no such port'); raise SystemExit(3)"))
    with pytest.raises(ProgramFailed, match=r"faulty ended with 3(.|\n)*no such port"):
        program.wait_ready(limit=10)


def test_a_program_that_never_gets_ready_is_reported(programs: Programs) -> None:
    program = programs.start("slow", python("import time; print('not yet', flush=True); time.sleep(60)"))
    with pytest.raises(ProgramFailed, match=r"slow was not ready after 1 s(.|\n)*not yet"):
        program.wait_ready(limit=0.8)


def test_programs_end_in_the_opposite_order_of_their_start(tmp_path: Path) -> None:
    order = tmp_path / "order"
    programs = Programs(tmp_path / "log")
    for name in ("first", "second"):
        note = f"trap 'echo {name} >> {order}; exit' TERM; echo ready yes; while :; do sleep 0.05; done"
        programs.start(name, ["sh", "-c", note]).wait_ready()
    programs.end(gently=("first", "second"))
    assert order.read_text().split() == ["second", "first"]


def test_a_restarted_program_is_another_process_with_the_same_command_and_the_same_log(programs: Programs) -> None:
    program = programs.start("sleeper", ["sh", "-c", "echo begun; exec sleep 60"])
    first = ProcessIdentity.of(program.process.pid)
    assert first is not None
    assert _awaited_log(program, "begun\n") == "begun\n"

    programs.restart("sleeper", pause=0.0)

    assert not first.lives()
    assert program.process.poll() is None
    assert _awaited_log(program, "begun\nbegun\n") == "begun\nbegun\n"
    programs.check()

"""The local stack's processes: however a stack ends, all of its processes end, and other stacks are not affected."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from joiner_cli.commands import app
from joiner_local.control_plane.kube_api import ApiError
from joiner_local.stack.stack_control import LocalStack, StackFailed
from joiner_local.stack.stack_processes import ProcessIdentity, session_members
from joiner_local.stack.stack_record import StackRecord

pytestmark = pytest.mark.e2e

STARTER = "from pathlib import Path; from joiner_local.stack.stack_control import LocalStack"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PROGRAMS = {"etcd", "kube-apiserver", "kwok"}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder for a stack of another program; processes of a failed test are ended."""
    yield tmp_path
    LocalStack(tmp_path).stop()


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[LocalStack]:
    """A separate running stack, which the test may stop."""
    stack = LocalStack(tmp_path).start()
    yield stack
    stack.stop()


def processes_of(root: Path) -> list[str]:
    """Return the command lines that name the stack's folder, which only its processes do."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(root) in command:
                found.append(command)
    return found


def wait_gone(root: Path, leader: ProcessIdentity) -> None:
    deadline = time.monotonic() + 10
    while (left := processes_of(root) or session_members(leader)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


@pytest.mark.long("ends of single processes, and a start that is interrupted")
def test_a_killed_supervisor_ends_the_whole_stack(own_stack: LocalStack) -> None:
    leader = own_stack.known.supervisor
    leader.signal(signal.SIGKILL)
    wait_gone(own_stack.root, leader)
    with pytest.raises(StackFailed, match="no stack is ready"):
        _ = own_stack.known


@pytest.mark.long("ends of single processes, and a start that is interrupted")
def test_a_stack_ends_with_the_program_that_started_it_even_if_that_is_killed(root: Path) -> None:
    program = f"{STARTER}; LocalStack(Path({str(root)!r})).start(); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as starter:
        try:
            leader = wait_ready(root).supervisor
        finally:
            starter.kill()
    wait_gone(root, leader)


def test_a_detached_stack_runs_until_it_is_stopped_and_leaves_no_process(bare_stack: LocalStack, root: Path) -> None:
    program = f"{STARTER}; LocalStack(Path({str(root)!r})).start().detach()"
    subprocess.run([sys.executable, "-c", program], check=True)
    time.sleep(0.5)
    stack = LocalStack(root)
    leader = stack.known.supervisor
    stack.kube().create(CONFIG_MAPS, {"metadata": {"name": "mine"}})
    with pytest.raises(ApiError, match="404"):
        bare_stack.kube().get(f"{CONFIG_MAPS}/mine")
    assert stack.known.aws != bare_stack.known.aws
    assert {name for name in PROGRAMS if any(f"/{name} " in line for line in processes_of(root))} == PROGRAMS
    assert stack.stop()
    assert processes_of(root) == []
    assert session_members(leader) == []
    assert not stack.stop()
    assert bare_stack.kube().get("/version")["major"] == "1"


def wait_ready(root: Path) -> StackRecord:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (record := StackRecord.read(root)) is not None and record.state == "ready":
            return record
        time.sleep(0.05)
    raise AssertionError(f"no stack in {root} after a minute")


def hear_ctrl_c() -> None:
    """Restore SIGINT, which a shell ignores for background jobs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_during_the_start_leaves_no_process(root: Path) -> None:
    joiner = Path(sys.executable).parent / "joiner"
    command: list[str | Path] = [joiner, "local", "up", "--no-deploy", "--root", root]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - one call, no lock
    ) as starting:
        while (record := StackRecord.read(root)) is None or not record.steps:
            assert starting.poll() is None
            time.sleep(0.02)
        starting.send_signal(signal.SIGINT)
        assert "joiner: interrupted" in starting.communicate()[1]
    assert starting.returncode == 130
    wait_gone(root, record.supervisor)


@pytest.mark.long("ends of single processes, and a start that is interrupted")
def test_a_program_of_the_stack_that_ends_ends_the_stack_and_is_named(own_stack: LocalStack) -> None:
    leader = own_stack.known.supervisor
    kwok = next(
        member for member in session_members(leader) if Path(f"/proc/{member.pid}/comm").read_text().strip() == "kwok"
    )
    kwok.signal(signal.SIGKILL)
    wait_gone(own_stack.root, leader)
    with pytest.raises(StackFailed, match="kwok ended with -9"):
        _ = own_stack.known


def test_a_stack_starts_after_a_crash(root: Path) -> None:
    """The record of an ended process, whose pid may belong to another process now."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        StackRecord(
            cluster="joiner-demo", supervisor=ProcessIdentity(stranger.pid, "another boot/1"), state="ready"
        ).write(root)
        stack = LocalStack(root)
        assert not stack.is_running
        assert not stack.stop()
        assert stranger.poll() is None
        stranger.kill()


def test_a_second_start_in_the_same_folder_is_refused(bare_stack: LocalStack) -> None:
    with pytest.raises(StackFailed, match=f"process {bare_stack.known.supervisor.pid}"):
        LocalStack(bare_stack.root).start()
    assert bare_stack.is_running


def test_a_second_deployment_at_the_same_time_is_refused(bare_stack: LocalStack) -> None:
    with (bare_stack.root / "deployment.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StackFailed, match="is under way: wait"):
            bare_stack.deploy()


def test_an_unknown_knob_lists_all_knobs(bare_stack: LocalStack) -> None:
    for name in ("which", "agent/which"):
        result = CliRunner().invoke(app, ["local", "knob", name, "--root", str(bare_stack.root)])
        assert result.exit_code == 1
        assert {"capacity", "agent/boot"} <= set(result.stderr.replace(",", " ").split())

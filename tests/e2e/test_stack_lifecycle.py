"""A stack ends whole, however it ends, and knows nothing of its neighbours."""

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

from joiner_cli.app import app
from joiner_local.kube_api import ApiError
from joiner_local.processes import Identity, session_members
from joiner_local.stack import Stack, StackFailed
from joiner_local.stack_record import StackRecord

pytestmark = pytest.mark.e2e

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PROGRAMS = {"etcd", "kube-apiserver", "kwok"}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A folder for a stack that another program starts; whatever a failed test left there is ended."""
    yield tmp_path
    Stack(tmp_path).stop()


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    """A running stack that this test may break."""
    stack = Stack(tmp_path).start()
    yield stack
    stack.stop()


def processes_of(root: Path) -> list[str]:
    """Command lines on this machine that name the folder: those of the stack do, and of nothing else."""
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


def wait_gone(root: Path, leader: Identity) -> None:
    deadline = time.monotonic() + 10
    while (left := processes_of(root) or session_members(leader)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def test_a_killed_supervisor_takes_everything_with_it(own_stack: Stack) -> None:
    leader = own_stack.known.supervisor
    leader.signal(signal.SIGKILL)
    wait_gone(own_stack.root, leader)
    with pytest.raises(StackFailed, match="no stack is ready"):
        _ = own_stack.known


def test_a_stack_follows_the_program_that_started_it_even_if_that_is_killed(root: Path) -> None:
    program = (
        f"from pathlib import Path; from joiner_local.stack import Stack; Stack(Path({str(root)!r})).start(); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as starter:
        try:
            leader = wait_ready(root).supervisor
        finally:
            starter.kill()
    wait_gone(root, leader)


def test_a_stack_that_was_let_go_runs_beside_others_until_it_is_ended_and_leaves_no_process_behind(
    bare_stack: Stack, root: Path
) -> None:
    program = (
        f"from pathlib import Path; from joiner_local.stack import Stack; Stack(Path({str(root)!r})).start().detach()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    time.sleep(0.5)
    stack = Stack(root)
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
    """Whoever runs tests in the background hands SIGINT on as ignored; at a terminal it is not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_during_the_start_leaves_nothing(root: Path) -> None:
    joiner = Path(sys.executable).parent / "joiner"
    command: list[str | Path] = [joiner, "local", "up", "--no-deploy", "--root", root]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=hear_ctrl_c) as starting:  # noqa: PLW1509  one call, no lock
        while (record := StackRecord.read(root)) is None or not record.steps:
            assert starting.poll() is None
            time.sleep(0.02)
        starting.send_signal(signal.SIGINT)
        assert "joiner: interrupted" in starting.communicate()[1]
    assert starting.returncode == 130
    wait_gone(root, record.supervisor)


def test_a_program_of_the_stack_that_ends_ends_the_stack_and_is_named(own_stack: Stack) -> None:
    leader = own_stack.known.supervisor
    kwok = next(
        member for member in session_members(leader) if Path(f"/proc/{member.pid}/comm").read_text().strip() == "kwok"
    )
    kwok.signal(signal.SIGKILL)
    wait_gone(own_stack.root, leader)
    with pytest.raises(StackFailed, match="kwok ended with -9"):
        _ = own_stack.known


def test_what_a_crash_left_is_no_hindrance(root: Path) -> None:
    """The record of a process that is gone, its number perhaps given to somebody else since."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        StackRecord(cluster="joiner-demo", supervisor=Identity(stranger.pid, "another boot/1"), state="ready").write(
            root
        )
        stack = Stack(root)
        assert not stack.is_running
        assert not stack.stop()
        assert stranger.poll() is None
        stranger.kill()


def test_a_second_start_in_the_same_folder_is_refused(bare_stack: Stack) -> None:
    with pytest.raises(StackFailed, match=f"process {bare_stack.known.supervisor.pid}"):
        Stack(bare_stack.root).start()
    assert bare_stack.is_running


def test_a_second_deployment_at_the_same_time_is_refused(bare_stack: Stack) -> None:
    with (bare_stack.root / "deployment.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StackFailed, match="is under way: wait"):
            bare_stack.deploy()


def test_a_wrong_knob_lists_all_there_are(bare_stack: Stack) -> None:
    for name in ("which", "agent/which"):
        said = CliRunner().invoke(app, ["local", "knob", name, "--root", str(bare_stack.root)])
        assert said.exit_code == 1
        assert {"capacity", "agent/boot"} <= set(said.stderr.replace(",", " ").split())

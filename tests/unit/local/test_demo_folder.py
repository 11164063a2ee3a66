"""The folder of a demonstration: nothing stays of it, but the logs that an error names."""

from pathlib import Path

import pytest

from joiner_local.demo.demonstration import temporary_root
from joiner_local.stack.stack_control import StackFailed


def fill(root: Path) -> Path:
    """Make what a stack leaves; return a log."""
    for folder in ("etcd/member", "log"):
        (root / folder).mkdir(parents=True)
    (root / "kubeconfig").touch()
    log = root / "log" / "etcd.log"
    log.write_text("no space left on device")
    return log


def test_nothing_stays_of_a_complete_demonstration(tmp_path: Path) -> None:
    with temporary_root(tmp_path) as root:
        fill(root)

    assert list(tmp_path.iterdir()) == []


def test_the_logs_of_a_failed_one_stay_and_are_named(tmp_path: Path) -> None:
    logs = []
    with pytest.raises(StackFailed) as failure, temporary_root(tmp_path) as root:
        logs.append(fill(root))
        raise StackFailed(f"etcd ended with 1; the end of {logs[0]}")

    [folder] = tmp_path.iterdir()
    assert [path for path in folder.rglob("*") if path.is_file()] == logs
    assert failure.value.__notes__ == [f"the logs are kept in {logs[0].parent}"]


def test_nothing_stays_of_one_that_was_interrupted(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), temporary_root(tmp_path) as root:
        fill(root)
        raise KeyboardInterrupt

    assert list(tmp_path.iterdir()) == []


def test_a_failure_before_the_first_log_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(StackFailed) as failure, temporary_root(tmp_path):
        raise StackFailed("no etcd")

    assert list(tmp_path.iterdir()) == []
    assert not hasattr(failure.value, "__notes__")

"""Expensive results are computed once, completely or not at all, however many callers need them at once."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from joiner_local.tooling import build_cache


def test_what_was_made_is_not_made_again(tmp_path: Path) -> None:
    made: list[Path] = []
    for _ in range(2):
        folder = build_cache.made_once(tmp_path / "cake", made.append, what="cake", say=print)
    assert folder == tmp_path / "cake"
    assert len(made) == 1


def test_what_failed_half_way_is_not_there(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        build_cache.made_once(tmp_path / "cake", fail, what="cake", say=print)
    assert [path.name for path in tmp_path.iterdir()] == ["cake.lock"]


def test_two_processes_that_want_it_at_once_make_it_once(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from joiner_local.tooling import build_cache

        def make(folder):
            print("making", flush=True)
            time.sleep(0.5)
            (folder / "whole").touch()

        folder = build_cache.made_once(Path({str(tmp_path)!r}) / "cake", make, what="cake", say=print)
        assert (folder / "whole").exists()
        print("have it")
    """)
    both = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    output = "".join(each.communicate()[0] for each in both)
    assert output.count("making") == 1
    assert output.count("have it") == 2

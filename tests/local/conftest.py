"""A local AWS of a test's own; the one that all share is in the conftest above."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.running_aws import RunningAws, started_server


@pytest.fixture
def own_aws(tmp_path: Path) -> Iterator[tuple[RunningAws, subprocess.Popen[str]]]:
    """A server of the test's own, to do with as it likes."""
    with started_server(tmp_path) as started:
        yield started

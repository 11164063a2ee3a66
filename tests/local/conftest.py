"""A local AWS for a single test; the shared one is in the parent folder's conftest."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.running_aws import RunningAws, started_server


@pytest.fixture
def own_aws(tmp_path: Path) -> Iterator[tuple[RunningAws, subprocess.Popen[str]]]:
    """Return a server for this test alone, which may change it in any way."""
    with started_server(tmp_path) as started:
        yield started

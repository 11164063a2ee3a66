"""One local AWS for all tests here: the real server process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.local.running_aws import RunningAws


@contextmanager
def started_server(data: Path) -> Iterator[tuple[RunningAws, subprocess.Popen[str]]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with (data / "server.log").open("w") as log:
        command = [sys.executable, "-m", "joiner_local.aws.server", "--port", "0", "--data", str(data)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    assert server.stdout is not None
    try:
        ready = server.stdout.readline().split()
        assert ready[:1] == ["ready"], (data / "server.log").read_text()
        yield RunningAws(ready[1], data), server
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


@pytest.fixture(scope="session")
def local_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAws]:
    with started_server(tmp_path_factory.mktemp("local-aws")) as (aws, _):
        yield aws


@pytest.fixture
def own_aws(tmp_path: Path) -> Iterator[tuple[RunningAws, subprocess.Popen[str]]]:
    """A server of the test's own, to do with as it likes."""
    with started_server(tmp_path) as started:
        yield started

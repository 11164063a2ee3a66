"""One local AWS for all tests here: the real server process."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.local.running_aws import RunningAws


@pytest.fixture(scope="session")
def local_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAws]:
    data = tmp_path_factory.mktemp("local-aws")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with (data / "server.log").open("w") as log:
        command = [sys.executable, "-m", "joiner_local.aws.server", "--port", "0", "--data", str(data)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    try:
        assert server.stdout is not None
        ready = server.stdout.readline().split()
        assert ready[:1] == ["ready"], (data / "server.log").read_text()
        yield RunningAws(ready[1], data)
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()

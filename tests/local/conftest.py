"""Fixtures of the tests of the local AWS. The shared server is a fixture of the parent folder."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.running_aws import RunningAws, started_server
from tests.local.state_machine_runs import Sfn


@pytest.fixture
def own_aws(tmp_path: Path) -> Iterator[tuple[RunningAws, subprocess.Popen[str]]]:
    """Return a server for this test alone, which may change it in any way."""
    with started_server(tmp_path) as started:
        yield started


@pytest.fixture
def sfn(local_aws: RunningAws) -> Sfn:
    return Sfn(local_aws)


@pytest.fixture(scope="module")
def table(local_aws: RunningAws) -> str:
    """Return the name of an empty table."""
    return local_aws.table()

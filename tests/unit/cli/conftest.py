"""A small catalogue, written once: what it holds is in ``small_catalogue``."""

from pathlib import Path

import pytest

from tests.unit.cli.small_catalogue import written


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("catalogue"))

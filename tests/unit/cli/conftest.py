"""A small catalogue, written once: what it holds is in ``small_catalogue``. And an account in memory: see
``installed_account``.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.installed_account import InstalledAccount, aws_in_memory
from tests.unit.cli.small_catalogue import written


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledAccount]:
    with aws_in_memory(monkeypatch):
        made = InstalledAccount()
        yield made
        made.remove()

"""A small catalogue, written once: what it holds is in ``small_catalogue``. And an account in memory: see
``installed_account``.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from botocore import loaders

from tests.unit.cli.installed_account import InstalledAccount, aws_in_memory
from tests.unit.cli.small_catalogue import written

READ = cache(loaders.JSONFileLoader().load_file)
"""Each model of botocore, read once: every session reads its own, which takes longer than most commands."""


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("catalogue"))


@pytest.fixture(scope="module", autouse=True)
def models_are_read_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaders.JSONFileLoader, "load_file", staticmethod(READ))
        yield


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledAccount]:
    with aws_in_memory(monkeypatch):
        made = InstalledAccount()
        yield made
        made.remove()

"""The fake API server passes the contract of the real one."""

import pytest

from joiner.adapters.kube import Kube
from tests.kube_contract import KubeContract
from tests.unit.functions.fake_kube import FakeKube


class TestFakeKube(KubeContract):
    @pytest.fixture
    def client(self) -> Kube:
        return FakeKube()

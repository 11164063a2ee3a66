"""One fault at one call, anywhere in a scale-up: calls of the API server, EC2, DynamoDB and S3 are counted together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from botocore.exceptions import ReadTimeoutError

from joiner.adapters.kube_errors import Unreachable
from tests.unit.functions.simulated_cluster import SimulatedCluster


class Fault(Enum):
    """What happens to one call, and whether the execution continues."""

    REFUSED = "refused"
    ANSWER_LOST = "done, but the answer lost"
    KILLED_BEFORE = "the execution killed before it"
    KILLED_AFTER = "the execution killed after it"

    @property
    def kills(self) -> bool:
        return self in (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)

    @property
    def does(self) -> bool:
        return self in (Fault.ANSWER_LOST, Fault.KILLED_AFTER)


@dataclass
class Trouble:
    """Counts all calls, and makes call number `at` fail."""

    cluster: SimulatedCluster
    fault: Fault | None = None
    at: int = -1
    calls: list[str] = field(default_factory=list)

    def __enter__(self) -> "Trouble":
        self.cluster.kube.fault = lambda method, path, do: self._call(
            f"{method} {path}", do, lambda: Unreachable("no answer")
        )
        self.cluster.ec2.fault = lambda name, do: self._call(
            name, do, lambda: ReadTimeoutError(endpoint_url="https://ec2")
        )
        self._clients = (self.cluster.ledger._client, self.cluster.store._client)
        self.cluster.ledger._client = FaultyClient(self._clients[0], self)
        self.cluster.store._client = FaultyClient(self._clients[1], self)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.kube.fault = self.cluster.ec2.fault = None
        self.cluster.ledger._client, self.cluster.store._client = self._clients

    def _call(self, name: str, do: Callable[[], Any], error: Callable[[], Exception]) -> Any:
        number = len(self.calls)
        self.calls.append(name)
        if self.fault is None or number < self.at:
            return do()
        if number > self.at and not self.fault.kills:
            return do()
        if number == self.at and self.fault.does:
            do()
        raise error()


@dataclass
class FaultyClient:
    """A boto3 client whose calls go through `Trouble`."""

    client: Any
    trouble: Trouble

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.client, name)
        lost = ReadTimeoutError(endpoint_url=f"https://{name}")
        return lambda **asked: self.trouble._call(name, lambda: call(**asked), lambda: lost)

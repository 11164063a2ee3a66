"""A launch that EC2 refuses, as a row of a table, and the calls that such rows make."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from joiner_local.aws.account_setup.cluster_network import Network
from tests.local.launch_fixtures import LaunchPad, launched
from tests.local.running_aws import RunningAws

TAG: Final = [{"Key": "a", "Value": "1"}]


class Bench:
    """An account with a network, and calls that EC2 refuses."""

    def __init__(self, aws: RunningAws, network: Network) -> None:
        self.aws, self.network = aws, network
        self.ec2 = aws.client("ec2")

    def pad(self, **data: Any) -> LaunchPad:
        return LaunchPad.build(self.ec2, self.aws.client("ssm"), self.network, self.aws.fresh("template"), **data)

    def hidden(self) -> str:
        """Return an instance that was launched a moment ago."""
        self.aws.knob("visibility", seconds=60)
        pad = self.pad()
        return launched(pad.fleet([pad.override()]))[0]


def tagged(*kinds: str) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": TAG} for kind in kinds]


@dataclass(frozen=True, slots=True)
class LaunchRefusal:
    """A call that AWS refuses. `pool`: AWS refuses this pool of the fleet only, in the response's `Errors`."""

    what: str
    call: Callable[[Bench], Any]
    code: str
    message: str
    source: str
    pool: bool = False


def fleet(
    template: dict[str, Any] | None = None, *, spot: bool = False, overrides: int = 1, **more: Any
) -> Callable[[Bench], Any]:
    def call(bench: Bench) -> Any:
        pad = bench.pad(**(template or {}))
        return pad.fleet([pad.override() for _ in range(overrides)], spot=spot, **more)

    return call

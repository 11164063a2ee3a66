"""A launch whose item does not contain a launch stops no other launch, and every survey reports it."""

from typing import Any

import pytest

from joiner.adapters.kube_claims import list_claims
from joiner.pools import NodeClaim
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import pending


def broken_launch(cluster: SimulatedCluster, launch_id: str, state: str, **texts: str) -> None:
    """Return an item that DynamoDB can store and no version of Joiner wrote."""
    values: dict[str, Any] = {":state": state, ":no": False, ":claims": ("nobody",)}
    values |= {f":{name}": value for name, value in texts.items()}
    sets = ", ".join(f"#{name} = :{name}" for name in texts)
    names = {"#state": "state"} | {f"#{name}": name for name in texts}
    cluster.machine._update(
        "LAUNCH", launch_id, f"SET #state = :state, recorded = :no, claims = :claims, {sets}", values, names=names
    )


def claims(cluster: SimulatedCluster) -> list[NodeClaim]:
    return list(list_claims(cluster.kube).claims)


@pytest.mark.parametrize("state", ["open", "closed"])
@pytest.mark.parametrize(
    "texts",
    [{"request": "{}", "details": "{}", "outcome": "[]"}, {"request": "{", "details": "{}", "outcome": "{}"}],
    ids=["another shape", "broken JSON"],
)
def test_a_launch_of_another_content_stops_no_other(
    cluster: SimulatedCluster, state: str, texts: dict[str, str]
) -> None:
    cluster.prepare(pending("web-1"))
    broken_launch(cluster, "a-broken", state, **texts)

    cluster.scale_up("up-1")

    (claim,) = claims(cluster)
    assert claim.initialized
    assert [launch.id for launch in cluster.ledger.unrecorded_launches()] == ["a-broken"]

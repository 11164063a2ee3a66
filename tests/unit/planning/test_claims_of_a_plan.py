"""A plan takes some of many standalone claims, so that pending pods do not wait for all of them."""

from typing import Any

from joiner.catalogue import Catalogue
from joiner.planning import Snapshot
from joiner.planning.inputs.claim_pools import CLAIMS_OF_A_PLAN, count_left_out, with_claim_pools
from joiner.planning.planner import Planner
from tests.unit.planning.checked_plans import cluster
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, node_pool, pods

MANY = 3 * CLAIMS_OF_A_PLAN - 5


def claim(number: int, *, refused: bool = False) -> dict[str, Any]:
    condition = {"type": "Launched", "status": "False", "reason": "NotLaunchable", "message": "no offer"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"mine-{number:02}", "uid": f"uid-{number}", "annotations": {"note": str(number)}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [],
        },
        "status": {"conditions": [condition] if refused else []},
    }


def taken(snapshot: Snapshot, turn: int) -> list[str]:
    return [pool.claim for pool in with_claim_pools(snapshot, turn).pools if pool.claim]


def of_claims(*claims: dict[str, Any]) -> Snapshot:
    return Snapshot.from_lists(cluster(pods(1), node_pool(), nodeclaims=claims))


def test_a_plan_takes_a_limited_number_of_claims_and_those_first_that_were_not_refused() -> None:
    snapshot = of_claims(*(claim(number, refused=number < MANY - 3) for number in range(MANY)))

    found = taken(snapshot, 0)

    assert len(found) == CLAIMS_OF_A_PLAN
    assert found[:4] == [f"NodeClaim/mine-{number:02}" for number in (MANY - 3, MANY - 2, MANY - 1, 0)]
    assert count_left_out(snapshot) == MANY - CLAIMS_OF_A_PLAN


def test_claims_that_were_refused_are_taken_in_turn() -> None:
    snapshot = of_claims(*(claim(number, refused=True) for number in range(MANY)))

    assert {one for turn in range(3) for one in taken(snapshot, turn)} == {
        f"NodeClaim/mine-{number:02}" for number in range(MANY)
    }
    assert taken(snapshot, 1) == taken(snapshot, 1) != taken(snapshot, 2)


def test_claims_that_differ_in_their_names_share_their_offers() -> None:
    snapshot = with_claim_pools(of_claims(*map(claim, range(3))))

    state = Planner().state(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES)

    fixed = [offers.fixed for offers in state.offered_pools if offers.fixed]
    assert len(fixed) == 3 and len({id(each.offer_set) for each in fixed}) == 1
    assert [node.made.pool_offers.pool.claim for node in state.existing if node.made] == [
        f"NodeClaim/mine-{number:02}" for number in range(3)
    ]


def test_the_nearest_type_of_a_claim_lacks_least_of_all_resources_and_is_the_cheapest_of_those() -> None:
    asking = claim(0)
    asking["spec"]["resources"] = {"requests": {"cpu": "3", "memory": "1Gi", "example.com/foo": "1"}}
    snapshot = with_claim_pools(of_claims(asking))

    state = Planner().state(snapshot, Catalogue.from_json(CATALOGUE), classes=CLASSES)

    (missing,) = state.unlaunched
    enough = {name: one for name, one in CATALOGUE.items() if int(one["capacity"]["cpu"]) >= 4}
    cheapest = min(enough, key=lambda name: min(each["pricePerHour"] for each in enough[name]["offerings"]))
    assert f"the nearest, {cheapest}, is short of 1 example.com/foo" in missing.reason

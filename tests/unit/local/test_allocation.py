"""Laws of fleet allocation that hold for every strategy and any state of the pools."""

import math

from hypothesis import given
from hypothesis import strategies as st

from joiner_local.aws.ec2.capacity_pools import SPOT, CapacityPool
from joiner_local.aws.ec2.fleet_allocation import PoolRefusal, PricedPool, allocate
from joiner_local.aws.ec2.fleet_requests import STRATEGIES, FleetRequest, LaunchPool

ROOMS = st.lists(st.integers(0, 6), min_size=1, max_size=6)
WEIGHTS = st.lists(st.sampled_from([1.0, 2.0, 3.0]), min_size=6, max_size=6)


def launch_pool(index: int, lifecycle: str, weight: float) -> LaunchPool:
    pool = CapacityPool(f"m{index // 2}.large", f"zone-{index % 2}", lifecycle)
    return LaunchPool(pool, {}, "subnet", weight, float(index), {"LaunchTemplateId": "lt", "Version": "1"}, {})


class Rooms:
    """Pools that have so many left each."""

    def __init__(self, left: dict[CapacityPool, int]) -> None:
        self.left = left

    def draw(self, asked: LaunchPool, wanted: int) -> tuple[int, PoolRefusal | None]:
        given_now = min(wanted, self.left[asked.pool])
        self.left[asked.pool] -= given_now
        return given_now, None if given_now == wanted else PoolRefusal(asked, "InsufficientInstanceCapacity", "")

    def give_back(self, asked: LaunchPool, count: int) -> None:
        self.left[asked.pool] += count


@given(
    target=st.integers(1, 20),
    rooms=ROOMS,
    weights=WEIGHTS,
    kind=st.sampled_from(
        [(lifecycle, strategy) for lifecycle, strategies in STRATEGIES.items() for strategy in strategies]
    ),
    single=st.sampled_from(["", "type", "zone"]),
    minimum=st.integers(0, 5),
)
def test_a_fleet_gets_what_there_is_and_no_more_than_it_asked_for(
    *, target: int, rooms: list[int], weights: list[float], kind: tuple[str, str], single: str, minimum: int
) -> None:
    lifecycle, strategy = kind
    pools = [launch_pool(index, lifecycle, weights[index]) for index in range(len(rooms))]
    before = {asked.pool: room for asked, room in zip(pools, rooms, strict=True)}
    free = Rooms(dict(before))
    request = FleetRequest(
        lifecycle, target, strategy, single == "type", single == "zone", minimum if single else 0, tuple(pools), {}
    )

    allocation = allocate(
        request, [PricedPool(asked, 0.1, before[asked.pool]) for asked in pools], free.draw, free.give_back
    )

    granted = {pool: sum(count for asked, count in allocation.granted if asked.pool == pool) for pool in before}
    assert {pool: before[pool] - free.left[pool] for pool in before} == granted  # nothing is lost
    assert allocation.capacity < target + max(weights)
    if single:
        assert len({pool.instance_type if single == "type" else pool.zone for pool in granted if granted[pool]}) <= 1
        assert not allocation.granted or allocation.capacity >= minimum
    elif allocation.capacity < target:
        assert not any(free.left.values())
        assert allocation.refused


def test_prices_a_unit_of_weight_are_compared() -> None:
    small, large = launch_pool(0, SPOT, 1.0), launch_pool(2, SPOT, 4.0)
    free = Rooms({small.pool: 9, large.pool: 9})
    request = FleetRequest(SPOT, 8, "lowest-price", False, False, 0, (small, large), {})

    allocation = allocate(
        request, [PricedPool(small, 0.10, math.inf), PricedPool(large, 0.30, math.inf)], free.draw, free.give_back
    )

    assert allocation.granted == [(large, 2)]

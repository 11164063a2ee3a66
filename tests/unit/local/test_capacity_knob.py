"""The knob of capacity: it limits what there is, and refuses what there is not."""

from typing import Any

import pytest

from joiner_local.aws.ec2.capacity_pools import CapacityLimit


def test_a_limit_names_what_there_is_or_all() -> None:
    assert CapacityLimit.from_knob({"instanceType": "m5.large", "zone": "us-east-1a", "available": 2}) == CapacityLimit(
        "m5.large", "us-east-1a", "*", 2
    )
    assert CapacityLimit.from_knob({"available": None}) == CapacityLimit()


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"instanceType": "m5.lrage"}, "instanceType is 'm5.lrage': there is none called so; did you mean m5.large, "),
        ({"instanceType": 5}, "instanceType is 5: there is none called so; see `joiner catalogue`"),
        ({"zone": "us-east-1"}, "zone is 'us-east-1': there is none called so; did you mean us-east-1"),
        ({"available": -1}, "available is -1: give a whole number of instances, or null for plenty"),
        ({"available": "2"}, "available is '2': give a whole number"),
        ({"lifecycle": "sport"}, "lifecycle sport is not known; there are"),
        ({"type": "m5.large"}, "capacity: type is not known; there are available, "),
    ],
)
def test_what_there_is_not_is_refused(asked: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ValueError, match=r"^capacity: ") as caught:
        CapacityLimit.from_knob(asked)

    assert refusal in str(caught.value)

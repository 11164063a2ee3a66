"""The recorded deadline of a drain (of an interruption) is on the claim if it is near: room for pods that nothing else
makes leave is then launched at once."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from joiner.lifecycle.retirement import RetirementReason, with_deadline
from joiner.pools import NodeClaim, NodeClassRef

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLAIM = replace(NodeClaim("a", NodeClassRef("EC2NodeClass", "default")), deletion=NOON)
KEY = "karpenter.sh/nodeclaim-termination-timestamp"


@pytest.mark.parametrize(
    ("grace", "seconds", "written"),
    [
        (None, 120, "2026-11-21T12:02:00Z"),
        (60, 120, "2026-11-21T12:01:00Z"),
        (3600, 120, "2026-11-21T12:02:00Z"),
        (None, 600, "2026-11-21T12:10:00Z"),
        (None, 601, ""),
        (3600, 601, "2026-11-21T13:00:00Z"),
        (None, 0, ""),
    ],
)
def test_a_near_deadline_that_is_recorded_is_written_on_the_claim(
    grace: int | None, seconds: int, written: str
) -> None:
    claim = replace(CLAIM, termination_grace_period=grace)
    ends_at = int(NOON.timestamp()) + seconds if seconds else 0

    dated = with_deadline(claim, RetirementReason.SPOT, ends_at)
    assert (dated.annotations[KEY] if dated else "") == written
    if dated:
        assert with_deadline(dated, RetirementReason.SPOT, ends_at) is None, "it is written once"

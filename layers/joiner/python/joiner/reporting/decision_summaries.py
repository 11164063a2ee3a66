"""Summaries of plans and proposals, as the state machines pass them on and the console shows them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from joiner.disruption.proposal import DisruptionAction, Proposal
from joiner.planning import Plan
from joiner.reporting.shortened_reasons import shortened

KINDS_OF_NODES_SHOWN: Final = 20
PENDING_REASONS_SHOWN: Final = 10
ACTIONS_SHOWN: Final = 20


def summarize_plan(made: Plan) -> dict[str, Any]:
    """Return a summary of a plan: ``{"nodes", "pods", "existing", "pending", "pricePerHour", "lowerBoundPerHour",
    "gap", "nodePools", "pendingReasons"}``; the two lists are truncated.
    """
    kinds = Counter((node.pool_name, node.instance_type, node.zone, node.capacity_type) for node in made.nodes)
    reasons = Counter(str(reason) for pod in made.pending for reason in pod.reasons)
    return {
        "nodes": len(made.nodes),
        "pods": made.pods_placed,
        "existing": len(made.existing),
        "pending": len(made.pending),
        "pricePerHour": made.price_per_hour,
        "lowerBoundPerHour": made.lower_bound_per_hour,
        "gap": made.gap,
        "nodePools": [
            {"nodePool": pool, "instanceType": kind, "zone": zone, "capacityType": capacity_type, "count": count}
            for (pool, kind, zone, capacity_type), count in kinds.most_common(KINDS_OF_NODES_SHOWN)
        ],
        "pendingReasons": shortened(
            (
                f"{count} {'pod' if count == 1 else 'pods'}: {reason}"
                for reason, count in reasons.most_common(PENDING_REASONS_SHOWN)
            ),
            PENDING_REASONS_SHOWN,
        ),
    }


def summarize_proposal(made: Proposal) -> dict[str, Any]:
    """Return a summary of a proposal: ``{"actions", "replacements", "remaining", "kept", "pricePerHour",
    "lowerBoundPerHour", "messages"}``; the messages are truncated.
    """
    messages = [_message(action) for action in made.actions]
    return {
        "actions": len(made.actions),
        "replacements": sum(len(action.replacements) for action in made.actions),
        "remaining": made.remaining,
        "kept": dict(sorted(Counter(one.condition for one in made.kept).items())),
        "pricePerHour": made.price_per_hour,
        "lowerBoundPerHour": made.lower_bound_per_hour,
        "messages": shortened(messages, ACTIONS_SHOWN),
    }


def _message(action: DisruptionAction) -> str:
    named: Sequence[str] = action.claims[:3]
    return f"{', '.join(named)}: {action.message}"

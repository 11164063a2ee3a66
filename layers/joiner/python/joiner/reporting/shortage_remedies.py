"""Remedies for capacity shortages that do not end by themselves, added to the reasons of pending pods.

Most shortages of capacity are temporary. A quota that is used up, or a missing service-linked role of an account, is
not: EC2 answers with the same kind of error, and the pods would stay pending.
"""

from collections.abc import Collection
from dataclasses import replace

from joiner.launching.ec2_error_codes import ALL_SPOT_ERRORS, CAPACITY_ERRORS, REMEDIES
from joiner.names import SPOT
from joiner.planning import Plan, Reason

SHORT = "short of capacity"


def find_shortage_remedy(code: str) -> str:
    """Return the remedy for an EC2 code of a shortage; empty if the shortage is temporary.

    >>> find_shortage_remedy("AuthFailure.ServiceLinkedRoleCreationNotPermitted")
    'run: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com'
    >>> find_shortage_remedy("InsufficientInstanceCapacity")
    ''
    """
    return REMEDIES[code].remedy if code in CAPACITY_ERRORS and code in REMEDIES else ""


def add_remedies(plan: Plan, marks: Collection[tuple[str, str]]) -> Plan:
    """Return the plan with remedies added to the reasons of pods that need unavailable offerings.

    ``marks``: pairs of an offering's capacity type and EC2's code.
    """
    if not any(find_shortage_remedy(code) for _, code in marks):
        return plan
    pending = tuple(
        replace(each, reasons=tuple(_explained(reason, marks) for reason in each.reasons)) for each in plan.pending
    )
    return replace(plan, pending=pending)


def _explained(reason: Reason, marks: Collection[tuple[str, str]]) -> Reason:
    if SHORT not in reason.reason:
        return reason
    codes = sorted(
        {code for kind, code in marks if find_shortage_remedy(code) and _is_about(reason.reason, kind, code)}
    )
    remedies = "; ".join(f"EC2 answered {code}: {find_shortage_remedy(code)}" for code in codes)
    return replace(reason, reason=f"{reason.reason}. {remedies}") if remedies else reason


def _is_about(reason: str, capacity_type: str, code: str) -> bool:
    """Return whether the reason names offerings that this shortage affects. Reasons name capacity types."""
    return f"{SPOT} " in reason if code in ALL_SPOT_ERRORS else f"{capacity_type} " in reason

"""Remedies for capacity shortages that do not pass by themselves, added to the reasons of pending pods.

A shortage of capacity passes. A quota that is used up, or a service-linked role that an account lacks, does not: EC2
answers with the same kind of error, and the pods would wait for good.
"""

from collections.abc import Collection
from dataclasses import replace

from joiner.launching.ec2_error_codes import ALL_SPOT_ERRORS, CAPACITY_ERRORS, REMEDIES
from joiner.names import SPOT
from joiner.planning import Plan, Reason

SHORT = "short of capacity"


def find_shortage_remedy(code: str) -> str:
    """The remedy for a code of EC2's that means a shortage; empty where it passes without one.

    >>> find_shortage_remedy("AuthFailure.ServiceLinkedRoleCreationNotPermitted")
    'run: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com'
    >>> find_shortage_remedy("InsufficientInstanceCapacity")
    ''
    """
    return REMEDIES[code].remedy if code in CAPACITY_ERRORS and code in REMEDIES else ""


def add_remedies(plan: Plan, marks: Collection[tuple[str, str]]) -> Plan:
    """The plan, whose pods that wait for short offerings say what helps. ``marks``: the capacity type of an offering,
    and EC2's code.
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
    said = "; ".join(f"EC2 answered {code}: {find_shortage_remedy(code)}" for code in codes)
    return replace(reason, reason=f"{reason.reason}. {said}") if said else reason


def _is_about(reason: str, capacity_type: str, code: str) -> bool:
    """The reason names some of the offerings that would do, by capacity type."""
    return f"{SPOT} " in reason if code in ALL_SPOT_ERRORS else f"{capacity_type} " in reason

"""What keeps a pod on a node that is drained, and what its owner can change.

Source: Kubernetes, "API-initiated eviction": a refusal (429) has a cause that names the PodDisruptionBudget.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from joiner.names import DO_NOT_DISRUPT

INTERNAL_ERROR: Final = 500
SEVERAL_BUDGETS: Final = "more than one PodDisruptionBudget"
"""The eviction API answers with an internal error and this text if several budgets select the pod."""

BUDGET: Final = re.compile(r"The disruption budget (?P<name>\S+) (?P<state>.+?)\.?")
PROTECTED: Final = "asks not to be disrupted"
HELD_BY_BUDGET: Final = "is held by its disruption budget"
SEVERAL: Final = "several PodDisruptionBudgets"
REMEDIES: Final[Mapping[str, str]] = {
    HELD_BY_BUDGET: (
        "let the PodDisruptionBudget allow a disruption (more healthy replicas, or other numbers in the budget)"
    ),
    PROTECTED: f"remove {DO_NOT_DISRUPT} from the pod",
    SEVERAL: "let one PodDisruptionBudget select the pod",
}
"""What lets a pod leave, by the words of its blocker."""


def describe_blocker(pod: str, status: int, error: str, *, by_budget: bool) -> str:
    """Return why a pod (by key) could not be evicted or deleted, from the HTTP status and the error of the API server.

    `by_budget`: the error is the sentence of the API server about a PodDisruptionBudget, which may be empty.

    >>> sentence = "The disruption budget db needs 2 healthy pods and has 1 currently"
    >>> describe_blocker("shop/db-0", 429, sentence, by_budget=True)
    'pod shop/db-0 is held by its disruption budget db, which needs 2 healthy pods and has 1 currently'
    """
    if by_budget:
        known = BUDGET.fullmatch(error)
        which = f" {known['name']}, which {known['state']}" if known else f": {error}" if error else ""
        return f"pod {pod} {HELD_BY_BUDGET}{which}"
    if status == INTERNAL_ERROR and SEVERAL_BUDGETS in error:
        return f"pod {pod} is selected by {SEVERAL}, and the eviction API accepts only one"
    return f"pod {pod}: {error}"


def list_remedies(blockers: Iterable[str]) -> list[str]:
    """Return what lets the pods of these blockers leave, once for each kind of blocker.

    >>> list_remedies(["pod shop/web is held by its disruption budget web, which needs 1 healthy pods and has 1"])
    ['let the PodDisruptionBudget allow a disruption (more healthy replicas, or other numbers in the budget)']
    """
    known = list(blockers)
    return [remedy for words, remedy in REMEDIES.items() if any(words in one for one in known)]

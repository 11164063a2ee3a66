"""The status of a pool: its resources, and whether it can be used.

Broken pools also get a status, because their authors read it.
"""

from collections.abc import Sequence
from datetime import datetime

from joiner.pools.conditions import Conditions
from joiner.pools.invalid_manifests import InvalidManifest
from joiner.pools.resolved_node_class import ResolvedNodeClass

MESSAGE_LIMIT = 1024  # characters; users read conditions on a screen
DEPENDENTS = ("ValidationSucceeded", "NodeClassReady")


def compute_pool_conditions(
    before: Conditions,
    *,
    problems: Sequence[InvalidManifest],
    node_class: ResolvedNodeClass | None,
    class_key: str,
    absent: tuple[str, str],
    generation: int,
    at: datetime,
    legacy: bool = False,
) -> Conditions:
    """Return the conditions of a pool with these problems and this class.

    ``node_class`` is None if it was not resolved: ``absent`` is the reason and the message then. A Provisioner also has
    ``Active``, for compatibility.
    """
    errors = [problem for problem in problems if problem.severity == "error"]
    text = "; ".join(problem.message for problem in (errors or problems))[:MESSAGE_LIMIT]
    reason = "ValidationFailed" if errors else _reason_of_notes(problems)
    after = before.set("ValidationSucceeded", "False" if errors else "True", reason, text, at=at, generation=generation)
    if node_class is None:
        reason, message = absent[0], absent[1][:MESSAGE_LIMIT]
        after = after.set("NodeClassReady", "False", reason, message, at=at, generation=generation)
    elif not node_class.ready:
        missing = next(problem for problem in node_class.problems if problem.severity == "error")
        after = after.set(
            "NodeClassReady", "False", missing.reason, f"{class_key}: {missing.message}", at=at, generation=generation
        )
    else:
        reason, notes = _notes_of_inline(node_class)
        after = after.set("NodeClassReady", "True", reason, notes, at=at, generation=generation)
    after = after.with_ready(*DEPENDENTS, at=at, generation=generation)
    ready = after["Ready"]
    return (
        after.set("Active", ready.status, ready.reason, ready.message, at=at, generation=generation)
        if legacy
        else after
    )


def _reason_of_notes(problems: Sequence[InvalidManifest]) -> str:
    if not problems:
        return "ValidationSucceeded"
    return "DefaultsAssumed" if all(problem.severity == "info" for problem in problems) else "WithoutEffect"


def _notes_of_inline(node_class: ResolvedNodeClass) -> tuple[str, str]:
    """Return the reason and the message for a usable class. An inline class has no status of its own, so its warnings
    and assumptions are in the status of its Provisioner.
    """
    if node_class.kind != "Inline" or not node_class.problems:
        return "NodeClassReady", ""
    return node_class.problems[0].reason, "; ".join(problem.message for problem in node_class.problems)[:MESSAGE_LIMIT]

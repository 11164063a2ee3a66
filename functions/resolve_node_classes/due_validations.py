"""Which node classes need new dry runs, and the launches that these try.

Only the detection of drift asks for this: no pod waits for it. The modules that build launches are imported only then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger

from joiner.adapters import documents
from joiner.adapters.class_validations import ClassToValidate
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.adapters.payload import Task
from joiner.adapters.store import Store
from joiner.lifecycle.class_verdicts import ClassVerdict
from joiner.lifecycle.refused_classes import digest_class, hold_refused_class
from joiner.pools import NodeClass, NodePool, ResolvedNodeClass, complete_class

if TYPE_CHECKING:
    from joiner.catalogue import Catalogue
    from joiner.launching.validation_launches import ValidationLaunches

logger = Logger(child=True)


@dataclass(frozen=True, slots=True)
class KnownClass:
    """A node class as declared, what it resolved to before any refusal, and the pools that name it."""

    declared: NodeClass
    resolved: ResolvedNodeClass
    pools: tuple[NodePool, ...]

    @property
    def digest(self) -> str:
        """Return the digest of what decides whether EC2 allows its launches."""
        return digest_class(self.declared, self.resolved, self.pools)

    def held(self, verdicts: Mapping[str, ClassVerdict], now: int) -> ResolvedNodeClass:
        """Return the resolved class, not ready if EC2 refused its launches. `now` is in epoch seconds."""
        return hold_refused_class(self.resolved, self.declared, self.pools, verdicts, now)


def put_due_validations(
    store: Store,
    task: Task,
    classes: Sequence[KnownClass],
    verdicts: Mapping[str, ClassVerdict],
    now: int,
    *,
    time_left: TimeLeft = UNBOUNDED,
) -> str:
    """Store the launches to try of each ready class without a verdict of its present form; return the key, empty if
    there are none.

    `now` is in epoch seconds. Without a catalogue there are no launches yet. A class for which no time is left
    stays due.
    """
    due = []
    for known in classes:
        digest, verdict = known.digest, verdicts.get(known.resolved.key)
        if known.resolved.ready and (verdict is None or verdict.is_due(digest, now)):
            held = verdict.refusals if verdict and verdict.holds(digest, now) else ()
            due.append((known, digest, held))
    if not due:
        return ""
    try:
        catalogue = documents.get_catalogue(store)
    except documents.NoCatalogue as reason:
        logger.info("the launches of no class can be tried", reason=str(reason))
        return ""
    wanted = []
    for known, digest, held in due:
        if time_left.over:
            logger.warning("no time was left to try the launches of all classes", nodeclass=known.resolved.key)
            break
        found = _build(known, catalogue, task)
        if found and found.launches:
            wanted.append(ClassToValidate(known.resolved.key, digest, found.launches, held, found.whole))
    return documents.put_validations(store, task, wanted) if wanted else ""


def _build(known: KnownClass, catalogue: "Catalogue", task: Task) -> "ValidationLaunches | None":
    """Return the launches of one class; None if they cannot be built, which must not keep other classes from an
    answer."""
    from joiner.launching.validation_launches import build_validation_launches

    complete = complete_class(known.declared, known.resolved.launch_template)
    try:
        return build_validation_launches(
            complete, known.resolved, known.pools, catalogue, task.cluster, execution=task.execution.name
        )
    except Exception as reason:
        why = f"{type(reason).__name__}: {reason}"
        logger.error("the launches of a class could not be built", nodeclass=known.resolved.key, reason=why)
        return None

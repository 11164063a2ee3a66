"""What the plans of one planner reuse: offers that are compiled for inputs that did not change.

Offers depend on the pool, its class, the catalogue and the daemons, not on pending pods. In a cluster, these inputs
rarely change from one plan to the next, and compiling them takes a large part of a small plan. A result is determined
by its inputs alone, so a plan is the same with and without a cache.
"""

from collections.abc import Callable
from typing import Final

from joiner.catalogue.capacity_settings import NodeCapacities
from joiner.planning.model.computed_answers import Answer, ComputedAnswers
from joiner.planning.model.node_offers import OfferSet
from joiner.pools import InvalidManifest

MOST_OFFER_SETS: Final = 32
"""The number of offer sets that are kept: enough for the pools of a few clusters."""
MOST_DOMINANCE_ANSWERS: Final = 64
"""The number of sets of undominated offers that are kept. A plan asks for a few."""


class OfferCache:
    """The results of the last plans. It keeps the latest ones only, and needs no invalidation."""

    def __init__(self) -> None:
        self._sets: list[tuple[tuple[object, ...], OfferSet]] = []
        self._undominated = ComputedAnswers(MOST_DOMINANCE_ANSWERS)
        self._conflicts: tuple[object, tuple[InvalidManifest, ...]] | None = None
        self._capacities: list[tuple[tuple[object, ...], NodeCapacities]] = []

    def offer_set(self, inputs: tuple[object, ...], compile_set: Callable[[], OfferSet]) -> OfferSet:
        """Return the offer set of these inputs. Inputs are compared and not hashed; those that take long to compare
        should come last."""
        return _find_or_make(self._sets, inputs, compile_set)

    def capacities(self, inputs: tuple[object, ...], make: Callable[[], NodeCapacities]) -> NodeCapacities:
        """Return the capacities of nodes for these inputs, which are compared as those of an offer set."""
        return _find_or_make(self._capacities, inputs, make)

    def overlay_conflicts(
        self, inputs: tuple[object, ...], find: Callable[[], tuple[InvalidManifest, ...]]
    ) -> tuple[InvalidManifest, ...]:
        """Return the problems of the NodeOverlays of these inputs. Each state of one cluster asks for the same."""
        if self._conflicts is None or self._conflicts[0] != inputs:
            self._conflicts = (inputs, find())
        return self._conflicts[1]

    def undominated(self, question: object, find: Callable[[], Answer]) -> Answer:
        """Return the undominated offers for a question that names all inputs of the answer."""
        return self._undominated.find(question, find)


def _find_or_make(
    answers: list[tuple[tuple[object, ...], Answer]], inputs: tuple[object, ...], make: Callable[[], Answer]
) -> Answer:
    """Return the answer for these inputs. It becomes the first of the list, which keeps as many as there are offer
    sets."""
    position = next((position for position, (known, _) in enumerate(answers) if known == inputs), None)
    found = (inputs, make()) if position is None else answers.pop(position)
    answers.insert(0, found)
    del answers[MOST_OFFER_SETS:]
    return found[1]

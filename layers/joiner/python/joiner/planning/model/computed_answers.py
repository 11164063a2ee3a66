"""Answers that are computed once and kept, all of them or the last few."""

from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class ComputedAnswers:
    """The answers to questions, by question. It keeps those that were asked for last, at most ``most``."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._known: dict[object, Any] = {}

    def find(self, question: object, make: Callable[[], Answer]) -> Answer:
        """Return the answer to this question, which names all inputs: the known one, or what ``make`` returns now.

        >>> known = ComputedAnswers(most=2)
        >>> [known.find(asked, lambda: made) for asked, made in [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]]
        [1, 2, 1, 4, 5]
        """
        if question not in self._known and len(self._known) == self._most:
            del self._known[next(iter(self._known))]  # first: an answer can be large
        answer: Answer = self._known.pop(question) if question in self._known else make()
        self._known[question] = answer
        return answer

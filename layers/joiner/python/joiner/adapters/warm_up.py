"""Invocations that only keep an execution environment of a function warm.

Lambda ends an environment that is idle for some minutes. The next invocation then waits for the start of an interpreter
and for imports. The sweep invokes the functions of scale-ups now and then, so that a ring after a quiet hour finds them
initialized.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from joiner.names import WARM_UP

Handler = Callable[[Mapping[str, Any], Any], dict[str, Any]]


def returns_at_warm_up(handler: Handler) -> Handler:
    """Return the handler with an answer to warm-ups, which calls nothing and logs nothing.

    >>> returns_at_warm_up(lambda event, context: {"pods": 3})({"warmUp": True}, None)
    {}
    >>> returns_at_warm_up(lambda event, context: {"pods": 3})({"schema": 1}, None)
    {'pods': 3}
    """

    @functools.wraps(handler)
    def answer(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        return {} if event.get(WARM_UP) is True else handler(event, context)

    return answer

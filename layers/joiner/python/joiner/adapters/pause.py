"""The pause of Joiner: one SSM parameter, read directly before each action, so that a user need not wait for an
execution to end.

Its values are those of `joiner.names`: `false` (Joiner acts), `true` (nothing acts), `drain` (nothing is launched, all
nodes are retired), `keep` (nothing acts, and the stack may be deleted while nodes run) and `deleting` (nothing acts,
while the deletion of the stack checks for nodes).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from joiner.names import ACTING, PAUSED, STOPS_EVERYTHING, STOPS_LAUNCHES, pause_parameter


class PauseSwitch(Protocol):
    """A source that reports whether Joiner is paused."""

    def on(self) -> bool:
        """Return whether Joiner is paused at this moment."""


class Pause:
    """The parameter of one cluster. A missing parameter means no pause; if it cannot be read, boto3's error is raised.

    `launching` is for functions that launch instances: for them `drain` is a pause, too.
    """

    def __init__(self, client: Any, cluster: str, *, launching: bool = False) -> None:
        self._client = client
        self._name = pause_parameter(cluster)
        self._stops = STOPS_LAUNCHES if launching else STOPS_EVERYTHING

    def value(self) -> str:
        """Return the parameter's current value; `false` if the parameter does not exist. Raises ``ResponseParserError``
        if something else than AWS answers.
        """
        try:
            answer = self._client.get_parameter(Name=self._name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ParameterNotFound":
                return ACTING
            raise
        return str(_parameter_of(answer)["Value"])

    def on(self) -> bool:
        """Return whether Joiner is paused at this moment."""
        return self.value() in self._stops

    def set(self, paused: bool) -> None:
        """Pause or resume. Only users do; no function of a state machine may."""
        self.write(PAUSED if paused else ACTING)

    def write(self, value: str) -> None:
        """Write one of the values. A parameter that was not deployed is not created: its cluster's name may be
        misspelt. Raises ``ResponseParserError`` if something else than AWS answers, which boto3 takes for a success.
        """
        _parameter_of(self._client.get_parameter(Name=self._name))
        self._client.put_parameter(Name=self._name, Value=value, Type="String", Overwrite=True)


def _parameter_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    if "Parameter" not in answer:  # boto3 takes any answer for a success
        raise ResponseParserError("the answer has no Parameter")
    found: Mapping[str, Any] = answer["Parameter"]
    return found

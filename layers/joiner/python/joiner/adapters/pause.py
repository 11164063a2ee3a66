"""Is Joiner paused? One SSM parameter, asked right before something acts: whoever pauses does not wait for an execution to end."""

from typing import Any

from botocore.exceptions import ClientError

from joiner.names import pause_parameter

PAUSED = "true"


class Pause:
    """The parameter of one cluster. One that is not there pauses nobody; one that cannot be read raises what boto3 raises."""

    def __init__(self, client: Any, cluster: str) -> None:
        self._client = client
        self._name = pause_parameter(cluster)

    def on(self) -> bool:
        """Is Joiner paused at this moment?"""
        try:
            answer = self._client.get_parameter(Name=self._name)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ParameterNotFound":
                return False
            raise
        return bool(answer["Parameter"]["Value"] == PAUSED)

    def set(self, paused: bool) -> None:
        """Pause or resume. Only people do; no function may. One that was not deployed is not made: its cluster's name may be mistyped."""
        self._client.get_parameter(Name=self._name)
        self._client.put_parameter(Name=self._name, Value=PAUSED if paused else "false", Type="String", Overwrite=True)

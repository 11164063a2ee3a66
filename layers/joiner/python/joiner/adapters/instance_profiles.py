"""Instance profiles and the roles that they give to nodes."""

from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError

from joiner.adapters.ec2_errors import translate_errors


class InstanceProfiles:
    """IAM, used only for profiles that a node class names; the first use calls `client`."""

    def __init__(self, client: Callable[[], Any]) -> None:
        self._client = client

    def roles(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the role names of each profile that exists; a refusal is raised as `Ec2Error`, like EC2's own."""
        found: dict[str, tuple[str, ...]] = {}
        for name in names:
            with translate_errors():
                try:
                    profile = self._client().get_instance_profile(InstanceProfileName=name)["InstanceProfile"]
                except ClientError as reason:
                    if reason.response["Error"]["Code"] == "NoSuchEntity":
                        continue
                    raise
            found[name] = tuple(str(role["RoleName"]) for role in profile["Roles"])
        return found

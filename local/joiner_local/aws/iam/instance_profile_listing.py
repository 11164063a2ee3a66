"""IAM's ListInstanceProfiles by path. moto lists all instance profiles of the account, whatever the path.

Source: IAM API reference, ListInstanceProfiles, `PathPrefix`: "/" lists all, another prefix only the profiles whose
path begins with it.
"""

from typing import Any

from moto.core.responses import ActionResult
from moto.iam.responses import IamResponse

from joiner_local.aws.attribute_patches import replace_attribute


def list_instance_profiles(response: Any) -> ActionResult:
    """Return the instance profiles below a path."""
    prefix = response._get_param("PathPrefix") or "/"
    found = [each for each in response.backend.get_instance_profiles() if each.path.startswith(prefix)]
    return ActionResult({"InstanceProfiles": found, "IsTruncated": False})


def install() -> None:
    """Install the action in moto."""
    replace_attribute(IamResponse, "list_instance_profiles", list_instance_profiles)

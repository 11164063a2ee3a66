"""IAM's ListInstanceProfiles by path. moto lists the instance profiles of the whole account, whatever path is asked
for.

Source: IAM API reference, ListInstanceProfiles, `PathPrefix`: "/" lists all, another prefix only the profiles whose
path begins with it.
"""

from typing import Any

from moto.core.responses import ActionResult
from moto.iam.responses import IamResponse

from joiner_local.aws.local_aws import LocalAws


def list_instance_profiles(response: Any) -> ActionResult:
    prefix = response._get_param("PathPrefix") or "/"
    found = [each for each in response.backend.get_instance_profiles() if each.path.startswith(prefix)]
    return ActionResult({"InstanceProfiles": found, "IsTruncated": False})


def install(_aws: LocalAws) -> None:
    IamResponse.list_instance_profiles = list_instance_profiles

"""What an instance reads without a call of an AWS API: its metadata service (IMDS) and its own disks.

`POST /_local/instance-metadata {"instanceIds": ["i-..."]}` answers for many instances at once: the exact time of the
launch (DescribeInstances shows whole seconds), the user data, the size of each volume by device in GiB, and the role of
the instance profile with credentials of a session that is named like the instance. Instances that EC2 does not know are
left out. Source: EC2 user guide, "Instance metadata categories".
"""

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends

from joiner_local.aws.iam.assumed_roles import assume
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.knob_requests import read_texts


def read_metadata(asked: Mapping[str, Any]) -> dict[str, Any]:
    backend = ec2_backends[ACCOUNT][REGION]
    found = {}
    for identifier in read_texts(asked, "instanceIds"):
        try:
            found[identifier] = _describe(backend.get_instance(identifier), backend)
        except ServiceException:
            continue
    return {"instances": found}


def _describe(instance: Any, backend: Any) -> dict[str, Any]:
    association = backend.iam_instance_profile_associations.get(instance.id)
    role = next((each.arn for each in association.iam_instance_profile.roles), "") if association else ""
    described = {
        "launched": instance.launch_time.replace(tzinfo=UTC).timestamp(),
        "userData": str(instance.user_data or ""),
        "volumes": {
            name: backend.volumes[device.volume_id].size
            for name, device in instance.get_block_device_mapping
            if device.volume_id in backend.volumes
        },
        "role": role,
    }
    if role:
        session = assume(role, instance.id)
        described["credentials"] = {
            "accessKeyId": session.access_key,
            "secretAccessKey": session.secret,
            "token": session.session_token,
        }
    return described


def install(aws: LocalAws) -> None:
    """Install the knob `instance-metadata`."""
    aws.add_knobs({"instance-metadata": read_metadata})

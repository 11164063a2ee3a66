"""boto3 sessions that share the models of AWS's services: each session of its own would parse megabytes of them
again.
"""

from functools import cache

import boto3
import botocore.loaders
import botocore.session

from joiner_local.aws.local_aws import REGION


# the default secret is that of the local AWS
def aws_session(key: str = "local", secret: str = "local", token: str | None = None) -> boto3.Session:  # noqa: S107
    """Return a session in the local AWS's region.

    >>> aws_session("test", "test").region_name
    'us-east-1'
    """
    models = botocore.session.get_session()
    models.register_component("data_loader", _loader())
    return boto3.Session(key, secret, token, REGION, botocore_session=models)


@cache
def _loader() -> botocore.loaders.Loader:
    return botocore.loaders.create_loader()

"""Create what `cdk bootstrap` creates, as far as the CDK command line needs it.

The command line reads the assets' bucket and the version in SSM. It does not need the roles of the bootstrap stack
here.
"""

from botocore.config import Config

from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws_sessions import aws_session

QUALIFIER = "hnb659fds"
ASSETS = f"cdk-{QUALIFIER}-assets-{ACCOUNT}-{REGION}"
VERSION_PARAMETER = f"/cdk-bootstrap/{QUALIFIER}/version"
VERSION = "31"


def prepare_account(endpoint: str) -> None:
    """Prepare the account at this endpoint for `cdk deploy`. A second call changes nothing."""
    session = aws_session("test", "test")
    s3 = session.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}))
    s3.create_bucket(Bucket=ASSETS)  # us-east-1 accepts a second creation by the owner
    ssm = session.client("ssm", endpoint_url=endpoint)
    ssm.put_parameter(Name=VERSION_PARAMETER, Value=VERSION, Type="String", Overwrite=True)

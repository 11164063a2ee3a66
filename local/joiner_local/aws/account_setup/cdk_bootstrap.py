"""What `cdk bootstrap` leaves in an account, as far as the CDK CLI needs it: two API calls instead of a deployment.

The CLI looks for the assets' bucket and for the version in SSM. The roles of the bootstrap stack need not exist here.
"""

from botocore.config import Config

from joiner_local.aws.local_aws import ACCOUNT, REGION
from joiner_local.aws_sessions import aws_session

QUALIFIER = "hnb659fds"
ASSETS = f"cdk-{QUALIFIER}-assets-{ACCOUNT}-{REGION}"
VERSION_PARAMETER = f"/cdk-bootstrap/{QUALIFIER}/version"
VERSION = "31"


def prepare_account(endpoint: str) -> None:
    """Make the local account at that endpoint ready for `cdk deploy`. May be called again."""
    session = aws_session("test", "test")
    s3 = session.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}))
    s3.create_bucket(Bucket=ASSETS)  # in us-east-1 creating one's own bucket again is no error
    ssm = session.client("ssm", endpoint_url=endpoint)
    ssm.put_parameter(Name=VERSION_PARAMETER, Value=VERSION, Type="String", Overwrite=True)

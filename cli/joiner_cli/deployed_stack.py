"""Access to a deployed Joiner: AWS clients with short timeouts, and the outputs of the stack."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console

from joiner.names import stack_name

CLUSTER_NAME: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
"""Source: EKS, CreateCluster."""
TIMEOUT_SECONDS: Final = 10
"""Timeout of a connection and of a response; boto3's defaults are a minute each, with retries."""

commentary = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)

Cluster = Annotated[
    str, typer.Option("--cluster", metavar="NAME", help="Name of the EKS cluster.", envvar="JOINER_CLUSTER")
]
Region = Annotated[
    str | None,
    typer.Option(metavar="REGION", help="The cluster's region.", show_default="AWS_REGION, or the profile's"),
]


@dataclass(slots=True)
class DeployedStack:
    """The stack of Joiner for one cluster. `outputs` are the stack's outputs, `status` is CloudFormation's; `region` is
    the one of boto3."""

    cluster: str
    region: str
    outputs: Mapping[str, str]
    _session: Any
    _clients: dict[tuple[str, int], Any] = field(default_factory=dict)
    status: str = ""

    @classmethod
    def find(cls, cluster: str, region: str | None) -> "DeployedStack":
        """Return the stack for a cluster; end the command with exit code 1 if there is none."""
        check_cluster_name(cluster)
        import boto3  # imported late: boto3 loads slowly
        from botocore.exceptions import ClientError

        stack = stack_name(cluster)
        with aws_errors_reported(f"cloudformation:DescribeStacks on the stack {stack}"):
            session = boto3.Session(region_name=region or os.environ.get("AWS_REGION"))
            here = cls(cluster, str(session.region_name or ""), {}, session)
            try:
                found = here.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
            except ClientError as error:
                if error.response["Error"]["Code"] == "ValidationError":
                    exit_with_error(
                        f"no Joiner is deployed for a cluster {cluster} in this account and region (there is no stack "
                        f"{stack}): check its "
                        "name, --region and AWS_PROFILE"
                    )
                raise
            here.status = str(found["StackStatus"])
            here.outputs = {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", ())}
        return here

    @property
    def deletion_command(self) -> str:
        """Return the command that deletes the stack: in the checkout, with the name of the settings of its deployment.

        A stack that an earlier version deployed does not have that name.
        """
        return f"node_modules/.bin/cdk destroy -c cluster={self.outputs.get('SettingsName') or 'NAME_OF_THE_SETTINGS'}"

    def credentials(self) -> Any:
        """Return the caller's credentials, which sign the token for the API server."""
        found = self._session.get_credentials()
        if found is None:
            exit_with_error("there are no AWS credentials to sign a token with")
        return found.get_frozen_credentials()

    def client(self, service: str, *, seconds: int = TIMEOUT_SECONDS) -> Any:
        """Return the boto3 client of a service; `seconds` is its read timeout."""
        from botocore.config import Config

        if (service, seconds) not in self._clients:
            quick = Config(connect_timeout=TIMEOUT_SECONDS, read_timeout=seconds, retries={"total_max_attempts": 2})
            self._clients[service, seconds] = self._session.client(service, config=quick)
        return self._clients[service, seconds]


@contextmanager
def aws_errors_reported(needs: str) -> Iterator[None]:
    """Turn AWS errors into one line with a remedy, and exit code 1. `needs` names the permissions of the command."""
    from joiner.adapters.ec2_errors import Ec2Error
    from joiner_cli.aws_errors import AWS_ERRORS, describe_aws_error

    try:
        yield
    except (
        *AWS_ERRORS,
        Ec2Error,
        ValueError,
    ) as error:  # botocore raises a plain ValueError for an invalid endpoint URL
        cause = error.__cause__ if isinstance(error, Ec2Error) and isinstance(error.__cause__, Exception) else error
        exit_with_error(describe_aws_error(cause, needs=needs))


def exit_with_error(why: str) -> NoReturn:
    """Print the reason on stderr and end the command with exit code 1."""
    commentary.print(f"joiner: {why}")
    raise typer.Exit(1)


def check_cluster_name(cluster: str) -> None:
    """End the command with exit code 1 if this is not a valid name of an EKS cluster."""
    if not CLUSTER_NAME.fullmatch(cluster):
        exit_with_error(f"{cluster!r} is not a valid EKS cluster name: use up to 100 letters, digits, - and _")

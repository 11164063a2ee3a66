"""The real CDK CLI against the local AWS: deploy, update, a failing update, destroy."""

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

from joiner_local.aws.account_setup.cdk_bootstrap import prepare_account
from tests.local.running_aws import RunningAws

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "apps" / "small"
CDK = ROOT / "node_modules" / ".bin" / "cdk"


@dataclass(slots=True)
class Cli:
    """The CDK CLI with the small app, in a folder of its own."""

    aws: RunningAws
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return outside | {
            "AWS_ENDPOINT_URL": self.aws.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "1",
            "CDK_VALIDATION": "false",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            "NODE_NO_WARNINGS": "1",
            "NO_COLOR": "1",
        }

    def synth(self) -> None:
        environment = self.environment | {"CDK_OUTDIR": str(self.folder / "cdk.out")}
        subprocess.run(
            [sys.executable, str(APP / "app.py")], env=environment, check=True, capture_output=True, timeout=60
        )

    def run(self, *command: str) -> tuple[int, str]:
        """Run the CLI; return its exit code and its output, with white space folded."""
        whole = [str(CDK), *command, "--app", str(self.folder / "cdk.out"), "--ci", "--no-notices"]
        done = subprocess.run(
            whole, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr)

    def deploy(self, value: str, *options: str) -> tuple[int, str]:
        parameter = f"Small:Value={value}"
        return self.run(
            "deploy",
            "--require-approval",
            "never",
            "--outputs-file",
            "outputs.json",
            "--parameters",
            parameter,
            *options,
        )

    @property
    def outputs(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "outputs.json").read_text())["Small"]
        return found


@pytest.mark.skipif(not CDK.exists(), reason="the CDK CLI is not installed")
def test_the_cdk_deploys_updates_and_destroys_an_app(local_aws: RunningAws, tmp_path: Path) -> None:
    prepare_account(local_aws.endpoint)
    cli, ssm = Cli(local_aws, tmp_path), local_aws.client("ssm")
    cli.synth()

    code, output = cli.deploy("one", "--method", "direct")
    assert code == 0, output
    assert ssm.get_parameter(Name="/small/value")["Parameter"]["Value"] == "one"
    trusted = ssl.create_default_context(
        cadata=ssm.get_parameter(Name="/joiner-local/tls/ca.pem")["Parameter"]["Value"]
    )
    url = f"{cli.outputs['Url'].rstrip('/')}/ring/t0ken/pods?timeout=2s"
    ring = urllib.request.Request(url, b"{}", method="POST")  # noqa: S310 - the deployed doorbell
    with urllib.request.urlopen(ring, context=trusted, timeout=10) as answer:  # noqa: S310
        assert json.loads(answer.read()) == {"token": "t0ken", "route": "POST /ring/{token}/pods"}
    fired = local_aws.knob("schedules/fire", name="small-sweep")
    assert fired["target"] == cli.outputs["MachineArn"]

    code, output = cli.deploy("two")  # the CLI uses a change set
    assert code == 0, output
    assert ssm.get_parameter(Name="/small/value")["Parameter"]["Value"] == "two"

    code, output = cli.deploy("refused", "--method", "direct")
    assert code != 0
    assert "the cluster refused" in output
    assert ssm.get_parameter(Name="/small/value")["Parameter"]["Value"] == "two"

    code, output = cli.run("destroy", "--force", "Small")
    assert code == 0, output
    assert ssm.get_parameters_by_path(Path="/small")["Parameters"] == []

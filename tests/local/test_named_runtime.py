"""Functions run on the Python of their runtime, if this machine has it; and the Kubernetes client works there.

Since 3.13 Python verifies certificates strictly by default. EKS CAs without key identifiers do not pass, which is what
these tests cover.
"""

import datetime as dt
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.asset_bundles import BundleTarget, bundle_requirements, bundle_sources
from joiner_local.control_plane.pki import CertificateAuthority
from joiner_local.tooling import runtime_python
from tests.local.running_aws import RunningAws, eventually, started_server
from tests.local.tls_server import TlsServer, serving

pytestmark = pytest.mark.local

ROOT = Path(__file__).parents[2]
STRICT_BY_DEFAULT = ("3.14", "3.13")

VERSION = "import sys\n\ndef handler(event, context):\n    return list(sys.version_info[:2])\n"
ASK_THE_API_SERVER = """
import ssl
import sys

import urllib3

from joiner.adapters.kube import ClusterAccess, Kube
from joiner.adapters.kube_kinds import NODES


class Token:
    def token(self, *, fresh=False):
        return "a-token"


def handler(event, context):
    try:
        urllib3.PoolManager(ca_cert_data=event["ca"], retries=False).request("GET", event["endpoint"])
        by_default = "accepted"
    except urllib3.exceptions.SSLError as error:
        by_default = str(error)
    return {
        "python": sys.version.split()[0],
        "strict": bool(ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT),
        "byDefault": by_default,
        "nodes": Kube(ClusterAccess(event["endpoint"], event["ca"], Token())).list(NODES),
    }
"""


@pytest.fixture(scope="module")
def version() -> str:
    """Return the newest Python on this machine that verifies strictly by default and can serve as Lambda's runtime."""
    found = next((each for each in STRICT_BY_DEFAULT if runtime_python.interpreter(each) is not None), None)
    if found is None:
        pytest.skip(f"this machine has neither Python {' nor '.join(STRICT_BY_DEFAULT)}")
    assert runtime_python.find_or_make(print, found) is not None
    return found


@pytest.fixture(scope="module")
# `version` is built first
def aws(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAws]:  # noqa: ARG001
    with started_server(tmp_path_factory.mktemp("aws")) as (running, _):
        yield running


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[tuple[TlsServer, str]]:
    """Start an API server with the CA of an older EKS cluster."""
    authority = CertificateAuthority(tmp_path, now=dt.datetime.now(dt.UTC))
    with serving(authority.server("apiserver", "127.0.0.1")) as server:
        yield server, authority.certificate.read_text()


def invoke(aws: RunningAws, function: str, **event: str) -> Any:
    """Invoke the function and return its response."""
    answer = aws.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event).encode())
    result = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, result
    return result


def beginning(aws: RunningAws, function: str) -> str:
    """Return the first line of the function's log."""

    def lines() -> list[str]:
        try:
            found = aws.client("logs").filter_log_events(
                logGroupName=f"/aws/lambda/{function}", filterPattern="INIT_START"
            )
        except aws.client("logs").exceptions.ResourceNotFoundException:
            return []
        return [each["message"] for each in found["events"]]

    return eventually(lines)[0].strip()


def layers(aws: RunningAws, version: str) -> list[str]:
    """Return the deployment's own layers, packed for this Python."""
    target = BundleTarget(version, "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64")
    packed = [
        bundle_sources("joiner", {"python": ROOT / "layers/joiner/python"}, target),
        *(bundle_requirements(ROOT / "layers" / name, target) for name in ("runtime", "kubernetes")),
    ]
    publish = aws.client("lambda").publish_layer_version
    return [
        publish(LayerName=aws.fresh("layer"), Content={"ZipFile": each.read_bytes()})["LayerVersionArn"]
        for each in packed
    ]


def test_the_kubernetes_client_reaches_an_eks_ca_where_python_is_strict_by_default(
    aws: RunningAws, version: str, api_server: tuple[TlsServer, str], record_property: Any
) -> None:
    server, ca = api_server
    function = aws.function(
        ASK_THE_API_SERVER, Runtime=f"python{version}", Layers=layers(aws, version), MemorySize=512, Timeout=30
    )

    result = invoke(aws, function, endpoint=f"https://127.0.0.1:{server.port}", ca=ca)

    record_property("python", result["python"])
    print(f"the function ran on Python {result['python']}")
    assert result["python"].startswith(f"{version}.")
    assert result["strict"] is True
    assert re.search("Missing (Authority|Subject) Key Identifier", result["byDefault"]), result
    assert result["nodes"] == []
    assert server.tokens == ["Bearer a-token"]
    assert beginning(aws, function) == f"INIT_START Runtime Version: python:{result['python']}"


def test_two_functions_run_on_two_versions_at_once(aws: RunningAws, version: str) -> None:
    own = "{}.{}".format(*sys.version_info[:2])

    versions = [invoke(aws, aws.function(VERSION, Runtime=f"python{each}")) for each in (own, version)]

    assert versions == [[int(part) for part in each.split(".")] for each in (own, version)]


def test_a_runtime_that_the_machine_lacks_runs_on_the_stacks_own_python_and_the_log_notes_it(
    local_aws: RunningAws,
) -> None:
    missing = next((each for each in ("3.14", "3.12", "3.10") if runtime_python.interpreter(each) is None), None)
    if missing is None:
        pytest.skip("this machine has every Python that Lambda has")

    function = local_aws.function(VERSION, Runtime=f"python{missing}")

    assert invoke(local_aws, function) == list(sys.version_info[:2])
    assert beginning(local_aws, function).endswith(f"(this machine has no Python {missing})")


def test_an_interpreter_is_found_only_if_it_runs() -> None:
    own = "{}.{}".format(*sys.version_info[:2])
    assert runtime_python.interpreter(own) == Path(sys.executable)
    assert runtime_python.interpreter("2.0") is None
    for each in STRICT_BY_DEFAULT:
        found = runtime_python.interpreter(each)
        if found is not None:
            output = subprocess.run([found, "-V"], capture_output=True, text=True, check=True).stdout
            assert output.startswith(f"Python {each}.")

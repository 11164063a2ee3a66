"""The Kubernetes client verifies API servers as EKS requires: it accepts a CA without key identifiers, and refuses
every other defect.
"""

import datetime as dt
import socket
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509

from joiner.adapters.kube import READ_SECONDS, ClusterAccess, Kube
from joiner.adapters.kube_errors import Unreachable
from joiner.adapters.kube_kinds import NODES
from joiner.adapters.tls import InvalidAuthority, client_context
from joiner_local.control_plane.kube_api import KubeApi
from joiner_local.control_plane.kubeconfig import ApiServerEndpoint
from joiner_local.control_plane.pki import CertificateAuthority
from tests.local.tls_server import serving

HERE = ("127.0.0.1", "localhost")
NOW = dt.datetime.now(dt.UTC)


class Secret:
    """A token that must not be sent to a server that is not verified."""

    def token(self, *, fresh: bool = False) -> str:  # noqa: ARG002 - the protocol's
        return "k8s-aws-v1.secret"


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "ca", now=NOW)


def client(authority: CertificateAuthority, port: int) -> Kube:
    return Kube(ClusterAccess(f"https://127.0.0.1:{port}", authority.certificate.read_text(), Secret()))


def identifiers(certificate: Path) -> set[str]:
    """Return which of the two extensions exist."""
    extensions = x509.load_pem_x509_certificate(certificate.read_bytes()).extensions
    wanted = {x509.SubjectKeyIdentifier.oid: "SKI", x509.AuthorityKeyIdentifier.oid: "AKI"}
    return {name for oid, name in wanted.items() if any(each.oid == oid for each in extensions)}


def test_the_local_clusters_ca_has_no_key_identifiers_as_older_eks_clusters(authority: CertificateAuthority) -> None:
    server = authority.server("apiserver", *HERE)

    assert (identifiers(authority.certificate), identifiers(server.certificate)) == (set(), set())


def test_a_certificate_without_identifiers_is_accepted_and_strict_verification_refuses_it(
    authority: CertificateAuthority,
) -> None:
    strict = client_context(authority.certificate.read_text())
    strict.verify_flags |= ssl.VERIFY_X509_STRICT

    with serving(authority.server("apiserver", *HERE)) as server:
        assert client(authority, server.port).list(NODES) == []
        assert server.tokens == ["Bearer k8s-aws-v1.secret"]
        plain = socket.create_connection(("127.0.0.1", server.port))
        with plain, pytest.raises(ssl.SSLCertVerificationError, match=r"Missing (Authority|Subject) Key Identifier"):
            strict.wrap_socket(plain, server_hostname="127.0.0.1")


def test_the_tests_own_client_accepts_it_too(authority: CertificateAuthority) -> None:
    with serving(authority.server("apiserver", *HERE)) as server:
        api = KubeApi(ApiServerEndpoint(f"https://127.0.0.1:{server.port}", authority.certificate), token="t")
        assert api.get("/api/v1/nodes")["items"] == []


def test_another_ca_is_refused_before_the_token_is_sent(authority: CertificateAuthority, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path / "other", now=NOW)

    with serving(other.server("apiserver", *HERE)) as server:
        with pytest.raises(Unreachable):
            client(authority, server.port).list(NODES)
        assert server.tokens == []


def test_another_host_name_is_refused_before_the_token_is_sent(authority: CertificateAuthority) -> None:
    with serving(authority.server("apiserver", "api.example.com", "10.0.0.1")) as server:
        with pytest.raises(Unreachable):
            client(authority, server.port).list(NODES)
        assert server.tokens == []


def test_an_expired_certificate_is_refused_before_the_token_is_sent(tmp_path: Path) -> None:
    expired = CertificateAuthority(tmp_path / "expired", now=NOW - dt.timedelta(days=60))

    with serving(expired.server("apiserver", *HERE)) as server:
        with pytest.raises(Unreachable):
            client(expired, server.port).list(NODES)
        assert server.tokens == []


def test_an_optional_write_waits_for_its_own_time_only(authority: CertificateAuthority) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        hurried = client(authority, silent.getsockname()[1]).within(0.2)
        began = time.monotonic()
        with pytest.raises(Unreachable):
            hurried.patch(NODES, "node-1", {})
        assert time.monotonic() - began < READ_SECONDS


@pytest.mark.parametrize("text", ["", "not a certificate"])
def test_without_the_clusters_ca_no_other_one_is_trusted(text: str) -> None:
    with pytest.raises(InvalidAuthority, match="no PEM certificate"):
        Kube(ClusterAccess("https://127.0.0.1:1", text, Secret()))


def test_strictness_is_off_and_everything_else_is_on(authority: CertificateAuthority) -> None:
    context = client_context(authority.certificate.read_text())

    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2

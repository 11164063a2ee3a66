"""Temporary certificates of one local cluster: a certificate authority, and key pairs for servers and clients.

A client certificate is an identity for the API server: its common name is the user, each of its organizations a group
(Kubernetes documentation, "X509 client certificates").

The CA has the extensions of an older EKS cluster's: basic constraints and key usage, but no subject key identifier, so
no certificate has an authority key identifier. A client that verifies strictly refuses them
(aws/containers-roadmap#2638); such a client fails here, too.
"""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from joiner_local.tooling.x509_certificates import (
    alternative_name,
    certificate_builder,
    distinguished_name,
    key_usage,
    private_pem,
    write_private,
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """Sign the certificates of one cluster; its own certificate is `certificate`."""

    def __init__(self, folder: Path, *, now: dt.datetime) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._now = now
        self._name = distinguished_name("joiner-local")
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=None))
        own = own.add_extension(key_usage("digital_signature", "key_encipherment", "key_cert_sign"), critical=True)
        self.certificate: Path = self._write("ca.crt", _pem(own.sign(self._key, hashes.SHA256())))

    def server(self, name: str, *hosts: str) -> KeyPair:
        """Return a key pair for a server with any of the names or addresses in `hosts`."""
        return self._pair(name, distinguished_name(name), ExtendedKeyUsageOID.SERVER_AUTH, hosts)

    def client(self, name: str, user: str, *groups: str) -> KeyPair:
        return self._pair(name, distinguished_name(user, *groups), ExtendedKeyUsageOID.CLIENT_AUTH, ())

    def signing_pair(self, name: str) -> KeyPair:
        """Return a key pair for service account tokens; its `certificate` is only the public key."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return KeyPair(self._write(f"{name}.pub", public), self._write(f"{name}.key", private_pem(key)))

    def _pair(self, file: str, subject: x509.Name, usage: x509.ObjectIdentifier, hosts: tuple[str, ...]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key(), x509.BasicConstraints(ca=False, path_length=None))
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([alternative_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(self._write(f"{file}.crt", _pem(certificate)), self._write(f"{file}.key", private_pem(key)))

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, constraints: x509.BasicConstraints
    ) -> x509.CertificateBuilder:
        return certificate_builder(subject, self._name, public, self._now).add_extension(constraints, critical=True)

    def _write(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        write_private(path, content)
        return path


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)

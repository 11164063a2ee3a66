"""The certificate authority of the HTTPS server: `ca.pem` is what callers trust. The files are kept between starts."""

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

AUTHORITY = "joiner-local CA"
RENEWED_BEFORE_END = dt.timedelta(days=10)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority's certificate, the server's certificate and key."""

    ca: Path
    server: Path
    key: Path

    @classmethod
    def in_folder(cls, folder: Path) -> "Certificates":
        """Return the certificates in the folder; create them if they are missing or about to expire."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = cls(folder / "ca.pem", folder / "server.pem", folder / "server.key")
        if not files._usable():
            files._make()
        return files

    def _usable(self) -> bool:
        if not (self.ca.exists() and self.server.exists() and self.key.exists()):
            return False
        return (
            x509.load_pem_x509_certificate(self.server.read_bytes()).not_valid_after_utc - _now() > RENEWED_BEFORE_END
        )

    def _make(self) -> None:
        authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        contents = {
            self.ca: _authority(authority).public_bytes(pem),
            self.server: _server(server.public_key(), authority).public_bytes(pem),
            self.key: private_pem(server),
        }
        for path, content in contents.items():
            write_private(path, content)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _builder(
    subject: str, public: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    issuer = distinguished_name(AUTHORITY)
    return (
        certificate_builder(distinguished_name(subject), issuer, public, _now())
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return (
        _builder(AUTHORITY, key.public_key(), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(key_usage("key_cert_sign", "crl_sign"), critical=True)
        .sign(key, hashes.SHA256())
    )


def _server(public: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    names = x509.SubjectAlternativeName([alternative_name(host) for host in ("127.0.0.1", "localhost")])
    return (
        _builder("joiner-local", public, authority)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage("digital_signature"), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority, hashes.SHA256())
    )

"""The certificate authority of the HTTPS server: `ca.pem` is what callers trust. The files are kept between starts."""

import datetime as dt
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = dt.timedelta(days=30)
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
        key = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        contents = {
            self.ca: _authority(authority).public_bytes(pem),
            self.server: _server(server.public_key(), authority).public_bytes(pem),
            self.key: key,
        }
        for path, content in contents.items():
            path.unlink(missing_ok=True)
            with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(content)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: str, public: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("joiner-local CA"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - dt.timedelta(minutes=5))
        .not_valid_after(_now() + VALID)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return (
        _builder("joiner-local CA", key.public_key(), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _server(public: ec.EllipticCurvePublicKey, authority: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")])
    return (
        _builder("joiner-local", public, authority)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority, hashes.SHA256())
    )

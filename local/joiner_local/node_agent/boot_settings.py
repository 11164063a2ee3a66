"""The settings that an instance takes from its user data at its first start, in whatever form its image reads them."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joiner_local.node_agent.node_registration import Registration, Unbootable


@dataclass(frozen=True, slots=True)
class BootSettings:
    """`certificate_authority` is PEM. `kubelet` is a part of a KubeletConfiguration. `local_storage` is RAID0, RAID10,
    Mount or "". `cidr` is "" where the form has none. `ip_family` is that of the address which the node gives as its
    own.
    """

    cluster: str
    endpoint: str
    certificate_authority: bytes
    registration: Registration
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    local_storage: str = ""
    cidr: str = ""
    ip_family: str = "ipv4"


def find_ip_family(addresses: str) -> str:
    """Return the family of an address or of a CIDR; ipv4 if it is none.

    >>> find_ip_family("fd12:3456:789a::/108"), find_ip_family("10.100.0.10"), find_ip_family("")
    ('ipv6', 'ipv4', 'ipv4')
    """
    return "ipv6" if ":" in addresses else "ipv4"


def decode_certificate(where: str, encoded: str) -> bytes:
    """Return the PEM of a base64 text. Raises Unbootable, with `where` it stands."""
    try:
        pem = base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unbootable(f"{where} is not base64: {error}") from error
    if b"-----BEGIN CERTIFICATE-----" not in pem:
        raise Unbootable(f"{where} holds no certificate")
    return pem

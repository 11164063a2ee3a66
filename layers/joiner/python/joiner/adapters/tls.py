"""TLS to an API server: its certificate is verified against the cluster's own CA only.

Since Python 3.13 `ssl.create_default_context`, and with it urllib3 2.8, sets VERIFY_X509_STRICT. OpenSSL then refuses
certificates without extensions that RFC 5280 requires and verification does not need. CAs of older EKS clusters have no
subject key identifier, so their certificates have no authority key identifier, and strict verification fails with
*Missing Authority Key Identifier* (kubernetes-client/python#2394, aws/containers-roadmap#2638). Such a CA cannot be
replaced, so this flag is off here. All other checks are on: the chain, the dates, the host name, TLS 1.2 or newer.
"""

import ssl


class InvalidAuthority(ValueError):
    """The text is no PEM certificate: nothing could be verified with it."""


def client_context(authority: str, *, certificate_file: str = "", key_file: str = "") -> ssl.SSLContext:
    """Return a context that trusts only the CAs in `authority` (PEM text); the files contain a client certificate, if
    any.

    Raises InvalidAuthority. An empty CA is refused, too: public CAs are never a substitute for the cluster's.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = True
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as reason:
        raise InvalidAuthority(f"the cluster's CA is no PEM certificate: {authority[:40]!r}") from reason
    if certificate_file:
        context.load_cert_chain(certificate_file, key_file or None)
    return context

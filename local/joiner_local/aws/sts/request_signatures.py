"""Verify that a call to STS is signed by the key that it names, which moto does not.

An EKS bearer token is a presigned `sts:GetCallerIdentity`; the cluster's name is only in its signed header
`x-k8s-aws-id`. Without this check a token for another cluster would be accepted. Signature Version 4 as AWS documents
it ("Create a signed AWS API request"). Signatures of calls to other services are not verified: the local AWS has no
secrets. `iam` decides what the role of a key may do.

moto reads the service of a request from the `Authorization` header only. A presigned request has it in its query, so it
is copied.
"""

import datetime as dt
import hashlib
import hmac
import io
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ALGORITHM = "AWS4-HMAC-SHA256"
# STS accepts a signature for this long, independent of X-Amz-Expires (aws-iam-authenticator relies on it).
VALIDITY = dt.timedelta(minutes=15)


class SignatureRefused(Exception):
    """A request that STS refuses; the argument is the error code."""


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """The secret of an access key; for temporary credentials also the session token and the time of expiry."""

    key: str
    session_token: str | None = None
    expires: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The parts of a request that its signature covers."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    payload_hash: str
    signed_headers: tuple[str, ...]
    date: str
    scope: str

    def signature(self, secret: str) -> str:
        """Return the hexadecimal signature with that secret key."""
        query = "&".join(f"{_quoted(k)}={_quoted(v)}" for k, v in sorted(self.query))
        headers = "".join(f"{name}:{' '.join(self.headers.get(name, '').split())}\n" for name in self.signed_headers)
        request = "\n".join([self.method, self.path, query, headers, ";".join(self.signed_headers), self.payload_hash])
        text = "\n".join([ALGORITHM, self.date, self.scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{secret}".encode()
        for part in self.scope.split("/"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class ClaimedCredential:
    """The signature of a request and what it claims about the signer."""

    access_key: str
    service: str
    signature: str
    session_token: str | None
    signed: SignedRequest

    @classmethod
    def from_environ(cls, environ: "WSGIEnvironment") -> "ClaimedCredential | None":
        """Return the signature in the `Authorization` header or in the query; None for an unsigned request."""
        query = urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        authorization = environ.get("HTTP_AUTHORIZATION", "")
        try:
            if authorization.startswith(ALGORITHM):
                return cls._from_header(environ, query, authorization)
            if "X-Amz-Credential" in dict(query):
                return cls._from_query(environ, query)
        except (KeyError, ValueError) as error:
            raise SignatureRefused("IncompleteSignature") from error
        return None

    @classmethod
    def _from_header(
        cls, environ: "WSGIEnvironment", query: list[tuple[str, str]], authorization: str
    ) -> "ClaimedCredential":
        fields = dict(part.strip().split("=", 1) for part in authorization[len(ALGORITHM) :].split(","))
        headers = _headers(environ)
        body = _body(environ) if "x-amz-content-sha256" not in headers else b""
        return cls._of(
            environ,
            query=query,
            credential=fields["Credential"],
            signature=fields["Signature"],
            session_token=headers.get("x-amz-security-token"),
            signed_headers=fields["SignedHeaders"],
            date=headers["x-amz-date"],
            payload_hash=headers.get("x-amz-content-sha256", hashlib.sha256(body).hexdigest()),
        )

    @classmethod
    def _from_query(cls, environ: "WSGIEnvironment", query: list[tuple[str, str]]) -> "ClaimedCredential":
        fields = dict(query)
        return cls._of(
            environ,
            query=[(k, v) for k, v in query if k != "X-Amz-Signature"],
            credential=fields["X-Amz-Credential"],
            signature=fields["X-Amz-Signature"],
            session_token=fields.get("X-Amz-Security-Token"),
            signed_headers=fields["X-Amz-SignedHeaders"],
            date=fields["X-Amz-Date"],
            payload_hash=hashlib.sha256(b"").hexdigest(),
        )

    @classmethod
    def _of(
        cls,
        environ: "WSGIEnvironment",
        *,
        query: list[tuple[str, str]],
        credential: str,
        signature: str,
        session_token: str | None,
        signed_headers: str,
        date: str,
        payload_hash: str,
    ) -> "ClaimedCredential":
        access_key, scope = credential.split("/", 1)
        _, _, service, _ = scope.split("/")
        signed = SignedRequest(
            method=environ.get("REQUEST_METHOD", "GET"),
            path=environ.get("PATH_INFO") or "/",
            query=tuple(query),
            headers=_headers(environ),
            payload_hash=payload_hash,
            signed_headers=tuple(signed_headers.split(";")),
            date=date,
            scope=scope,
        )
        return cls(
            access_key=access_key, service=service, signature=signature, session_token=session_token, signed=signed
        )

    def verify(self, secret: SigningSecret | None, now: dt.datetime) -> None:
        """Raise `SignatureRefused` unless this secret made the signature recently."""
        if secret is None or (secret.session_token is not None and secret.session_token != self.session_token):
            raise SignatureRefused("InvalidClientTokenId")
        try:
            made = dt.datetime.strptime(self.signed.date, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        except ValueError as error:
            raise SignatureRefused("IncompleteSignature") from error
        if not hmac.compare_digest(self.signed.signature(secret.key), self.signature):
            raise SignatureRefused("SignatureDoesNotMatch")
        if not made - VALIDITY < now < made + VALIDITY or (secret.expires is not None and now > secret.expires):
            raise SignatureRefused("ExpiredToken")


def secret_of(access_key: str, known: Mapping[str, str]) -> SigningSecret | None:
    """Return the secret of an access key: of an assumed role, of an IAM user, or of the server's options."""
    from moto.iam.models import iam_backends
    from moto.sts.models import sts_backends

    for partitions in list(sts_backends.values()):
        for sts in list(partitions.values()):
            for role in reversed(list(sts.assumed_roles)):
                if role.access_key_id == access_key:
                    return SigningSecret(
                        role.secret_access_key, role.session_token, role.expiration.replace(tzinfo=dt.UTC)
                    )
    for partitions in list(iam_backends.values()):
        for iam in list(partitions.values()):
            for user in list(iam.users.values()):
                for key in user.access_keys:
                    if key.access_key_id == access_key:
                        return SigningSecret(key.secret_access_key)
    return SigningSecret(known[access_key]) if access_key in known else None


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """WSGI middleware: verifies STS calls; routes presigned requests of every service but S3 by their credential."""

    app: "WSGIApplication"
    known: Mapping[str, str]

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        try:
            claimed = ClaimedCredential.from_environ(environ)
            if claimed is not None and claimed.service == "sts":
                claimed.verify(secret_of(claimed.access_key, self.known), dt.datetime.now(dt.UTC))
        except SignatureRefused as refused:
            return _refusal(str(refused), start_response)
        if claimed is not None and "HTTP_AUTHORIZATION" not in environ and claimed.service != "s3":
            signed = claimed.signed
            environ["HTTP_AUTHORIZATION"] = (
                f"{ALGORITHM} Credential={claimed.access_key}/{signed.scope}, "
                f"SignedHeaders={';'.join(signed.signed_headers)}, Signature={claimed.signature}"
            )
        return self.app(environ, start_response)


def _refusal(code: str, start_response: "StartResponse") -> Iterable[bytes]:
    error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>{code}</Message></Error>"
    body = f"<ErrorResponse>{error}</ErrorResponse>".encode()
    start_response("403 Forbidden", [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))])
    return [body]


def _headers(environ: "WSGIEnvironment") -> dict[str, str]:
    headers = {key[5:].replace("_", "-").lower(): value for key, value in environ.items() if key.startswith("HTTP_")}
    for key in ("CONTENT_TYPE", "CONTENT_LENGTH"):
        if environ.get(key):
            headers[key.replace("_", "-").lower()] = environ[key]
    return headers


def _body(environ: "WSGIEnvironment") -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")

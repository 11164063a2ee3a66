"""`python -m joiner_local.aws.server --port 0 --data DIR`: the local AWS, one process on one port of 127.0.0.1.

It prints exactly one line on stdout, `ready http://127.0.0.1:PORT`, when everything is installed and it accepts
requests; all other output goes to stderr. SIGTERM ends it and the Lambda sandboxes. State is in memory: after a restart
everything must be deployed again.
"""

import argparse
import gc
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joiner_local.aws.ec2.request_limits import Ec2RequestLimiter
from joiner_local.aws.fault_injection.aws_request_faults import AwsRequestFaults
from joiner_local.aws.iam.iam_middleware import IamMiddleware
from joiner_local.aws.installation import RequestObservers, install_services
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws
from joiner_local.aws.region_check import RegionCheck
from joiner_local.knob_requests import answer_knob

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger("joiner_local.aws")

# New objects between garbage collections, seventy times the default: it saves time and costs memory
GARBAGE_AFTER = 50_000

OWN_PATHS = "/_local/"

# moto imports a service and builds its application at the first request: half a second for EC2, within a deployment.
EAGER = (
    "cloudformation",
    "s3",
    "sts",
    "ssm",
    "iam",
    "ec2",
    "lambda",
    "dynamodb",
    "sqs",
    "stepfunctions",
    "events",
    "logs",
    "cloudwatch",
)


@dataclass(slots=True)
class LocalAwsApplication:
    """The WSGI application: our own paths, then services of our own, then moto. It exists before moto, to have a
    port.
    """

    aws: LocalAws | None = None
    moto: "WSGIApplication | None" = None
    observers: RequestObservers | None = None
    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        self.opened.wait()
        assert self.aws is not None
        assert self.moto is not None
        assert self.observers is not None
        path: str = environ.get("PATH_INFO", "")
        if path.startswith(OWN_PATHS):
            return self._own(self.aws, path.removeprefix(OWN_PATHS), environ, start_response)
        self.observers.counts.note(environ)
        service = self.aws.services.get(_signed_for(environ))
        checked = IamMiddleware(RegionCheck(service or self.moto))
        limited = Ec2RequestLimiter(checked, self.observers.limits)
        return AwsRequestFaults(limited, self.observers.faults)(environ, start_response)

    def _own(
        self, aws: LocalAws, name: str, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        for prefix, app in aws.paths.items():
            if name.startswith(prefix):
                return app(environ, start_response)
        if not name and environ.get("REQUEST_METHOD") == "GET":
            return _json(start_response, "200 OK", {"knobs": sorted(aws.knobs)})
        knob = aws.knobs.get(name)
        if knob is None:
            return _json(start_response, "404 Not Found", {"error": f"no knob {name}", "knobs": sorted(aws.knobs)})
        code, answer = answer_knob(knob, environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        return _json(start_response, f"{code} {HTTPStatus(code).phrase}", answer)


def _json(start_response: "StartResponse", status: str, answer: Mapping[str, Any]) -> Iterable[bytes]:
    body = json.dumps(answer, default=str).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _signed_for(environ: "WSGIEnvironment") -> str:
    """Return the service in the credential scope of the `Authorization` header, or nothing."""
    scope = environ.get("HTTP_AUTHORIZATION", "").split(",")[0].split("/")
    return scope[3] if len(scope) == 5 else ""


def known_keys(text: str) -> dict[str, str]:
    """Parse the access keys and secrets of the option `--known`.

    >>> known_keys("test:test,local:local")
    {'test': 'test', 'local': 'local'}
    """
    return {key: secret for key, _, secret in (pair.partition(":") for pair in text.split(",") if pair)}


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m joiner_local.aws.server", description="a local AWS on 127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: the system chooses one")
    parser.add_argument("--data", type=Path, required=True, help="folder for unpacked functions, certificates")
    python = "interpreter with awslambdaric and boto3, for the functions"
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help=python)
    known = "ACCESS_KEY:SECRET,... that STS accepts beside its own"
    parser.add_argument("--known", type=known_keys, default=known_keys("test:test,local:local"), help=known)
    parser.add_argument("--verbose", action="store_true", help="log every request")
    return parser.parse_args(argv)


def prepare_environment(port: int) -> None:
    """Remove credentials and endpoints of the user from the environment: our own boto3 clients must never leave this
    machine.
    """
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        AWS_DEFAULT_REGION=REGION,
        AWS_ACCESS_KEY_ID="local",
        AWS_SECRET_ACCESS_KEY="local",  # noqa: S106 - the local AWS's own key opens nothing
        AWS_EC2_METADATA_DISABLED="true",
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        MOTO_IAM_LOAD_MANAGED_POLICIES="true",  # CDK attaches AWSLambdaBasicExecutionRole and other managed policies
        MOTO_PORT=str(port),  # moto calls itself on this port
    )


def moto_application() -> "WSGIApplication":
    from moto.iam.models import iam_backends
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    # moto reads all managed policies for each partition, and searches each partition for the owner of a key
    _ = iam_backends[ACCOUNT]["aws"]
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "false"
    dispatcher = DomainDispatcherApplication(create_backend_app)
    for service in EAGER:
        dispatcher.app_instances[service] = create_backend_app(service)
    app: WSGIApplication = dispatcher
    return app


def _stop_on_signals(aws: LocalAws) -> None:
    """Close everything, and end the process, after SIGTERM and SIGINT."""

    def stop(*_: object) -> None:
        for close in reversed(aws.closing):
            try:
                close()
            except Exception:
                log.exception("closing")
        os._exit(0)  # daemon threads of moto and of executions may sleep for long

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    if not options.verbose:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)

    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    from joiner_local.aws.sts.request_signatures import SignatureCheck

    class Handler(MotoRequestHandler):  # type: ignore[misc] # moto has no types
        # Head and body are two writes: without this each response waits 40 ms for a delayed acknowledgement. (One
        # buffered write would
        # be nicer, but then `Expect: 100-continue`, which the CDK CLI's uploads send, is answered too late.)
        disable_nagle_algorithm = True

    entrance = LocalAwsApplication()
    server = make_server("127.0.0.1", options.port, entrance, threaded=True, request_handler=Handler)
    server.daemon_threads = True  # type: ignore[attr-defined] # of the threading mix-in
    prepare_environment(server.port)
    options.data.mkdir(parents=True, exist_ok=True)
    aws = LocalAws(
        endpoint=f"http://127.0.0.1:{server.port}", data=options.data.resolve(), python=options.python.absolute()
    )

    _stop_on_signals(aws)
    # moto and its dependencies print; stdout is for the ready line
    stdout, sys.stdout = sys.stdout, sys.stderr
    observers = install_services(aws)
    gc.freeze()  # models and policies of AWS: hundreds of megabytes that stay
    gc.set_threshold(GARBAGE_AFTER)
    entrance.aws, entrance.moto, entrance.observers = aws, SignatureCheck(moto_application(), options.known), observers
    entrance.opened.set()
    print(f"ready {aws.endpoint}", file=stdout, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

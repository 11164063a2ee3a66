"""`python -m joiner_local.aws.server --port 0 --data DIR`: the local AWS, one process on one port of 127.0.0.1.

It prints exactly one line on stdout, `ready http://127.0.0.1:PORT`, when everything is installed and it answers; whatever else it has to
say goes to stderr. SIGTERM ends it and the Lambda sandboxes with it. State is in memory: a restart means to deploy again.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from joiner_local.aws.call_counts import CallCounts
from joiner_local.aws.fault_injection.aws_request_faults import AwsRequestFaults
from joiner_local.aws.fault_injection.fault_rules import FaultRules
from joiner_local.aws.iam.iam_middleware import IamMiddleware
from joiner_local.aws.local_aws import ACCOUNT, REGION, LocalAws

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger("joiner_local.aws")

GARBAGE_AFTER = 50_000  # objects made since the last look for garbage, seventy times the usual: there is more memory than time

OWN_PATHS = "/_local/"

# moto imports a service and builds its application at the first request for it: half a second for EC2, in the middle of somebody's deploy.
EAGER = ("cloudformation", "s3", "sts", "ssm", "iam", "ec2", "lambda", "dynamodb", "sqs", "stepfunctions", "events", "logs", "cloudwatch")


@dataclass(slots=True)
class LocalAwsApplication:
    """The one WSGI application: our own paths, services of our own, then moto. It exists before moto does, to have a port."""

    aws: LocalAws | None = None
    moto: "WSGIApplication | None" = None
    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        self.opened.wait()
        assert self.aws is not None
        assert self.moto is not None
        path: str = environ.get("PATH_INFO", "")
        if path.startswith(OWN_PATHS):
            return self._own(self.aws, path.removeprefix(OWN_PATHS), environ, start_response)
        self.aws.part(CallCounts).note(environ)
        service = self.aws.services.get(_signed_for(environ))
        return AwsRequestFaults(IamMiddleware(service or self.moto), self.aws.part(FaultRules))(environ, start_response)

    def _own(self, aws: LocalAws, name: str, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        for prefix, app in aws.paths.items():
            if name.startswith(prefix):
                return app(environ, start_response)
        if not name and environ.get("REQUEST_METHOD") == "GET":
            return _json(start_response, "200 OK", {"knobs": sorted(aws.knobs)})
        knob = aws.knobs.get(name)
        if knob is None:
            return _json(start_response, "404 Not Found", {"error": f"no knob {name}", "knobs": sorted(aws.knobs)})
        try:
            asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
            return _json(start_response, "200 OK", knob(asked))
        except (KeyError, ValueError) as error:
            return _json(start_response, "400 Bad Request", {"error": f"{type(error).__name__}: {error}"})
        except Exception as error:
            log.exception("knob %s", name)
            return _json(start_response, "500 Internal Server Error", {"error": f"{type(error).__name__}: {error}"})


def _json(start_response: "StartResponse", status: str, answer: Mapping[str, Any]) -> Iterable[bytes]:
    body = json.dumps(answer, default=str).encode()
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _signed_for(environ: "WSGIEnvironment") -> str:
    """The service in the credential scope of the `Authorization` header, or nothing."""
    scope = environ.get("HTTP_AUTHORIZATION", "").split(",")[0].split("/")
    return scope[3] if len(scope) == 5 else ""


def known_keys(text: str) -> dict[str, str]:
    """Access keys and secrets from outside.

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
    """No credentials and endpoints of the person who starts us: our own boto3 clients must never leave this machine."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(
        AWS_DEFAULT_REGION=REGION,
        AWS_ACCESS_KEY_ID="local",
        AWS_SECRET_ACCESS_KEY="local",  # noqa: S106 - the local AWS's own key opens nothing
        AWS_EC2_METADATA_DISABLED="true",
        AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
        MOTO_IAM_LOAD_MANAGED_POLICIES="true",  # CDK attaches AWSLambdaBasicExecutionRole and its like
        MOTO_PORT=str(port),  # Step Functions tasks of moto call back on it
    )


def install_services(aws: LocalAws) -> None:
    """In this order: later ones build on earlier ones. They are imported here, after the environment is ours."""
    from joiner_local.aws.moto_patches import model_caches

    model_caches.cache_service_models()
    from joiner_local.aws import call_counts, fault_injection
    from joiner_local.aws.api_gateway import http_apis
    from joiner_local.aws.aws_lambda import function_invocations
    from joiner_local.aws.cloudformation import cloudformation_api
    from joiner_local.aws.cloudtrail import event_lookup
    from joiner_local.aws.dynamodb import dynamodb_tables
    from joiner_local.aws.ec2 import fleets
    from joiner_local.aws.eks import eks_clusters
    from joiner_local.aws.eventbridge import event_rules
    from joiner_local.aws.iam import iam_middleware, instance_profile_listing
    from joiner_local.aws.moto_patches import queue_locks, response_writer, service_limits
    from joiner_local.aws.pricing import price_list
    from joiner_local.aws.scheduler import schedules
    from joiner_local.aws.ssm import image_parameters
    from joiner_local.aws.step_functions import step_functions_api

    model_caches.cache_service_lookups()
    response_writer.replace_response_serializers()
    call_counts.install(aws)
    dynamodb_tables.install(aws)
    queue_locks.install(aws)
    function_invocations.install(aws)
    step_functions_api.install(aws)
    event_rules.install(aws)
    fleets.install(aws)
    eks_clusters.install(aws)
    instance_profile_listing.install(aws)
    image_parameters.install(aws)
    price_list.install(aws)
    cloudformation_api.install(aws)
    http_apis.install(aws)
    schedules.install(aws)
    event_lookup.install(aws)
    service_limits.install()
    fault_injection.install(aws)
    iam_middleware.install(aws)


def moto_application() -> "WSGIApplication":
    from moto.iam.models import iam_backends
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    # moto reads all of AWS's policies for every partition there is, and looks into every partition for whose a key is
    _ = iam_backends[ACCOUNT]["aws"]
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "false"
    dispatcher = DomainDispatcherApplication(create_backend_app)
    for service in EAGER:
        dispatcher.app_instances[service] = create_backend_app(service)
    app: WSGIApplication = dispatcher
    return app


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    if not options.verbose:
        logging.getLogger("werkzeug").setLevel(logging.WARNING)

    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    from joiner_local.aws.sts.request_signatures import SignatureCheck

    class Handler(MotoRequestHandler):  # type: ignore[misc] # moto has no types
        # Head and body are two writes: without this each answer waits 40 ms for a delayed acknowledgement. (One buffered write would
        # be nicer, but then `Expect: 100-continue`, which the CDK CLI's uploads send, is answered too late.)
        disable_nagle_algorithm = True

    entrance = LocalAwsApplication()
    server = make_server("127.0.0.1", options.port, entrance, threaded=True, request_handler=Handler)
    server.daemon_threads = True  # type: ignore[attr-defined] # of the threading mix-in
    prepare_environment(server.port)
    options.data.mkdir(parents=True, exist_ok=True)
    aws = LocalAws(endpoint=f"http://127.0.0.1:{server.port}", data=options.data.resolve(), python=options.python.absolute())

    def stop(*_: object) -> None:
        for close in reversed(aws.closing):
            try:
                close()
            except Exception:
                log.exception("closing")
        os._exit(0)  # daemon threads of moto and of executions may sleep for long

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    # moto and its friends print; stdout belongs to the ready line
    stdout, sys.stdout = sys.stdout, sys.stderr
    install_services(aws)
    gc.freeze()  # models and policies of AWS: hundreds of megabytes that stay
    gc.set_threshold(GARBAGE_AFTER)
    entrance.aws, entrance.moto = aws, SignatureCheck(moto_application(), options.known)
    entrance.opened.set()
    print(f"ready {aws.endpoint}", file=stdout, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

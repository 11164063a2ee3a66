"""The doorbell: the API server calls it as an admission webhook, and it says that somebody should look.

It always allows. It believes nothing of what it is told but which route was taken and, once the path's secret is right, that something
happened: what is true is listed later. Whatever fails in here costs a delay until the next sweep, never a refused event.
"""

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.executions import Executions, ring_scale_up, ring_sweep, ring_waves
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import STORED_AFTER
from joiner.adapters.sweep_slot import SweepSlot

logger = Logger()

SECRET_KEPT: Final = timedelta(seconds=30)  # a wrong token makes the secret be read again no more often than this


class Secret:
    """The secret in the doorbell's path, read once, and again when a caller knows another (it is renewed by a deployment)."""

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._value = ""
        self._read_at: datetime | None = None

    def is_known_by(self, token: str, now: datetime) -> bool:
        """Does the caller know the secret? An empty one is known by nobody."""
        if self._matches(token):
            return True
        if self._read_at is not None and now - self._read_at < SECRET_KEPT:
            return False
        self._value, self._read_at = self._read(), now
        return self._matches(token)

    def _matches(self, token: str) -> bool:
        return bool(self._value) and hmac.compare_digest(self._value.encode(), token.encode())


@dataclass(frozen=True, slots=True)
class Machines:
    """ARNs of the state machines that a ring may start."""

    scale_up: str
    sweep: str


class Doorbell:
    """What a ring does; its parts are arguments so that a test can hand in its own."""

    def __init__(self, secret: Secret, ledger: Ledger, slot: SweepSlot, executions: Executions, machines: Machines) -> None:
        self._secret = secret
        self._ledger = ledger
        self._slot = slot
        self._executions = executions
        self._machines = machines

    def answer(self, event: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The HTTP answer to one request of the API (payload format 2.0)."""
        token = str((event.get("pathParameters") or {}).get("token", ""))
        kind = str(event.get("rawPath", "")).rstrip("/").rpartition("/")[2]
        if not self._secret.is_known_by(token, now):
            return {"statusCode": 403, "headers": {"content-type": "application/json"}, "body": '{"message":"unknown doorbell"}'}
        request = _review(event)
        if not request.get("dryRun"):
            self._ring(kind, now)
        return _allowed(str(request.get("uid", "")))

    def _ring(self, kind: str, now: datetime) -> None:
        try:
            if kind == "deletions":
                started = ring_sweep(self._slot, self._executions, self._machines.sweep, now)
                logger.info("rang for deletions", execution=started)
            if kind in ("nodes", "deletions"):
                woken = ring_waves(self._ledger, self._executions, now)
                logger.info("rang for nodes", woken=woken)
            else:
                # A pod has long been stored when an event says that it cannot be scheduled; a pool rings before it is, and a new execution
                # waits a second in any case
                stored_at = now.timestamp() + 2 * STORED_AFTER if kind == "pools" else 0.0
                started = ring_scale_up(self._ledger, self._executions, self._machines.scale_up, now, stored_at=stored_at)
                logger.info(f"rang for {kind}", execution=started, holder="new" if started else "living")
        except Exception:  # the API server waits for the answer, and the sweep does what this ring did not
            logger.exception("the ring was lost; the sweep will look")


def _review(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The request inside the AdmissionReview; empty if the body is not one."""
    body = event.get("body") or ""
    try:
        review = json.loads(base64.b64decode(body) if event.get("isBase64Encoded") else body)
        request = review["request"]
        return request if isinstance(request, dict) else {}
    except (ValueError, KeyError, TypeError):
        return {}


def _allowed(uid: str) -> dict[str, Any]:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, "allowed": True}}
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(review)}


_doorbell: list[Doorbell] = []


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """The Lambda's entry; the doorbell is kept for the life of the environment."""
    try:
        if not _doorbell:
            ledger = environment.ledger()
            executions = Executions(environment.client("stepfunctions"))
            machines = Machines(scale_up=environment.setting("SCALE_UP_ARN"), sweep=environment.setting("SWEEP_ARN"))
            _doorbell.append(Doorbell(Secret(ledger.doorbell_token), ledger, environment.sweep_slot(), executions, machines))
        return _doorbell[0].answer(event, environment.now())
    except Exception:  # see the module: always allowed
        logger.exception("the doorbell failed; the sweep will look")
        return _allowed(str(_review(event).get("uid", "")))

"""Ring doorbell: the API server calls this function as an admission webhook when an object changes that Joiner watches.

The function allows every request. From the request it uses only the route and, if the path's secret is right, the fact
that something changed; the objects are listed later. An error in this function costs a delay until the next sweep,
never a refused request.

The scheduler reports a pending pod again whenever its message changes, and one search serves all pods. So a sandbox
counts at most a few rings of pods a second, and answers the others at once: a refusal would be a line in the API
server's log and an alarm. It counts a few more of nodes: a ring that does not count is followed by a reading, too,
because the last one that counted came less than a fifth of a second before.

Where the first ring of a new sandbox starts a scale-up, the functions of the scale-up are likely to be cold, too. It
has them initialized at once, instead of each when its turn comes.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from aws_lambda_powertools import Logger

from joiner.adapters import environment
from joiner.adapters.doorbell_rotation import READ_AGAIN_AFTER
from joiner.adapters.executions import Executions, ring_scale_up, ring_sweep, ring_waves
from joiner.adapters.immediate_sweeps import ImmediateSweeps
from joiner.adapters.ledger import Ledger
from joiner.adapters.ledger_items import STORED_AFTER, DoorbellSecrets
from joiner.lifecycle.ring_limit import NODE_RINGS_A_SECOND, RINGS_A_SECOND, RINGS_AT_ONCE, RingLimit

logger = Logger()
environment.prepare_clients("dynamodb", "stepfunctions")

SECRETS_KEPT: Final = timedelta(minutes=5)
"""How long secrets are cached. A sandbox may live for hours; a replaced secret is dropped this long after its validity
ends.
"""


class CachedSecrets:
    """The valid secrets of the path, read every few minutes, and again when a caller sends an unknown one."""

    def __init__(self, read: Callable[[], DoorbellSecrets]) -> None:
        self._read = read
        self._secrets = DoorbellSecrets()
        self._read_at: datetime | None = None

    def are_known_by(self, token: str, now: datetime) -> bool:
        """Return whether the token is one of the secrets that are valid at `now`."""
        self._refresh(now, SECRETS_KEPT)
        if self._secrets.accept(token, now):
            return True
        self._refresh(now, READ_AGAIN_AFTER)
        return self._secrets.accept(token, now)

    def _refresh(self, now: datetime, oldest: timedelta) -> None:
        if self._read_at is None or now - self._read_at >= oldest:
            self._secrets, self._read_at = self._read(), now


@dataclass(frozen=True, slots=True)
class RungMachines:
    """ARNs of the state machines that a ring may start."""

    scale_up: str
    sweep: str


class DoorbellRequests:
    """Handles rings; its dependencies are arguments, which tests replace."""

    def __init__(
        self,
        secrets: CachedSecrets,
        ledger: Ledger,
        sweeps: ImmediateSweeps,
        executions: Executions,
        machines: RungMachines,
    ) -> None:
        self._secrets = secrets
        self._ledger = ledger
        self._sweeps = sweeps
        self._executions = executions
        self._machines = machines
        self._pods = RingLimit(per_second=RINGS_A_SECOND, at_once=RINGS_AT_ONCE)
        self._waves = RingLimit(per_second=NODE_RINGS_A_SECOND, at_once=1)
        self._cold = True

    def answer(self, event: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """Return the HTTP response to one request of the API (payload format 2.0)."""
        token = str((event.get("pathParameters") or {}).get("token", ""))
        kind = str(event.get("rawPath", "")).rstrip("/").rpartition("/")[2]
        if not self._secrets.are_known_by(token, now):
            return {
                "statusCode": 403,
                "headers": {"content-type": "application/json"},
                "body": '{"message":"unknown doorbell"}',
            }
        request = _review(event)
        if not request.get("dryRun") and (kind != "pods" or self._pods.allows(now)):
            self._ring(kind, now)
        return _allowed(str(request.get("uid", "")))

    def _ring(self, kind: str, now: datetime) -> None:
        try:
            if kind == "deletions":
                started = ring_sweep(self._sweeps, self._executions, self._machines.sweep, now)
                logger.info("rang for deletions", execution=started)
            if kind in ("nodes", "deletions"):
                if not self._waves.allows(now):
                    return
                woken = ring_waves(self._ledger, self._executions, now)
                logger.info("rang for nodes", woken=woken)
            else:
                # A pod is already stored when its event reports that it is unschedulable; a pool rings before it is
                # stored, and a new execution waits a second in any case
                stored_at = now.timestamp() + 2 * STORED_AFTER if kind == "pools" else 0.0
                started = ring_scale_up(
                    self._ledger, self._executions, self._machines.scale_up, now, stored_at=stored_at
                )
                logger.info(f"rang for {kind}", execution=started, holder="new" if started else "running")
                if started and self._cold:
                    self._warm_up(now)
                self._cold = False
        except Exception:  # the API server waits for the answer; the sweep does what this ring did not
            logger.exception("the ring was lost; the next sweep finds the change")

    def _warm_up(self, now: datetime) -> None:
        try:
            self._executions.start_warm_up(self._machines.sweep, now)
        except Exception:  # the scale-up has been started
            logger.exception("the functions of the scale-up were not initialized beforehand")


def _review(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the request inside the AdmissionReview; empty if the body is not one."""
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


_doorbell: list[DoorbellRequests] = []


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle one request; the doorbell object is reused by later invocations."""
    try:
        if not _doorbell:
            ledger = environment.ledger()
            executions = Executions(environment.client("stepfunctions"))
            machines = RungMachines(
                scale_up=environment.setting("SCALE_UP_ARN"), sweep=environment.setting("SWEEP_ARN")
            )
            _doorbell.append(
                DoorbellRequests(
                    CachedSecrets(ledger.doorbell_secrets), ledger, environment.immediate_sweeps(), executions, machines
                )
            )
        return _doorbell[0].answer(event, environment.now())
    except Exception:  # always allowed: see the module's docstring
        logger.exception("the doorbell failed; the next sweep finds the change")
        return _allowed(str(_review(event).get("uid", "")))

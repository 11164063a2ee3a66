"""Makes objects older than they are. The API server alone sets `creationTimestamp`, so it is rewritten in etcd: tests
need not wait for hours.
"""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import urllib3

from joiner_local.demo.change_watch import until
from joiner_local.stack.stack_control import LocalStack

CLAIMS: Final = "/registry/karpenter.sh/nodeclaims/"


def set_claim_age(stack: LocalStack, name: str, age: timedelta) -> None:
    """Give a NodeClaim this age, and wait until the API server shows it."""
    created = f"{datetime.now(UTC) - age:%Y-%m-%dT%H:%M:%SZ}"
    key = base64.b64encode(f"{CLAIMS}{name}".encode()).decode()
    kube = stack.kube()

    def is_written() -> bool:
        """Write it, unless another write came in between: then the next call tries again."""
        [found] = _ask(stack, "range", {"key": key})["kvs"]
        claim = json.loads(base64.b64decode(found["value"]))
        claim["metadata"]["creationTimestamp"] = created
        value = base64.b64encode(json.dumps(claim).encode()).decode()
        unchanged = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": found["mod_revision"]}
        put = {"request_put": {"key": key, "value": value}}
        return bool(_ask(stack, "txn", {"compare": [unchanged], "success": [put]}).get("succeeded"))

    def is_shown() -> bool:
        shown = kube.get(f"/apis/karpenter.sh/v1/nodeclaims/{name}")["metadata"]["creationTimestamp"]
        return bool(shown == created)

    until(is_written, what=f"the age of {name} written", limit=10)
    until(is_shown, what=f"the age of {name} shown", limit=10)


def _ask(stack: LocalStack, what: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = urllib3.request("POST", f"{stack.known.etcd}/v3/kv/{what}", json=body, timeout=10)
    assert answer.status == 200, answer.data
    found: dict[str, Any] = answer.json()
    return found

"""Warns about pools and node classes whose status says that they are not ready: the cluster launches no nodes for them.

An offline plan uses them nevertheless, because it may be made to examine them.

>>> why = "SubnetsReady: no subnet has tag a = b"
>>> status = {"conditions": [{"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": why}]}
>>> print(*warn_not_ready({"EC2NodeClass": [{"metadata": {"name": "default"}, "status": status}]}))
EC2NodeClass/default: status.conditions[Ready] is False: SubnetsReady: no subnet has tag a = b; the cluster launches \
no nodes for it, this plan counts it as ready
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from joiner.pools import Conditions, InvalidManifest

DECLARED: Final = ("EC2NodeClass", "AWSNodeTemplate", "NodePool", "Provisioner")


def warn_not_ready(by_kind: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[InvalidManifest]:
    """Yield a warning for each pool and node class whose Ready condition exists and is not True."""
    for kind in DECLARED:
        for manifest in by_kind.get(kind, ()):
            conditions = Conditions.from_kube((manifest.get("status") or {}).get("conditions"))
            for ready in conditions:
                if ready.type == "Ready" and not ready.true:
                    why = ready.message or ready.reason or "no reason is given"
                    remedy = f"{why}; the cluster launches no nodes for it, this plan counts it as ready"
                    yield InvalidManifest(
                        f"{kind}/{manifest['metadata']['name']}",
                        "status.conditions[Ready]",
                        ready.status,
                        remedy,
                        "warning",
                    )

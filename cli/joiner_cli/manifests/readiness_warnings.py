"""What a cluster says of its own pools and node classes: a dump of it holds their status, and one that is not ready makes no nodes.

A plan on paper counts them as ready all the same, for that may be why somebody looks; so it is a warning.

>>> conditions = [{"type": "Ready", "status": "False", "reason": "SubnetsNotFound", "message": "SubnetsReady: no subnet has tag a = b"}]
>>> print(*not_ready({"EC2NodeClass": [{"metadata": {"name": "default"}, "status": {"conditions": conditions}}]}))
EC2NodeClass/default: status.conditions[Ready] is False: SubnetsReady: no subnet has tag a = b; the cluster makes no nodes of it until \
that is mended, this plan counts it as ready
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from joiner.pools import Conditions, InvalidManifest

DECLARED: Final = ("EC2NodeClass", "AWSNodeTemplate", "NodePool", "Provisioner")


def warn_not_ready(by_kind: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[InvalidManifest]:
    """A warning for each pool and class whose Ready condition is there and not True."""
    for kind in DECLARED:
        for manifest in by_kind.get(kind, ()):
            conditions = Conditions.from_kube((manifest.get("status") or {}).get("conditions"))
            for ready in conditions:
                if ready.type == "Ready" and not ready.true:
                    why = ready.message or ready.reason or "it does not say why"
                    remedy = (
                        f"{why}; the cluster makes no nodes of it until that is mended, this plan counts it as ready"
                    )
                    yield InvalidManifest(
                        f"{kind}/{manifest['metadata']['name']}",
                        "status.conditions[Ready]",
                        ready.status,
                        remedy,
                        "warning",
                    )

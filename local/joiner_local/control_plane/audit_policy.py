"""The audit policy of the API server: who deleted or evicted pods, nodes and claims.

The log has one JSON event a line for each such request, in the form of the audit log that EKS writes to CloudWatch.
"""

import json
from pathlib import Path
from typing import Any, Final

LOG: Final = "audit.log"
CLAIMS: Final = {"group": "karpenter.sh", "resources": ["nodeclaims", "machines"]}
POLICY: Final[dict[str, Any]] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["delete", "deletecollection"],
            "resources": [{"group": "", "resources": ["pods", "nodes"]}, CLAIMS],
        },
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "None"},
    ],
}


def write_policy(path: Path) -> Path:
    """Write the policy as the API server reads it."""
    path.write_text(json.dumps(POLICY))  # JSON is YAML
    return path

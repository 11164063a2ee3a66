"""The small app's custom resource: it returns the value that it got, and refuses the value "refused"."""

import json
import urllib.request
from typing import Any


def handler(event: dict[str, Any], _context: object) -> None:
    wanted = event["ResourceProperties"]
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    refused = wanted["Value"] == "refused" and event["RequestType"] != "Delete"
    answer |= {
        "Status": "FAILED" if refused else "SUCCESS",
        "Reason": "the cluster refused",
        "PhysicalResourceId": "installation",
        "Data": {"Value": wanted["Value"]},
    }
    # CloudFormation gives the address
    request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")  # noqa: S310
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - the same

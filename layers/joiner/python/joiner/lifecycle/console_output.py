"""The console output of an instance whose node never registered: the lines that are kept, and the cause in them.

A cause is a sentence of ours. It quotes nothing of the output, which may contain secrets of the user data. The causes
are in the order in which a boot meets them, last first: a kubelet that is refused has found the API server.

>>> find_console_cause("kubelet[811]: Unable to register node with API server: Unauthorized")[:56]
'the API server does not know the role of the instance: c'
>>> find_console_cause("Reached target Multi-User System.")
''
"""

import re
from typing import Final

KEPT_CHARACTERS: Final = 16_000
"""EC2 keeps 64 KB; the last quarter of it has the kubelet."""

_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\t\n\x20-\x7e]")

_CAUSES: Final[tuple[tuple[str, str], ...]] = (
    (
        r'node "[^"]*" is not allowed to (modify|create) node "|cannot (create|get|patch) resource "nodes"',
        "the node registers under a name that is not the private DNS name of its instance: remove hostname-override "
        "from the userData of the class, and check the domain name of the VPC's DHCP options",
    ),
    (
        r"Unauthorized|provide credentials",
        "the API server does not know the role of the instance: create an access entry of type EC2_LINUX or "
        "EC2_WINDOWS for it, or map it in aws-auth",
    ),
    (
        r"x509: certificate signed by unknown authority",
        "the certificate of the API server is not signed by the CA in the user data: a proxy in between, or another "
        "cluster's CA",
    ),
    (
        r"no such host|Temporary failure in name resolution|Could not resolve host",
        "the name of a server cannot be resolved: check enableDnsSupport and enableDnsHostnames of the VPC",
    ),
    (
        r"i/o timeout|connection refused|Connection timed out|no route to host|context deadline exceeded"
        r"|Client\.Timeout exceeded",
        "a server cannot be reached: check the security groups and route tables of its subnet, and the endpoints or "
        "the NAT gateway that it needs",
    ),
    (r"No space left on device", "its root volume is full: raise volumeSize in the class's blockDeviceMappings"),
    (
        r"unknown 'kubernetes\.io' or 'k8s\.io' labels",
        "the kubelet refuses a label that it may not set: check the labels in the class's userData",
    ),
    (
        r"failed to (load|validate|parse|construct) [Kk]ubelet|unknown flag: --",
        "the kubelet refuses its configuration: check the class's kubelet and userData",
    ),
    (r"Kernel panic", "its image does not boot on this instance type: check amiSelectorTerms of the class"),
)


def keep_last_lines(output: str) -> str:
    """Return the last whole lines of the output, without control characters."""
    text = _CONTROL.sub("", output.replace("\r\n", "\n").replace("\r", "\n"))
    kept = text[-KEPT_CHARACTERS:]
    return kept if len(kept) == len(text) else kept.partition("\n")[2]


def find_console_cause(output: str) -> str:
    """Return the cause that the output gives, with its remedy; empty if it gives none that is known."""
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, output)), "")

"""The console output of an instance whose node never registered: the lines that are kept, and the cause in them.

A cause is a fixed sentence. It quotes nothing of the output, which may contain secrets of the user data. Images write
different things to the console. AL2023 writes the messages of nodeadm (its unit runs it with ``--console``) and the
output of cloud-init; Bottlerocket writes failed units and the messages of its settings generators. The journal of the
kubelet is there only if an image forwards it. Windows writes the last three errors of its event log, in which no cause
is searched. Sources: awslabs/amazon-eks-ami, `nodeadm`; issues 1346, 3064 and 4382 of bottlerocket-os/bottlerocket; EC2
API reference, GetConsoleOutput.

So a pattern names the program or the server as well as the error: other programs write the same words, for example
after a request to the instance metadata service, or to a socket that does not exist yet.

>>> find_console_cause('kubelet[811]: "Unable to register node with API server" err="Unauthorized"')[:56]
'the API server does not know the role of the instance: c'
>>> find_console_cause("cloud-init[3]: 401 - Unauthorized: http://169.254.169.254/latest/meta-data")
''
"""

import re
from typing import Final

KEPT_CHARACTERS: Final = 16_000
"""The last quarter of the 64 KB that EC2 keeps."""

_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\t\n\x20-\x7e]")

_GENERATORS: Final = r"(?:nodeadm|instance_waiter|Command failed|retryable error|pluto|sundog)"
"""Words in a line of the programs that ask EC2 about the instance before the kubelet starts."""

_SERVERS: Final = r"\b(?:ec2|sts|api\.ecr|[0-9A-Za-z]{32}\.[\w-]+)\.[\w.-]*amazonaws\.com"
"""Servers without which no node starts: EC2, STS, ECR, and the API server of a cluster."""

_UNREACHABLE: Final = (
    r"(?:i/o timeout|connection refused|[Cc]onnection timed out|no route to host|context deadline exceeded"
    r"|Client\.Timeout exceeded|connect timeout)"
)
_UNRESOLVED: Final = r"(?:no such host|[Tt]emporary failure in name resolution|server misbehaving)"

_CAUSES: Final[tuple[tuple[str, str], ...]] = (
    (
        r"Kernel panic - not syncing",
        "the kernel stopped: its image does not boot on this instance type (check amiSelectorTerms of the class)",
    ),
    (
        r"You are in (emergency|rescue) mode",
        "its system stopped in emergency mode: check the mounts in the class's userData, and its image",
    ),
    (
        r'node "[^"]*" is not allowed to (modify|create) node "'
        r'|User "system:node:[^"]*" cannot (create|get|patch) resource "nodes"',
        "the node registers under a name that is not the private DNS name of its instance: remove hostname-override "
        "from the userData of the class, and check the domain name of the VPC's DHCP options",
    ),
    (
        r"(Unable to register node|Failed to ensure lease exists)[^\n]*\b(Unauthorized|provide credentials)\b",
        "the API server does not know the role of the instance: create an access entry of type EC2_LINUX or "
        "EC2_WINDOWS for it, or map it in aws-auth",
    ),
    (
        rf"(kubelet|{_SERVERS})[^\n]*x509: certificate signed by unknown authority",
        "the certificate of a server is not signed by the CA in the user data: a proxy in between, or another "
        "cluster's CA",
    ),
    (
        rf"{_GENERATORS}[^\n]*\b(UnauthorizedOperation|AccessDenied)",
        "its role may not read its instance from EC2: attach AmazonEKSWorkerNodePolicy, or allow it "
        "ec2:DescribeInstances",
    ),
    (
        rf"{_SERVERS}[^\n]*{_UNRESOLVED}|(Could not resolve host|Name or service not known)[^\n]*{_SERVERS}",
        "the name of a server of AWS cannot be resolved: check enableDnsSupport and enableDnsHostnames of the VPC",
    ),
    (
        rf"{_SERVERS}[^\n]*{_UNREACHABLE}|[Ff]ailed to connect to {_SERVERS}",
        "a server of AWS cannot be reached: check the security groups and route tables of its subnet, and the "
        "endpoints or the NAT gateway that it needs",
    ),
    (
        rf"{_GENERATORS}[^\n]*({_UNREACHABLE}|deadline has elapsed|exceeded max wait time)",
        "it cannot get its private DNS name from EC2: check the route to EC2's API (a NAT gateway, or the endpoint "
        "com.amazonaws.REGION.ec2), and that its role may call ec2:DescribeInstances",
    ),
    (
        r"early-boot-config[^\n]*Error parsing TOML",
        "Bottlerocket cannot read its user data: the userData of the class must be settings in TOML",
    ),
    (
        r"Command failed[^\n]*is missing in cluster configuration|Command failed[^\n]*(yaml: |strict decoding error)",
        "nodeadm refuses the NodeConfig in the user data: check the class's userData",
    ),
    (
        r"unknown 'kubernetes\.io' or 'k8s\.io' labels",
        "the kubelet refuses a label that it may not set: check the labels in the class's userData",
    ),
    (
        r"failed to (load|validate|parse|construct) [Kk]ubelet|kubelet[^\n]*unknown flag: --",
        "the kubelet refuses its configuration: check the class's kubelet and userData",
    ),
    (
        r"No space left on device",
        "a file system is full, usually that of its root volume: raise volumeSize in the class's blockDeviceMappings",
    ),
    (
        r"\bfatal\b[^\n]*Command failed|Failed to start [^\n]*([Nn]odeadm|settings? generators|userdata configuration)",
        "the configuration of the node failed before its kubelet started: the last lines of its console output give "
        "the error",
    ),
)
"""The first that is found counts: what stopped the system, then the steps of a boot, last first, then general ones."""


def keep_last_lines(output: str) -> str:
    """Return the last whole lines of the output, without control characters."""
    text = _readable(output)
    kept = text[-KEPT_CHARACTERS:]
    return kept if len(kept) == len(text) else kept.partition("\n")[2]


def find_console_cause(output: str) -> str:
    """Return the cause that the output gives, with its remedy; empty if it gives none that is known."""
    text = _readable(output)
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, text)), "")


def _readable(output: str) -> str:
    return _CONTROL.sub("", output.replace("\r\n", "\n").replace("\r", "\n"))

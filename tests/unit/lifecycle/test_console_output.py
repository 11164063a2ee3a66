"""The part of a console output that is kept, and the cause that it gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.lifecycle.console_output import KEPT_CHARACTERS, find_console_cause, keep_last_lines

API_SERVER = "0123456789ABCDEF0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com"
DESCRIBE = "operation error EC2: DescribeInstances, "


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("[    0.880011] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100", "amiSelectorTerms"),
        ("You are in emergency mode. After logging in, type journalctl -xb", "emergency mode"),
        # nodeadm of AL2023, whose messages have no time on the console
        (
            f'warn ec2/instance_waiter.go:120 retryable error encountered {{"error": "{DESCRIBE}https response error '
            'StatusCode: 403, RequestID: 0, api error UnauthorizedOperation: You are not authorized"}',
            "AmazonEKSWorkerNodePolicy",
        ),
        (
            f'fatal nodeadm/main.go:36 Command failed {{"error": "{DESCRIBE}exceeded maximum number of attempts, 30, '
            'request send failed, Post \\"https://ec2.us-east-1.amazonaws.com/\\": dial tcp 10.0.0.9: i/o timeout"}',
            "a server of AWS cannot be reached",
        ),
        (
            'fatal nodeadm/main.go:36 Command failed {"error": "lookup ec2.us-east-1.amazonaws.com: no such host"}',
            "enableDnsSupport",
        ),
        (
            'fatal cli/main.go:41 Command failed {"error": "exceeded max wait time for InstanceCondition waiter"}',
            "private DNS name from EC2",
        ),
        (
            'fatal cli/main.go:41 Command failed {"error": "CIDR is missing in cluster configuration"}',
            "nodeadm refuses the NodeConfig",
        ),
        (
            '{"level":"fatal","msg":"Command failed","error":"yaml: line 4: could not find expected \':\'"}',
            "nodeadm refuses the NodeConfig",
        ),
        ('fatal cli/main.go:41 Command failed {"error": "something new"}', "before its kubelet started"),
        ("[FAILED] Failed to start nodeadm-config.service - EKS Nodeadm Config.", "before its kubelet started"),
        # Bottlerocket
        (
            "[  306.3] pluto[1534]: Timed out retrieving private DNS name from EC2: deadline has elapsed",
            "private DNS name from EC2",
        ),
        (
            "[   36.6] sundog[1152]: Setting generator 'pluto private-dns-name' failed with exit code 1 - stderr: "
            "Error describing instance 'i-0c5': dispatch failure: timeout: HTTP connect timeout occurred after 3.1s",
            "private DNS name from EC2",
        ),
        (
            "[    3.9] early-boot-config[3439]: Provider error: Unable to serialize settings from instance user data: "
            "Error parsing TOML user data: expected an equals, found a colon at line 1 column 13",
            "settings in TOML",
        ),
        ("[FAILED] Failed to start User-specified setting generators.", "before its kubelet started"),
        ("[FAILED] Failed to start Bottlerocket userdata configuration system.", "before its kubelet started"),
        # The kubelet, whose journal some images forward to the console
        ('nodes "web-1" is forbidden: node "ip-10-0-1-7.ec2.internal" is not allowed to modify node "web-1"', "DHCP"),
        (
            'kubelet[3214]: E0606 kubelet_node_status.go:96] "Unable to register node with API server" '
            'err="Unauthorized" node="ip-10-150-127-198.ec2.internal"',
            "access entry",
        ),
        (f'Get "https://{API_SERVER}/api": x509: certificate signed by unknown authority', "the CA in the user data"),
        (f"dial tcp: lookup {API_SERVER} on 10.0.0.2:53: no such host", "enableDnsSupport"),
        (f'Get "https://{API_SERVER}/api": dial tcp 10.0.0.1:443: i/o timeout', "security groups"),
        ("curl: (6) Could not resolve host: ec2.eu-west-1.amazonaws.com", "enableDnsSupport"),
        ("write /var/lib/containerd: No space left on device", "volumeSize"),
        ("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels", "a label that it may not set"),
        ("failed to load kubelet config file", "class's kubelet"),
    ],
)
def test_a_known_line_gives_its_cause_with_the_remedy(line: str, cause: str) -> None:
    found = find_console_cause(f"cloud-init: started\n{line}\nlogin:")

    assert cause in found
    assert line not in found and "\n" not in found


@pytest.mark.parametrize(
    "line",
    [
        "ci-info: 401 - Unauthorized: http://169.254.169.254/latest/meta-data/instance-id",
        "cloud-init[1829]: An error occurred (UnauthorizedOperation) when calling the DescribeVolumes operation",
        "cloud-init[1829]: An error occurred (AccessDenied) when calling the GetObject operation",
        'time="2026-11-21" msg="dial unix /run/containerd/containerd.sock: connect: connection refused"',
        "curl: (7) Failed to connect to mirror.example.com port 443: Connection timed out",
        "ping: metadata.internal: Temporary failure in name resolution",
        "chronyd: no route to host",
        "proxy.internal: x509: certificate signed by unknown authority",
        "mytool: unknown flag: --fast",
        "SDK 2026/02/19 07:57:30 DEBUG retrying request EC2/DescribeInstances, attempt 2",
        "Unauthorized access to this machine is prohibited.",
        "amazon-ssm-agent: ec2metadata: context deadline exceeded",
    ],
)
def test_the_same_words_of_other_programs_are_no_cause(line: str) -> None:
    assert find_console_cause(f"[  OK  ] Started something.\n{line}\nlogin:") == ""


def test_a_kubelet_that_is_refused_has_found_its_api_server() -> None:
    output = f"Failed to connect to {API_SERVER} port 443: Connection timed out\nUnable to register node: Unauthorized"

    assert "access entry" in find_console_cause(output)


def test_a_kernel_panic_is_the_cause_whatever_else_is_in_the_output() -> None:
    output = (
        "Unable to register node with API server: Unauthorized\nNo space left on device\nKernel panic - not syncing"
    )

    assert "the kernel stopped" in find_console_cause(output)
    assert "the kernel stopped" in find_console_cause("\n".join(reversed(output.split("\n"))))


def test_a_cause_is_found_in_lines_that_are_not_kept_and_between_control_characters() -> None:
    output = "[\x1b[0;1;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39mnodeadm-config.service\x1b[0m\r\n"

    assert "before its kubelet started" in find_console_cause(output + "login:\n" * KEPT_CHARACTERS)


def test_an_output_without_a_known_line_gives_no_cause() -> None:
    assert find_console_cause("Reached target Multi-User System.") == ""


def test_control_characters_are_removed() -> None:
    assert keep_last_lines("\x1b[32m[  OK  ]\x1b[0m started\r\nlogin:\x07") == "[  OK  ] started\nlogin:"


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=200), max_size=200))
def test_the_last_whole_lines_are_kept(lines: list[str]) -> None:
    kept = keep_last_lines("\n".join(lines))

    assert len(kept) <= KEPT_CHARACTERS
    assert "\n".join(lines).endswith(kept)
    assert kept == "\n".join(lines) or kept == "" or f"\n{kept}" in "\n".join(lines)

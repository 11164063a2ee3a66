"""The part of a console output that is kept, and the cause that it gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.lifecycle.console_output import KEPT_CHARACTERS, find_console_cause, keep_last_lines


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ('nodes "web-1" is forbidden: node "ip-10-0-1-7.ec2.internal" is not allowed to modify node "web-1"', "DHCP"),
        ("Unable to register node with API server: Unauthorized", "access entry"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "the CA in the user data"),
        ("dial tcp: lookup A.gr7.us-east-1.eks.amazonaws.com: no such host", "enableDnsSupport"),
        ("dial tcp 10.0.0.1:443: i/o timeout", "security groups"),
        ("write /var/lib/containerd: No space left on device", "volumeSize"),
        ("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels", "a label that it may not set"),
        ("failed to load kubelet config file", "class's kubelet"),
        ("Kernel panic - not syncing: VFS: Unable to mount root fs", "amiSelectorTerms"),
    ],
)
def test_a_known_line_gives_its_cause_with_the_remedy(line: str, cause: str) -> None:
    found = find_console_cause(f"cloud-init: started\n{line}\nlogin:")

    assert cause in found
    assert line not in found and "\n" not in found


def test_a_kubelet_that_is_refused_has_found_its_api_server() -> None:
    assert "access entry" in find_console_cause("curl: Connection timed out\nkubelet: Unauthorized")


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

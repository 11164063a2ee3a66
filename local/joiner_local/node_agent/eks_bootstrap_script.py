"""The shell script in the user data of an Amazon Linux 2 or Ubuntu instance: the call of `/etc/eks/bootstrap.sh`.

cloud-init runs each part of type `text/x-shellscript`, in their order; other scripts are not run here. The arguments
are those of amazon-eks-ami's `bootstrap.sh`: an option takes the next word, and the one other word is the cluster.
"""

import shlex
from collections.abc import Iterator
from typing import Final

from joiner_local.node_agent.boot_settings import BootSettings, decode_certificate
from joiner_local.node_agent.kubelet_command_line import read_kubelet_flags
from joiner_local.node_agent.node_registration import Unbootable, read_flags
from joiner_local.node_agent.user_data_parts import SHELL_SCRIPT, read_parts

BOOTSTRAP: Final = "/etc/eks/bootstrap.sh"
OPTIONS: Final = frozenset(
    {
        "--apiserver-endpoint",
        "--b64-cluster-ca",
        "--cluster-id",
        "--container-runtime",
        "--containerd-config-file",
        "--dns-cluster-ip",
        "--docker-config-json",
        "--enable-docker-bridge",
        "--enable-local-outpost",
        "--ip-family",
        "--kubelet-extra-args",
        "--local-disks",
        "--mount-bpf-fs",
        "--pause-container-account",
        "--pause-container-version",
        "--service-ipv6-cidr",
        "--use-max-pods",
    }
)


def read_bootstrap_script(user_data: bytes) -> BootSettings:
    """Parse user data. Raises Unbootable."""
    scripts = read_parts(user_data, SHELL_SCRIPT)
    calls = [call for script in scripts for call in _calls(script.decode(errors="replace"))]
    if not calls:
        raise Unbootable(f"no script of the user data calls {BOOTSTRAP}")
    cluster, options = _arguments(calls[-1])
    for name in ("--apiserver-endpoint", "--b64-cluster-ca"):
        if not options.get(name):
            # the real script then asks EKS, which needs a permission that nodes have not by default
            raise Unbootable(f"{BOOTSTRAP} has no {name}")
    disks = options.get("--local-disks", "")
    if disks not in ("", "raid0", "raid10", "mount"):
        raise Unbootable(f"{BOOTSTRAP} knows no --local-disks {disks}")
    flags = shlex.split(options.get("--kubelet-extra-args", ""))
    kubelet = read_kubelet_flags(flags)
    if dns := options.get("--dns-cluster-ip"):
        kubelet["clusterDNS"] = [dns]
    return BootSettings(
        ip_family=_ip_family(options),
        cluster=cluster,
        endpoint=options["--apiserver-endpoint"],
        certificate_authority=decode_certificate("--b64-cluster-ca", options["--b64-cluster-ca"]),
        registration=read_flags(flags),
        kubelet=kubelet,
        local_storage={"raid0": "RAID0", "raid10": "RAID10", "mount": "Mount"}.get(disks, ""),
    )


def _ip_family(options: dict[str, str]) -> str:
    """Return the family of the node's address. Raises Unbootable where the script ends with an error."""
    family, cidr = options.get("--ip-family", "").lower(), options.get("--service-ipv6-cidr", "")
    if family not in ("", "ipv4", "ipv6"):
        raise Unbootable(f"{BOOTSTRAP} knows no --ip-family {family}")
    if cidr and family == "ipv4":
        raise Unbootable(f"{BOOTSTRAP}: --ip-family is ipv4, and --service-ipv6-cidr is given")
    if family == "ipv6" and not cidr and not options.get("--dns-cluster-ip"):
        raise Unbootable(f"{BOOTSTRAP} has neither --service-ipv6-cidr nor --dns-cluster-ip, and --ip-family is ipv6")
    return "ipv6" if cidr else family or "ipv4"


def _calls(script: str) -> Iterator[list[str]]:
    """Yield the words of each line that calls the bootstrap script."""
    for line in script.replace("\\\n", " ").splitlines():
        if line.strip().startswith(BOOTSTRAP):
            try:
                yield shlex.split(line, comments=True)[1:]
            except ValueError as error:
                raise Unbootable(f"the call of {BOOTSTRAP} is quoted wrongly: {error}") from error


def _arguments(words: list[str]) -> tuple[str, dict[str, str]]:
    left, options, others = iter(words), dict[str, str](), list[str]()
    for word in left:
        if word in OPTIONS:
            options[word] = next(left, "")
        elif word.startswith("--"):
            raise Unbootable(f"{BOOTSTRAP} knows no option {word}")
        else:
            others.append(word)
    if len(others) != 1:
        raise Unbootable(f"{BOOTSTRAP} takes one cluster name, and not {' '.join(others) or 'none'}")
    return others[0], options

"""The PowerShell in the user data of a Windows instance: the call of `Start-EKSBootstrap.ps1`.

EC2Launch runs what is between the tags `<powershell>`; other commands are not run here. Source: Amazon EKS user guide,
"Create nodes with optimized Windows AMIs".
"""

import re
from typing import Final

from joiner_local.node_agent.boot_settings import BootSettings, decode_certificate
from joiner_local.node_agent.kubelet_command_line import read_kubelet_flags
from joiner_local.node_agent.node_registration import Unbootable, read_flags

BLOCK: Final = re.compile(r"<powershell>(.*?)</powershell>", re.DOTALL | re.IGNORECASE)
SCRIPT: Final = re.compile(r"Start-EKSBootstrap\.ps1")
CALL: Final = re.compile(r"^\s*& \$EKSBootstrapScriptFile((?:\s+-\w+ '[^']*')*)\s*$", re.MULTILINE)
ARGUMENT: Final = re.compile(r"-(\w+) '([^']*)'")
ARGUMENTS: Final = frozenset(
    {
        "APIServerEndpoint",
        "Base64ClusterCA",
        "ContainerRuntime",
        "DNSClusterIP",
        "EKSClusterName",
        "ESKClusterName",
        "ExcludedSnatCIDRs",
        "KubeletExtraArgs",
        "KubeProxyExtraArgs",
        "ServiceCIDR",
    }
)


def read_windows_bootstrap(user_data: bytes) -> BootSettings:
    """Parse user data. Raises Unbootable."""
    blocks = BLOCK.findall(user_data.decode(errors="replace"))
    if not blocks:
        raise Unbootable("the user data has no <powershell>")
    commands = "\n".join(blocks)
    calls = CALL.findall(commands)
    if not calls or not SCRIPT.search(commands):
        raise Unbootable("no command of the user data calls Start-EKSBootstrap.ps1")
    arguments = dict(ARGUMENT.findall(calls[-1]))
    if unknown := arguments.keys() - ARGUMENTS:
        raise Unbootable(f"Start-EKSBootstrap.ps1 knows no argument {min(unknown)}")
    for name in ("EKSClusterName", "APIServerEndpoint", "Base64ClusterCA"):
        if not arguments.get(name):
            raise Unbootable(f"Start-EKSBootstrap.ps1 has no {name}")
    flags = arguments.get("KubeletExtraArgs", "").split()
    kubelet = read_kubelet_flags(flags)
    if dns := arguments.get("DNSClusterIP"):
        kubelet["clusterDNS"] = [dns]
    return BootSettings(
        cluster=arguments["EKSClusterName"],
        endpoint=arguments["APIServerEndpoint"],
        certificate_authority=decode_certificate("Base64ClusterCA", arguments["Base64ClusterCA"]),
        registration=read_flags(flags),
        kubelet=kubelet,
    )

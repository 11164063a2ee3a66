"""Windows Server: EC2Launch runs the PowerShell of the user data, whose last command starts the kubelet.

The user's commands run before it, in the same script: a line that is no PowerShell can keep the whole script from
running, and the node from joining. EC2Launch v2 runs what is between the tags powershell or script, or the tasks of a
YAML document, and nothing else. Sources: Amazon EKS user guide, "Create nodes with optimized Windows AMIs" (the
arguments of ``Start-EKSBootstrap.ps1``, the parameters with images); EC2 user guide, "Run commands on your Windows
instance at launch".
"""

import re
from collections.abc import Iterator, Mapping

from joiner.launching.image_families.image_family import encrypted_volume, find_unused_addresses, refuse, warn
from joiner.launching.image_families.image_variants import LATEST, ImageParameter, parse_release
from joiner.launching.image_families.kubelet_flags import write_kubelet_flags, write_registration_flags
from joiner.launching.image_families.node_settings import NodeSettings, UserDataRefused
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily, field_path

BOOTSTRAP = '[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1"'
BLOCK = re.compile(r"\s*<powershell>(.*)</powershell>\s*", re.DOTALL | re.IGNORECASE)
OTHER_FORMS: Mapping[str, re.Pattern[str]] = {
    "a script of Linux": re.compile(r"#![ \t]*/(?!.*(pwsh|powershell))", re.IGNORECASE),
    "a configuration of cloud-init": re.compile(
        r"#(cloud-config(-archive)?|cloud-boothook|part-handler)[ \t]*(\r?\n|\Z)|#include(-once)?\s+(https?|file)://"
    ),
    "tasks of EC2Launch in YAML": re.compile(r"(version:\s*[\"']?[0-9.]+[\"']?\s+)?tasks:\s*(-\s|\[)", re.IGNORECASE),
    "a NodeConfig of nodeadm": re.compile(r"(---\s+)?(kind:\s*[\"']?NodeConfig\b|apiVersion:\s*[\"']?node\.eks\.aws/)"),
    "settings of Bottlerocket": re.compile(r"\[settings(\.[^\]\n]+)?\]\s*(\Z|\[settings|[\"'\w][\w.\"'-]*\s*=)"),
}
"""What the user data of other programs begins with. Lines that PowerShell can have are not refused: a # begins a
comment, and [name] is a type.
"""

OPTION = "</?(persist|version|runAsLocalSystem)>"
TAG = re.compile(
    rf"</?(powershell|script)>|\Amime-version:|\A{OPTION}|^[ \t]*{OPTION}.*\Z", re.IGNORECASE | re.MULTILINE
)
"""What EC2Launch takes for its own. The tags of its options are refused only as the first or the last line of the
commands, where a user writes them beside a block of PowerShell: between other lines they are text of the script, such
as XML in a here-string.
"""


class Windows:
    """See ``FamilyOfImages``. ``oldest`` is the first Kubernetes version with images."""

    devices = (encrypted_volume("/dev/sda1", 50),)

    def __init__(self, name: ImageFamily, *, oldest: tuple[int, ...] = ()) -> None:
        self.name = name
        self.kubernetes_versions = f"from {'.'.join(map(str, oldest))} on" if oldest else ""
        self._oldest = oldest

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:
        """Return the SSM parameter of the latest image; AWS has no parameter for other releases."""
        if release != LATEST:
            return ()
        year = self.name.removeprefix("Windows")
        path = f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{version}/image_id"
        return (ImageParameter.of(path, "amd64"),)

    def explain_missing_images(self, version: str) -> str:
        """Return the reason for versions of Kubernetes that are older than the family's first image."""
        if not version or parse_release(version) >= self._oldest:
            return ""
        first = ".".join(map(str, self._oldest))
        return (
            f"AWS has images of {self.name} from Kubernetes {first} on, and the cluster has {version}: use Windows2022"
        )

    def find_problems(self, node_class: NodeClass) -> Iterator[NodeClassProblem]:
        """Yield fields of the class that Windows nodes do not support."""
        for term in node_class.image_terms:
            if term.alias and term.alias.partition("@")[2] != LATEST:
                message = f"the alias {term.alias}: AWS names only the latest images of Windows: use {LATEST}"
                where = field_path(node_class, "amiSelector")
                yield NodeClassProblem("AMIsReady", "TermNotSupported", message, about=where)
        try:
            read_own_commands(node_class.user_data or "")
        except UserDataRefused as refused:
            yield refuse(node_class, "userData", refused.reason, str(refused))
        yield from find_unused_addresses(node_class)
        if node_class.instance_store_policy:
            message = "Windows nodes make no file system of their instance store, and plans do not count it: remove it"
            yield warn(node_class, "instanceStorePolicy", "WithoutEffect", message)

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return a PowerShell script that runs the user's commands, then EKS's bootstrap script."""
        own = read_own_commands(settings.own)
        flags = " ".join((*write_registration_flags(settings), *write_kubelet_flags(settings.kubelet)))
        arguments = {
            "EKSClusterName": settings.cluster_name,
            "APIServerEndpoint": settings.endpoint,
            "Base64ClusterCA": "".join(settings.certificate_authority.split()),
            "DNSClusterIP": settings.cluster_dns()[0],
            "KubeletExtraArgs": flags,
        }
        call = " ".join(f"-{name} '{value}'" for name, value in arguments.items())
        lines = (*([own] if own else []), BOOTSTRAP, f"& $EKSBootstrapScriptFile {call}")
        return "\n".join(("<powershell>", *lines, "</powershell>", ""))


def read_own_commands(text: str) -> str:
    """Return the user's PowerShell without the tags around it; raises UserDataRefused for other forms.

    >>> read_own_commands("<powershell>\\nWrite-Host hello\\n</powershell>")
    'Write-Host hello'
    """
    whole = BLOCK.fullmatch(text)
    commands = (whole[1] if whole else text).strip()
    if found := TAG.search(commands):
        message = f"Windows nodes read PowerShell, without {found[0].strip()!r}: write the commands alone"
        raise UserDataRefused("InvalidUserData", message)
    if other := next((form for form, begins in OTHER_FORMS.items() if begins.match(commands)), ""):
        message = f"Windows nodes read PowerShell, and this is {other}: write PowerShell, or use another amiFamily"
        raise UserDataRefused("InvalidUserData", message)
    return commands

"""Which user data of a class is reported: what its family cannot read, what the node's settings replace, and what plans
do not know."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from joiner.launching.image_families.bottlerocket import GROUPS
from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.mime_parts import NODE_CONFIG
from joiner.launching.image_families.node_settings import NodeSettings
from joiner.launching.image_families.windows import read_own_commands
from joiner.pools.kubelet_configuration import KubeletConfiguration
from joiner.pools.node_class import ImageFamily
from joiner_local.node_agent.bottlerocket_settings import read_bottlerocket_settings
from joiner_local.node_agent.node_config import read_node_config
from tests.unit.launching.launch_scenario import CLUSTER, TEMPLATE, resolved

CERTIFICATE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
BOOTABLE = replace(CLUSTER, certificate_authority=CERTIFICATE)
POWERSHELL = "#!/usr/bin/env pwsh\n# tasks: none\n[string]$settings = 'a'\n"
SCRIPT = "#!/bin/bash\necho 'own'\n"
CONFIG = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
BASE64_CONFIG = f"{NODE_CONFIG}\nContent-Transfer-Encoding: base64"
MIME = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n{}\n--B--'

WRONG_SETTINGS: Mapping[str, str] = {
    'max-pods = "110"': "max-pods must be a whole number: write it without quotes",
    "max-pods = -1": "max-pods must be at least 0",
    "registry-qps = true": "registry-qps must be a whole number",
    'cpu-cfs-quota-enforced = "true"': "cpu-cfs-quota-enforced must be true or false, without quotes",
    "allowed-unsafe-sysctls = [1]": "allowed-unsafe-sysctls must be a list of texts",
    "container-log-max-size = 10": "container-log-max-size must be a text: put its value in quotes",
    "static-pods = []": "static-pods must be a table",
    'image-gc-high-threshold-percent = "850"': "image-gc-high-threshold-percent must be a share from 0 to 100",
    'cluster-dns-ip = "kube-dns"': "cluster-dns-ip has kube-dns, which is no IP address",
    "cluster-dns-ip = []": "cluster-dns-ip must be an IP address, or a list of them",
}
WRONG_ENTRIES: Sequence[tuple[str, str, str]] = (
    ("kube-reserved", 'pid = "100"', "pid: Bottlerocket reserves cpu, ephemeral-storage and memory only: remove it"),
    ("system-reserved", 'pid = "100"', "pid: Bottlerocket reserves"),
    ("eviction-hard", '"memory.available" = "100%"', "memory.available: Bottlerocket takes shares above 0% and below"),
    ("eviction-soft", '"memory.available" = "0%"', "memory.available: Bottlerocket takes shares above 0% and below"),
    ("eviction-soft-grace-period", '"memory.available" = "30s1m"', "memory.available: Bottlerocket takes whole hours"),
    ("node-labels", '"node-role.kubernetes.io/worker" = ""', "node-role.kubernetes.io/worker: the kubelet does not"),
)
WRONG_FLAGS: Sequence[tuple[str, str, str]] = (
    (
        "--node-labels=team=a,node-role.kubernetes.io/worker=",
        "InvalidUserData",
        "--node-labels of spec.kubelet.flags has node-role.kubernetes.io/worker: the kubelet does not start",
    ),
    ("--register-with-taints=a=b:NoSchedule", "TaintsReplaced", "also karpenter.sh/unregistered: remove it"),
)
WRONG_CONFIGS: Mapping[str, str] = {
    'maxPods: "110"': "spec.kubelet.config.maxPods of its NodeConfig must be a whole number, without quotes",
    'cpuCFSQuota: "true"': "spec.kubelet.config.cpuCFSQuota of its NodeConfig must be true or false, without quotes",
    "clusterDNS: 10.100.0.10": "spec.kubelet.config.clusterDNS of its NodeConfig must be a list of texts",
    "clusterDNS: [kube-dns]": "spec.kubelet.config.clusterDNS of its NodeConfig has only kube-dns, which is no IP "
    "address: pods get no DNS",
    "clusterDNS: [10]": "spec.kubelet.config.clusterDNS of its NodeConfig must be a list of texts",
}


@pytest.mark.parametrize(
    ("family", "user_data", "message"),
    [
        (
            "AL2023",
            f"{CONFIG}spec:\n  kubelet:\n    config:\n      maxPodss: 5\n   bad: [\n",
            "its NodeConfig is not valid YAML: in line 7, it does not continue the mapping that begins in line 4: "
            "indent it like the entries before, and close quotation marks where their text ends",
        ),
        (
            "AL2023",
            f"{CONFIG}spec: \x00",
            "its NodeConfig is not valid YAML: in line 3, the control character U+0000 is not allowed: remove it, and "
            "save the file as UTF-8",
        ),
        (
            "AL2023",
            f"# {'é' * 20}\n{CONFIG}#\n#\n#\n#\n#\nspec: \x00",
            "its NodeConfig is not valid YAML: in line 9, the control character U+0000 is not allowed: remove it, and "
            "save the file as UTF-8",
        ),
        (
            "AL2023",
            MIME.format(
                f"Content-Type: {NODE_CONFIG}\n\n{CONFIG}\n--B\nContent-Type: {NODE_CONFIG}\n\n{CONFIG}spec: \x00"
            ),
            "its NodeConfig is not valid YAML: in line 15, the control character U+0000 is not allowed: remove it, and "
            "save the file as UTF-8",
        ),
        (
            "AL2023",
            f"{CONFIG}spec: 2026-02-30",
            "its NodeConfig is not valid YAML: in line 3, there is no date '2026-02-30': correct it, or put it in "
            "quotes",
        ),
        (
            "AL2023",
            MIME.format(f"Content-Type: {BASE64_CONFIG}\n\n?"),
            "the MIME part application/node.eks.aws is not valid base64 of a text in UTF-8: encode its text again, or "
            "write it as it is and remove its Content-Transfer-Encoding",
        ),
        (
            "Bottlerocket",
            "[settings]\n[settings.motd",
            "Bottlerocket reads TOML, and this is none: in line 2, the [ of a table is not closed: write ] after its "
            "name",
        ),
    ],
)
def test_the_mistake_in_user_data_is_described_with_its_line(family: ImageFamily, user_data: str, message: str) -> None:
    there = resolved(replace(TEMPLATE, ami_family=family, user_data=user_data))

    assert [one.message for one in there.problems if one.reason == "InvalidUserData"] == [f"spec.userData: {message}"]


@pytest.mark.parametrize(
    ("family", "user_data", "reason", "words"),
    [
        ("Bottlerocket", "#!/bin/sh\nreboot", "InvalidUserData", "reads TOML, and this is none"),
        ("Bottlerocket", "settings = 1", "InvalidUserData", "settings must be a table"),
        ("Bottlerocket", "[settings]\nautoscaling = true", "InvalidUserData", "settings.autoscaling must be a table"),
        ("Bottlerocket", "[settings]\nbootstrap-commands = 1", "InvalidUserData", "commands must be a table"),
        (
            "Bottlerocket",
            "[settings.kubernetes.node-labels]\na = 1",
            "InvalidUserData",
            "settings.kubernetes.node-labels.a must be a text: put its value in quotes",
        ),
        (
            "Bottlerocket",
            "[settings.kubernetes.kube-reserved]\npid = 9",
            "InvalidUserData",
            "kube-reserved.pid must be",
        ),
        *(
            (
                "Bottlerocket",
                f"[settings.kubernetes.{table}]\n{entry}",
                "InvalidUserData",
                f"kubernetes.{table}.{words}",
            )
            for table, entry, words in WRONG_ENTRIES
        ),
        *(
            ("AL2023", f"{CONFIG}spec: {{kubelet: {{flags: ['{flag}']}}}}", reason, words)
            for flag, reason, words in WRONG_FLAGS
        ),
        ("Bottlerocket", "[other]", "InvalidUserData", "and not other"),
        *(
            ("Bottlerocket", f"[settings.kubernetes]\n{setting}", "InvalidUserData", f"settings.kubernetes.{problem}")
            for setting, problem in WRONG_SETTINGS.items()
        ),
        *(
            ("AL2023", f"{CONFIG}spec: {{kubelet: {{config: {{{setting}}}}}}}", "InvalidUserData", problem)
            for setting, problem in WRONG_CONFIGS.items()
        ),
        (
            "Bottlerocket",
            "[settings.kubernetes]\nmax-pod = 5",
            "UnknownField",
            "settings.kubernetes.max-pod: Joiner does not know it; a release of Bottlerocket that does not know it "
            'refuses all settings; did you mean "max-pods"?',
        ),
        (
            "Bottlerocket",
            "[settings.kubernetes]\nmax-pods = 5",
            "NotPlanned",
            "plans do not know settings.kubernetes.max",
        ),
        ("Bottlerocket", "[settings.kubernetes]\nnode-taints = {}", "WithoutEffect", "set the taints of the pool"),
        ("Windows2022", "<powershell>\nA\n</powershell>\n<persist>true</persist>", "InvalidUserData", "without '<"),
        ("Windows2022", "A\n <version>1.1</version>", "InvalidUserData", "without '<version>1.1</version>'"),
        ("Windows2022", "<persist>true</persist>\nA", "InvalidUserData", "without '<persist>'"),
        ("Windows2022", "A\n<persist>\ntrue\n</persist>\n", "InvalidUserData", "without '</persist>'"),
        ("Windows2022", '@"\n<script>\n"@\nA', "InvalidUserData", "without '<script>'"),
        ("Windows2022", "</powershell><script>", "InvalidUserData", "write the commands alone"),
        ("Windows2022", "#!/bin/bash\necho hi", "InvalidUserData", "and this is a script of Linux: write PowerShell"),
        ("Windows2019", "<powershell>\n#!/bin/sh\n</powershell>", "InvalidUserData", "a script of Linux"),
        ("Windows2022", "#cloud-config\npackages: [a]", "InvalidUserData", "a configuration of cloud-init"),
        ("Windows2022", "version: 1.1\ntasks:\n- task: enableOpenSsh", "InvalidUserData", "tasks of EC2Launch"),
        ("Windows2025", CONFIG, "InvalidUserData", "a NodeConfig of nodeadm"),
        ("Windows2022", "[settings.kubernetes]\nmax-pods = 5", "InvalidUserData", "settings of Bottlerocket"),
        (
            "AL2023",
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: [1,",
            "InvalidUserData",
            "not valid YAML",
        ),
        ("AL2023", "apiVersion: node.eks.aws/v1alpha1\nspec: {}", "InvalidUserData", "and kind NodeConfig"),
        (
            "AL2023",
            "apiVersion: node.eks.aws/v2\nkind: NodeConfig",
            "InvalidUserData",
            "has node.eks.aws/v2 NodeConfig",
        ),
        ("AL2023", f"{CONFIG}spec: [1]", "InvalidUserData", "spec of its NodeConfig must be a mapping"),
        ("AL2023", f"{CONFIG}spec: {{kubelet: {{flags: --x}}}}", "InvalidUserData", "must be a list of strings"),
        (
            "AL2023",
            f"{CONFIG}spec: {{kubelet: {{config: {{kubeReserved: {{cpu: 1}}}}}}}}",
            "InvalidUserData",
            "kubeReserved of its NodeConfig has a value that is no text: put that of cpu in quotes",
        ),
        (
            "AL2023",
            f"{CONFIG}spec: {{kubelet: {{config: {{clusterDNS: [10.100.0.10, kube-dns]}}}}}}",
            "WithoutEffect",
            "spec.kubelet.config.clusterDNS has kube-dns, which is no IP address: the kubelet leaves it out",
        ),
        ("AL2023", f"{CONFIG}spec: {{kubelt: {{}}}}", "UnknownField", "spec.kubelt is not known"),
        ("AL2023", f"{CONFIG}---\n{CONFIG}", "InvalidUserData", "this one has 2: write one for each MIME part"),
        ("AL2023", f"{CONFIG}spec: {'[' * 5000}", "InvalidUserData", "nested too deeply"),
        ("AL2023", f"{CONFIG}spec: {'[' * 101}", "InvalidUserData", "nested too deeply"),
        ("AL2023", f"{CONFIG}spec: {'[' * 100}", "InvalidUserData", "not valid YAML"),
        ("AL2023", f"{CONFIG}spec: {{cluster: {{name: mine}}}}", "WithoutEffect", "spec.cluster.name is replaced"),
        (
            "AL2023",
            f"{CONFIG}spec: {{kubelet: {{config: {{maxPods: 9}}}}}}",
            "NotPlanned",
            "plans do not know spec.kubelet.config.maxPods, and kubeletConfiguration.maxPods of a Provisioner replaces",
        ),
        (
            "AL2023",
            f"{CONFIG}spec: {{kubelet: {{config: {{registerWithTaints: []}}}}}}",
            "WithoutEffect",
            "set the taints of the pool",
        ),
        ("AL2023", MIME.format(f"Content-Type: {NODE_CONFIG}\n\nspec: [1,"), "InvalidUserData", "not valid YAML"),
        ("AL2023", MIME.format(f"Content-Type: {BASE64_CONFIG}\n\nc3BlYzogWzEs"), "InvalidUserData", "not valid YAML"),
        ("AL2023", MIME.format(f"Content-Type: {BASE64_CONFIG}\n\n?"), "InvalidUserData", "is not valid base64"),
        ("AL2023", "Content-Type: multipart/mixed\n\n--B\n", "InvalidUserData", "names no boundary"),
        ("AL2023", MIME.format("")[:-4], "InvalidUserData", "no line ends the last part"),
        ("AL2023", MIME.replace("--B", "--C"), "InvalidUserData", "no line begins the first part"),
        ("AL2023", "MIME-Version: 1.0\nfoo\n\n", "InvalidUserData", "no empty line separates headers"),
        ("AL2023", "yum install jq", "WithoutEffect", "does not begin with #!"),
        ("AL2023", "#cloud-config\npackages: [jq]", "WithoutEffect", "as MIME parts with their own Content-Type"),
        ("AL2", "Content-Type: multipart/mixed\n\n--B\n", "InvalidUserData", "names no boundary"),
        ("Ubuntu", "apt install jq", "WithoutEffect", "does not begin with #!"),
        ("AL2", "apiVersion: node.eks.aws/v1alpha1", "InvalidUserData", "only images of the family AL2023 read"),
        ("Custom", "#!/bin/sh\n/etc/eks/bootstrap.sh x", "RegistrationTaintMissing", "does not name the taint"),
        ("Custom", "#!/bin/sh\necho hi", "UserDataJoinsNoCluster", "it names nothing that joins a node to the cluster"),
        (
            "Bottlerocket",
            "[settings.bogus]\na = 1",
            "UnknownField",
            "settings.bogus: Joiner does not know it; a release of Bottlerocket that does not know it refuses all",
        ),
        ("Bottlerocket", "[settings.kernal]", "UnknownField", 'all settings; did you mean "kernel"?'),
    ],
)
def test_user_data_that_a_family_cannot_use_is_reported(
    family: ImageFamily, user_data: str, reason: str, words: str
) -> None:
    there = resolved(replace(TEMPLATE, ami_family=family, user_data=user_data))

    (found,) = [problem for problem in there.problems if problem.reason == reason]
    assert words in found.message
    assert found.message.startswith("spec.userData: ")


READABLE: Mapping[str, str] = {
    "a script": SCRIPT,
    "a NodeConfig": f"---\n{CONFIG}spec: {{featureGates: {{InstanceIdNodeName: true}}}}",
    "JSON": '{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}',
    "MIME": MIME.format(f"Content-Type: {NODE_CONFIG}\n\n{CONFIG}\n--B\nContent-Type: text/x-shellscript\n\n{SCRIPT}"),
    "base64": MIME.format(f"Content-Type: {BASE64_CONFIG}\n\n{base64.b64encode(CONFIG.encode()).decode()}"),
    "cloud-config": MIME.format("Content-Type: text/cloud-config\n\n#cloud-config\npackages: [jq]"),
}


@pytest.mark.parametrize("user_data", READABLE.values(), ids=READABLE)
def test_user_data_that_nodeadm_and_cloud_init_read_has_no_problem(user_data: str) -> None:
    own = NodeSettings(BOOTABLE, own=user_data)

    named = replace(
        TEMPLATE, ami_family="AL2023", user_data=user_data, kind="EC2NodeClass", role="KarpenterNodeRole-prod"
    )
    assert resolved(named).problems == ()
    assert read_node_config(IMAGE_FAMILIES["AL2023"].write_user_data(own).encode()).cluster == "prod"


@pytest.mark.parametrize(
    "user_data",
    [
        "#!/bin/bash\n/etc/eks/bootstrap.sh prod",
        "#!/bin/bash\nnodeadm init",
        "#!/bin/bash\nsystemctl start kubelet",
        "<powershell>\n& $EKSBootstrapScriptFile -EKSClusterName prod\n</powershell>",
        CONFIG,
        '[settings.kubernetes]\ncluster-name = "prod"',
        MIME.format(f"Content-Type: {BASE64_CONFIG}\n\n{base64.b64encode(CONFIG.encode()).decode()}"),
        MIME.format(f"Content-Type: text/x-shellscript\n\n{SCRIPT}kubeadm join"),
        "Content-Type: multipart/mixed\n\nkubelet",
    ],
)
def test_user_data_of_the_family_custom_that_may_join_a_cluster_is_not_said_to_join_none(user_data: str) -> None:
    there = resolved(replace(TEMPLATE, ami_family="Custom", user_data=user_data))

    assert "UserDataJoinsNoCluster" not in {one.reason for one in there.problems}


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_settings_of_bottlerocket_that_it_has_are_no_problem(name: str) -> None:
    there = resolved(replace(TEMPLATE, ami_family="Bottlerocket", user_data=f"[settings.{name}]"))

    assert [one for one in there.problems if "userData" in one.message] == []


@pytest.mark.parametrize(
    "setting",
    [
        'image-minimum-gc-age = "2m"',
        'image-maximum-gc-age = "24h"',
        "ids-per-pod = 65536",
        "max-parallel-image-pulls = 4",
        "fail-cgroupv1 = false",
        "fail-cgroup-v1 = false",
        "[settings.kubernetes.topology-manager-policy-options]\nmax-allowable-numa-nodes = 9",
    ],
)
def test_settings_that_newer_releases_of_bottlerocket_have_are_no_problem(setting: str) -> None:
    own = f"[settings.kubernetes]\n{setting}"

    there = resolved(replace(TEMPLATE, ami_family="Bottlerocket", user_data=own))
    assert [one for one in there.problems if "userData" in one.message] == []
    written = IMAGE_FAMILIES["Bottlerocket"].write_user_data(NodeSettings(BOOTABLE, own=own))
    assert read_bottlerocket_settings(written.encode()).cluster == "prod"


@pytest.mark.parametrize(
    "script",
    [
        POWERSHELL.strip(),
        "#include the settings below\n$a = 1",
        "#! my script\n$a = 1",
        "#cloud-config is for Linux\n$a = 1",
        "[settings.app]::Load()",
        "[settings]\n$a = 1",
        "kind: all",
        "$nuspec = '<package><version>1.0</version></package>'",
        '$project = @"\n<project>\n  <version>1.0</version>\n</project>\n"@',
    ],
)
def test_powershell_that_resembles_other_user_data_is_read(script: str) -> None:
    assert read_own_commands(script) == script


@pytest.mark.parametrize(
    ("field", "entry", "words"),
    [
        ("kubeReserved", {"pid": "100"}, "pid is 100: Bottlerocket reserves cpu, ephemeral-storage and memory only"),
        ("systemReserved", {"pid": "100"}, "pid is 100: Bottlerocket reserves"),
        ("evictionHard", {"memory.available": "100%"}, "memory.available is 100%: Bottlerocket takes shares above 0%"),
    ],
)
def test_kubelet_settings_that_bottlerocket_refuses_are_refused_on_the_class(
    field: str, entry: Mapping[str, str], words: str
) -> None:
    there = resolved(replace(TEMPLATE, ami_family="Bottlerocket", kubelet=KubeletConfiguration({field: dict(entry)})))

    errors = [one.message for one in there.problems if one.reason == "InvalidKubeletSetting"]
    assert [each.partition(words)[0] for each in errors] == [f"spec.kubelet.{field}: "]
